package pending

import (
	"bytes"
	"fmt"

	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
)

// decision answers the open questions, all at once.
type decision struct {
	*keyed
	stored map[int][]indexEntry // by the place of a question: what the store has of its id
	found  sifted               // what the wheel has of what is named
	comes  lostCopies

	remembered bool // the last answer is too late because of what was delivered
}

// decide answers the open questions, in the order of the log.
func (k *keyed) decide() error {
	if err := k.drops.apply(&k.window); err != nil {
		return err
	}
	d := decision{keyed: k}
	if err := d.look(); err != nil {
		return err
	}
	d.comes = lostCopiesOf(k)
	k.deciding = true
	defer func() { k.deciding = false }()
	d.found = sift(&k.wheel, d.keys(), k.questions[0].offset)
	defer d.found.giveBack()
	before := len(k.removed)
	for i := 0; len(k.questions) > 0; i++ {
		q := k.questions[0]
		if q.copied != nil {
			if known, err := d.answerCopy(q); err != nil || !known {
				return err
			}
		} else if d.unseen(q) {
			k.blind = true // until it is read again
			return nil
		} else if err := d.answer(q, d.stored[i]); err != nil {
			return err // what was answered stays so
		}
		delete(k.confirmed, q.offset)
		k.questions = k.questions[1:]
	}
	k.questions = nil
	k.sure, k.dropped, k.takers, k.lost = false, nil, nil, lost{}
	k.forgetIDs(unreadOf(k.removed[before:]))
	return nil
}

// unreadOf are the keys of what only the log holds and was taken away by a handle: which id it has is not known.
func unreadOf(removed []removal) (keys []state.Key) {
	for i := range removed {
		if r := &removed[i]; r.kind == releaseUnread && r.id == nil {
			keys = append(keys, r.key)
		}
	}
	return keys
}

// look finds in the store what the questions name by id.
func (k *decision) look() error {
	if !k.identified {
		return nil
	}
	if err := k.commit(); err != nil {
		return err
	}
	k.stored = map[int][]indexEntry{}
	return k.inStore(func(yield func(int, []byte) bool) {
		for i, q := range k.questions {
			if q.id != nil && !yield(i, q.id) {
				return
			}
		}
	}, func(i int, n indexEntry) { k.stored[i] = append(k.stored[i], n) })
}

// keys are those of what the questions may take away.
func (k *decision) keys() []state.Key {
	keys := make([]state.Key, 0, len(k.questions))
	for i, q := range k.questions {
		if q.dedup && q.then != topics.DuplicateReplaces {
			continue
		}
		if q.id == nil {
			if keys = append(keys, q.names); k.parsers.memory() > 0 {
				keys = append(keys, k.parsers.stubOf(q.names))
			}
			continue
		}
		for _, n := range append(k.ids.find(q.id), k.stored[i]...) {
			keys = append(keys, n.key)
		}
	}
	return keys
}

// unseen reports whether a question names what only the log can tell of: whether it is pending, when the store has failed.
func (k *decision) unseen(q question) bool {
	if q.id != nil || k.store != nil || !k.horizon.Less(q.names) || k.late.at(q.names.Seq) != nil {
		return false
	}
	if r, near := k.found.take(q.names); near {
		k.found.keep(q.names, r)
		return false
	}
	_, gone := k.gone[q.names]
	return !gone && !k.ledger.Overtaken(q.names.Seq) && beyond{&k.window}.counts(q.names.Seq) == notKnown
}

// answer decides what one record does to what it names; stored is what the store has found of its id.
func (k *decision) answer(q question, stored []indexEntry) error {
	h := k.late.at(q.offset)
	effect, err := k.effectOf(q, h, stored)
	if err != nil {
		return err
	}
	if _, confirmed := k.confirmed[q.offset]; confirmed {
		if !q.dedup || effect != EffectTooLate { // else another one has its id by now, and configuration does not let it replace that
			effect = EffectCancelled
		}
	}
	if q.id != nil {
		k.ids.countQuestions(q.id, -1)
	}
	_, resolved := k.resolved[q.offset]
	switch {
	case resolved: // in at_least_once: it was delivered or dead-lettered by an owner whose checkpoint does not say so
		delete(k.resolved, q.offset)
		h.effect, h.refusal, h.resolve = EffectStale, nil, true
		return nil
	case q.dedup:
		return k.duplicate(q, h, effect)
	case h.key == (state.Key{}):
		h.effect, h.replaced = effect, effect == EffectForward
		return nil
	}
	return k.replace(h, effect)
}

// effectOf takes away what a record names, and says what came of it.
func (k *decision) effectOf(q question, h *held, stored []indexEntry) (Effect, error) {
	switch {
	case q.id == nil:
		return k.remove(q.offset, q.names)
	case q.dedup && q.then != topics.DuplicateReplaces:
		return k.taken(q, stored), nil
	}
	hit := false
	for _, e := range k.entries(q, stored) {
		if !q.means(e) {
			continue
		}
		effect, err := k.removeEntry(q, e)
		if err != nil {
			return 0, err
		}
		hit = hit || effect == EffectCancelled
	}
	k.lost.namesID(q.wanted)
	switch {
	case hit:
		return EffectCancelled, nil
	case h.key != (state.Key{}):
		return EffectUnknown, nil
	case q.forwarded:
		return EffectNotHere, nil
	}
	return EffectForward, nil
}

// entries are what has the id of a question.
func (k *decision) entries(q question, stored []indexEntry) []indexEntry {
	return append(append(k.ids.find(q.id), stored...), k.comes.withID(&k.lost, q.id)...)
}

// taken says that it is too late for a record if its id is pending, or remembered. What was found in the store may have been taken away
// since.
func (k *decision) taken(q question, stored []indexEntry) Effect {
	for _, e := range k.entries(q, stored) {
		if _, gone := k.gone[e.key]; !gone && q.means(e) && (!e.stub || q.written <= e.key.Due) {
			k.remembered = e.stub
			return EffectTooLate
		}
	}
	return EffectUnknown
}

// removeEntry takes away what was found by its id. A stub counts as nothing that was pending.
func (k *decision) removeEntry(q question, e indexEntry) (effect Effect, err error) {
	if e.stub {
		_, err = k.keepBack(q.offset, e.key, soughtStub{})
		effect = EffectUnknown
	} else {
		effect, err = k.remove(q.offset, e.key)
	}
	if last := len(k.removed) - 1; last >= 0 && k.removed[last].key == e.key && k.removed[last].id == nil {
		k.removed[last].id = bytes.Clone(q.id) // only the log has the rest of it
	}
	k.ids.remove(q.id, e.key) // of what only the log has nothing else takes it out
	return effect, err
}

// remove takes away the record of a key, if it is pending, and the stub of one that was delivered.
func (k *decision) remove(by int64, key state.Key) (Effect, error) {
	if key.Seq >= by {
		return EffectUnknown, nil
	}
	effect, err := k.takeAway(by, key)
	k.lost.names(key)
	if err == nil && effect == EffectTooLate {
		if stub := k.parsers.stubOf(key); k.lateUpTo.Less(stub) {
			_, err = k.keepBack(by, stub, soughtStub{key})
		}
	}
	return effect, err
}

// takeAway takes away the record of a key.
func (k *decision) takeAway(by int64, key state.Key) (Effect, error) {
	if h := k.late.at(key.Seq); h != nil && h.key == key && !h.effect.Pending() {
		if h.refusal != nil || h.by > 0 || h.effect != EffectNone {
			return EffectTooLate, nil
		}
		h.by, h.replaced = by, k.late.at(by).key != (state.Key{})
		k.removeID(k.near.get(h.ref), key)
		return EffectCancelled, nil
	}
	overtaken := k.ledger.Overtaken(key.Seq)
	if !k.lateUpTo.Less(key) || overtaken && k.store == nil && k.horizon.Less(key) { // what only the log holds is counted still
		return EffectTooLate, nil
	}
	var what soughtRecord
	if k.env.Audit {
		what = soughtRecord{&k.env.Mark, k.parsers}
	}
	effect, err := k.keepBack(by, key, what)
	if effect == EffectUnknown && overtaken {
		effect = EffectTooLate
	}
	return effect, err
}

// keepBack takes a record, or a stub, from where it is held, and keeps it until what has taken it away is committed.
func (k *decision) keepBack(by int64, key state.Key, what sought) (Effect, error) {
	if _, is := k.gone[key]; is {
		return EffectUnknown, nil
	}
	r, taken, err := k.withhold(key, what)
	if _, stub := what.(soughtStub); !taken && !stub {
		r, taken = k.comes.take(&k.lost, key)
	}
	if err != nil || !taken {
		return EffectUnknown, err
	}
	k.markGone(key)
	_, stub := what.(soughtStub)
	k.removed = append(k.removed, removal{by, stub, r})
	k.own.takeAway(key, by)
	return EffectCancelled, nil
}

// withhold takes what is looked for from where it is held, and has the ledger keep it.
func (k *decision) withhold(key state.Key, what sought) (r release, taken bool, err error) {
	if at, near := k.found.take(key); near {
		run := k.near.get(at)
		if !what.means(run) {
			k.found.keep(key, at)
			return r, false, nil
		}
		r = what.withhold(&k.window, key, run)
		k.removeID(run, key)
		k.near.release(at)
		return r, true, nil
	}
	switch {
	case !k.horizon.Less(key) || beyond{&k.window}.counts(key.Seq) == isNot:
		return r, false, nil
	case k.store == nil: // what it counts as pending there is read again, and taken away then
		return release{kind: releaseUnread, offset: key.Seq, key: key}, true, nil
	}
	if err := k.commit(); err != nil {
		return r, false, err
	}
	err = k.get(key, func(run []byte) {
		if taken = what.means(run) && k.ledger.Has(counted(key, run).Offset); taken {
			r = what.withhold(&k.window, key, run)
		}
	})
	if err != nil {
		err = fmt.Errorf("look for a record in the store that is to be taken away: %w", err)
	} else if taken && r.id != nil {
		k.ids.remove(r.id, key) // the batch that it came with may have been committed since
	}
	return r, taken, err
}

// duplicate decides what becomes of a record with an id, by what it has done to those that have the same one.
func (k *decision) duplicate(q question, h *held, effect Effect) error {
	h.effect = EffectNone
	switch {
	case h.refusal != nil:
	case effect != EffectTooLate:
		return k.accept(h, effect == EffectCancelled)
	case q.then == topics.DuplicateIgnored:
		h.effect = EffectIgnored
	default:
		h.refusal = topics.Duplicate(q.id, runIDPlace(k.near.get(h.ref)) == idInKey, k.remembered)
		h.refusal.Header = k.env.Route.Header(h.refusal.Header)
	}
	h.resolve = k.replayed(h)
	return nil
}

// replayed reports whether a replay would take a record that is refused for pending, or for delivered.
func (k *decision) replayed(h *held) bool {
	return k.lateUpTo.Less(h.key) || k.parsers.leaves(h.key, k.near.get(h.ref), k.lateUpTo) != (state.Key{})
}

// replace decides what becomes of a replacement, by what it has done to what it names.
func (k *decision) replace(h *held, effect Effect) error {
	if effect != EffectCancelled && h.refusal == nil && !k.env.Route.ReplacesLate {
		var rec Record
		if err := rec.Decode(k.near.get(h.ref)); err != nil {
			panic("pending: BUG: " + err.Error())
		}
		h.refusal = k.env.Route.TooLateToReplace(rec.Headers, effect == EffectTooLate)
	}
	h.effect = EffectNone
	if h.refusal != nil {
		h.resolve = k.replayed(h)
		return nil
	}
	return k.accept(h, effect == EffectCancelled)
}

// accept makes a record of the late list pending, if it is not late itself.
func (k *decision) accept(h *held, replaces bool) error {
	run := k.near.get(h.ref)
	var rec Record
	if err := rec.Decode(run); err != nil {
		panic("pending: BUG: " + err.Error())
	}
	who := identity{at: runIDPlace(run)}
	if who.at != 0 {
		who.id = rec.id(who.at)
	}
	if !k.lateUpTo.Less(h.key) {
		k.lateID(h, who, rec.Timestamp)
		return nil
	}
	effect := EffectAccepted
	if replaces {
		effect = EffectReplaced
	}
	at, noted := h.ref, who.id
	if !k.env.Audit {
		noted = nil
	}
	k.late.note(h, effect, k.near, noted)
	k.ledger.Release(h.offset)
	k.longest.see(h.key.Due, rec.Timestamp)
	if !k.horizon.Less(h.key) {
		if who.id != nil {
			k.ids.add(who.id, indexEntry{key: h.key, written: rec.Timestamp})
		}
		k.pend(h.key, h.offset, weight(run), at)
		return nil
	}
	defer k.near.release(at)
	return k.keepFar(h.key, h.offset, run, who, rec.Timestamp)
}

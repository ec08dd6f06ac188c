package pending

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
	"github.com/duewheel/duewheel/wheel"
)

// A pending record may be carried: written again at the end of the log, so that the log below can go. Its copy stands for it, with the same
// key. What a copy does is decided as what a cancel does is, in the order of the log: in a replay it takes the place of its record; at or
// above O it does so if that is pending, or if that was lost (lost.go). Else its record was resolved
// meanwhile. Then a resolve record says so, since a replay that begins above the record would find the copy alone.
//
// Until O has passed a copy, L stays at or below the place that it was copied from, even if its record is cancelled meanwhile: the next owner has to
// find the record, and what has cancelled it, in order to decide the same.

// span is the range of the seqs of copies, as far as a partition has seen any.
type span struct {
	seen        bool
	first, last int64
}

func (s *span) see(seq int64) {
	if !s.seen {
		*s = span{true, seq, seq}
	}
	s.first, s.last = min(s.first, seq), max(s.last, seq)
}

func (s *span) has(seq int64) bool { return s.seen && s.first <= seq && seq <= s.last }

// below is the offset up to which no parser is needed any more where L is low: that of a copy holds where its record was first.
func (s *span) below(low int64) int64 {
	if s.seen {
		return min(low, s.first)
	}
	return low
}

// copyOf is a copy that was read.
type copyOf struct {
	key      state.Key
	own      bool  // this replica has appended it: from is where its record lay
	by       int64 // and this has taken that away; 0: nothing has, or it is not known
	from     int64 // where its record lay when it was copied
	at       int64 // its own offset
	run      []byte
	stub     state.Key // not zero: its record is resolved, and may have left this
	written  int64     // ms: the timestamp of the record
	appended int64     // and its own
}

// copying takes in copies.
type copying struct{ *keyed }

// moving has copies take the places of their records.
type moving struct{ *window }

// take takes in a copy. r is what it stands for, at the offset of the copy.
func (k copying) take(r *kgo.Record, c topics.Copy, req *topics.Request, appended int64) error {
	cp, who := copyOf{key: state.Key{Due: c.Due, Seq: c.Seq}, from: c.From, at: r.Offset, written: c.Timestamp, appended: appended}, identityOf(req)
	cp.own, cp.by = k.own.take(cp.key, c.From)
	k.copied.see(c.Seq)
	k.wheel.sees(req.Target)
	if !k.lateUpTo.Less(cp.key) {
		if who.id != nil {
			cp.stub = k.parsers.stubOf(cp.key)
		}
		if !k.lateUpTo.Less(cp.stub) {
			if cp.by > 0 && r.Offset >= k.accepted { // which is told: W has passed it meanwhile, and the log may begin between what has taken it away and this
				k.stale(r, &cp)
			}
			return nil // its record is resolved, and has left nothing
		}
	}
	k.copyRun = appendCopy(k.copyRun[:0], r, who.at, origin{c.Seq, c.From})
	cp.run = k.copyRun
	near := sift(&k.wheel, nil, 0)
	if r.Offset < k.accepted {
		return k.replay(cp, &near)
	}
	k.holds.add(c.From, r.Offset+1)
	if k.live && len(k.questions) == 0 && !k.blind {
		stands, err := k.stands(cp, &near)
		if err != nil || stands == isSo {
			return err
		}
		if stands == isNot {
			k.stale(r, &cp)
			return nil
		}
	}
	h := held{key: cp.key, offset: r.Offset, effect: EffectUnjudged, ref: k.near.put(cp.key.Due, cp.run, false)}
	h.size = int32(len(cp.run))
	k.late.add(h)
	k.ledger.Hold(r.Offset)
	k.questions = append(k.questions, question{offset: r.Offset, names: cp.key, written: appended, copied: &cp})
	if cp.from < k.lost.below && who.id != nil {
		k.ids.countQuestions(who.id, 1) // it may be pending, and nothing else has its id
	}
	return nil
}

// stale takes in a copy whose record was resolved meanwhile.
func (k copying) stale(r *kgo.Record, cp *copyOf) {
	k.addLate(&kgo.Record{Offset: r.Offset, Timestamp: r.Timestamp}, held{key: cp.key, resolve: true, effect: EffectStale, by: takenBy(k.keyed, cp.key, cp.by)}, 0)
}

// replay takes in a copy below O.
func (k copying) replay(cp copyOf, near *sifted) error {
	if cp.stub != (state.Key{}) {
		return k.replayStub(cp.key, cp.at, cp.written, runID(cp.run))
	}
	found, err := moving{&k.window}.move(cp, near)
	if err != nil || found == isSo {
		return err
	}
	if k.ledger.Has(cp.at) { // only what the store holds can be known before it is read
		stubs{&k.window}.deleteEarly(cp.key, cp.at, runID(cp.run))
	}
	return moving{&k.window}.keepRun(cp, near)
}

// replayStub keeps the stub of a record below W that lies at an offset below O, if it has left one, and the partition does not have it where another copy
// lies.
func (k copying) replayStub(of state.Key, offset, written int64, id []byte) error {
	w := stubs{&k.window}
	if !w.isLeft(of, id) {
		return nil
	}
	stub := k.parsers.stubOf(of)
	if k.copied.has(of.Seq) && !k.ledger.Has(offset) {
		if err := k.drops.apply(&k.window); err != nil { // what is about to go would not be told from what comes
			return err
		}
		if has, err := w.has(stub, id); has || err != nil {
			return err
		}
	}
	w.leave(stub, of, offset, written, id)
	return nil
}

// verdict is whether something is so, if that is known.
type verdict uint8

const (
	isNot verdict = iota
	isSo
	notKnown // what only the log has is to be read again
)

// stands decides whether a copy at or above O stands for its record, and has it do so.
func (k copying) stands(cp copyOf, near *sifted) (verdict, error) {
	lost := k.lost.has(&cp)
	if cp.stub != (state.Key{}) {
		return k.remembers(cp, lost, near)
	}
	if _, gone := k.gone[cp.key]; gone {
		return isNot, nil
	}
	found, err := moving{&k.window}.move(cp, near)
	if err != nil || found != isNot || !lost {
		return found, err
	}
	return isSo, moving{&k.window}.keepRun(cp, near)
}

// remembers reports whether the record of a copy has left a stub, and keeps it if it is to: what is read behind the copy may take it away.
func (k copying) remembers(cp copyOf, leave bool, near *sifted) (verdict, error) {
	has, err := stubs{&k.window}.has(cp.stub, runID(cp.run))
	switch {
	case err != nil || has:
		return isSo, err
	case !leave:
		return isNot, nil
	}
	stubs{&k.window}.leave(cp.stub, cp.key, cp.at, cp.written, runID(cp.run))
	if r, is := k.wheel.Remove(wheel.Tick(cp.stub.Due), cp.stub.Seq); is {
		near.keep(cp.stub, ref(r))
	}
	return isSo, nil
}

// has reports whether there is a stub, by its key and its id.
func (w stubs) has(stub state.Key, id []byte) (found bool, err error) {
	if _, gone := w.gone[stub]; gone {
		return false, nil
	}
	for _, n := range w.ids.find(id) {
		found = found || n.stub && n.key == stub
	}
	if found {
		return found, nil
	}
	if err := w.commit(); err != nil {
		return false, err
	}
	err = w.inStore(func(yield func(int, []byte) bool) { yield(0, id) }, func(_ int, n indexEntry) { found = found || n.stub && n.key == stub })
	return found, err
}

// move has a copy take the place of its record, if that is pending.
func (w moving) move(cp copyOf, near *sifted) (verdict, error) {
	if r, is := near.take(cp.key); is {
		run := w.near.get(r)
		place, err := recordOffset(run)
		if err != nil {
			return isNot, err
		}
		if place == cp.at {
			near.keep(cp.key, r)
			return isSo, nil
		}
		was, stored := weight(run), w.store != nil || r.stored()
		near.keep(cp.key, w.near.put(cp.key.Due, cp.run, stored))
		w.near.release(r)
		w.relocate(cp, place, was, stored)
		return isSo, w.rewrite(cp)
	}
	switch {
	case (w.live || w.store == nil) && !w.horizon.Less(cp.key):
		return isNot, nil
	case w.store == nil:
		return w.moveUnseen(cp), nil
	}
	place, was, is := cp.from, weight(cp.run), cp.own && w.ledger.Has(cp.from)
	if !is { // another copy may have taken its place already, or what it says of itself is not true
		if err := w.commit(); err != nil {
			return isNot, err
		}
		err := w.get(cp.key, func(run []byte) {
			x := counted(cp.key, run)
			place, was, is = x.Offset, x.Bytes, !x.Stub && w.ledger.Has(x.Offset)
		})
		if err != nil {
			return isNot, fmt.Errorf("look for a record in the store that was carried: %w", err)
		}
	}
	if !is {
		return isNot, nil
	}
	w.relocate(cp, place, was, true)
	if !w.horizon.Less(cp.key) {
		w.wheel.Add(wheel.Tick(cp.key.Due), cp.key.Seq, uint64(w.near.put(cp.key.Due, cp.run, true)))
	}
	return isSo, w.rewrite(cp)
}

// relocate has ledger and store count a record where its copy lies, and as what that weighs: the same, unless somebody else has made the copy.
func (w moving) relocate(cp copyOf, place int64, was int, stored bool) {
	if place != cp.at {
		if w.store != nil {
			w.store.Uncount(state.Counted{Key: cp.key, Offset: place, Bytes: was})
		}
		w.ledger.Move(cp.key, place, cp.at, was, stored)
	}
	if now := weight(cp.run); now != was {
		w.ledger.Remove(cp.key, cp.at, was, stored)
		w.ledger.Add(cp.key, cp.at, now, stored)
	}
}

// rewrite has the store hold a copy in the place of its record: at once, since it may hold that as it was.
func (w moving) rewrite(cp copyOf) error {
	w.longest.see(cp.key.Due, cp.appended)
	id := runID(cp.run)
	if err := w.put(cp.run, id, indexEntry{key: cp.key, written: cp.written}, id != nil && w.ids.has(id, cp.key)); err != nil {
		return fmt.Errorf("store copy %d: %w", cp.at, err)
	}
	return nil
}

// moveUnseen is for a copy of what lies beyond the horizon of a partition without a store. What that has is what it has counted: of one
// that has read all of its log, what nothing has taken away since.
func (w moving) moveUnseen(cp copyOf) verdict {
	counted := w.ledger.Has(cp.from)
	if cp.at < w.accepted { // what is not there becomes pending
		if !counted {
			return isNot
		}
	} else if w.sure {
		if _, is := w.dropped[cp.key]; is || !counted && cp.from < w.start {
			return isNot
		}
	} else if !w.forgone || !counted {
		w.blind = true
		return notKnown
	}
	if counted {
		w.ledger.Move(cp.key, cp.from, cp.at, weight(cp.run), true)
	} else {
		w.ledger.Add(cp.key, cp.at, weight(cp.run), true) // what took its place goes on counting, until it is read again
	}
	beyond(w).add(cp.key.Seq, cp.at)
	return isSo
}

// keepRun makes a copy pending whose record is not known. The store takes it in even if it is near: what that has counted tells which parsers a replay
// needs.
func (w moving) keepRun(cp copyOf, near *sifted) error {
	if w.horizon.Less(cp.key) {
		w.longest.see(cp.key.Due, cp.appended)
		return w.keepFar(cp.key, cp.at, cp.run, identity{id: runID(cp.run)}, cp.written)
	}
	near.keep(cp.key, w.near.put(cp.key.Due, cp.run, w.store != nil)) // another copy of it may come, or what names it
	w.ledger.Add(cp.key, cp.at, weight(cp.run), w.store != nil)
	return w.rewrite(cp)
}

// answerCopy decides what a copy does that has waited for what lies before it. It reports whether that is known.
func (k *decision) answerCopy(a question) (known bool, err error) {
	h := k.late.at(a.offset)
	cp := *a.copied
	cp.run = append([]byte(nil), k.near.get(h.ref)...) // which may move
	k.ledger.Release(h.offset)                         // it may become pending there
	stands, err := copying{k.keyed}.stands(cp, &k.found)
	if stands != isSo || err != nil {
		k.ledger.Hold(h.offset)
	}
	if err != nil || stands == notKnown {
		return false, err
	}
	if id := runID(cp.run); id != nil && cp.from < k.lost.below {
		k.ids.countQuestions(id, -1)
	}
	if stands == isNot {
		h.effect, h.resolve, h.by = EffectStale, true, takenBy(k.keyed, cp.key, cp.by)
		return true, nil
	}
	at := h.ref
	k.late.note(h, EffectCarried, k.near, nil)
	k.near.release(at)
	return true, nil
}

// forgetBelow forgets what the store still holds below an L when all was read that might have moved it from there: it was resolved by what lies below,
// or while the route had a fixed delay, which leaves W alone. Its keys are not known, so all are looked at.
func (w moving) forgetBelow(low int64) error {
	below := func() bool {
		first, ok := w.ledger.First()
		return ok && first < low
	}
	if !below() { // without a store nothing is
		return nil
	}
	if err := w.Sync(); err != nil { // a scan sees what is committed
		return err
	}
	var failed error
	n := 0
	err := w.scan(w.lateUpTo, func(k state.Key, run []byte) bool {
		if offset, err := recordOffset(run); err == nil && offset < low && w.ledger.Has(offset) {
			stubs(w).uncount(k, offset, run, true)
			w.erase(k, run)
			if n++; n%forgetAtOnce == 0 {
				failed = w.commit()
			}
		}
		return failed == nil && below()
	})
	if err = errors.Join(err, failed); err != nil {
		return fmt.Errorf("forget what lies below L: %w", err)
	}
	return nil
}

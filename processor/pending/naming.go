package pending

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
)

// Some records name another one, to cancel it or to take its place. What such a record does is decided once, in a live partition, when what
// it names is pending or is not; it is resolved when O passes it, as a late record is. Until that is committed a crash would have it decided
// anew. So what it has taken away is kept as if it were pending, by L and by the store, and the next owner finds it and decides the same.
// A late record is not kept: O may pass it before it passes what has taken it away. Then a resolve record says so.
//
// In a replay of [L, O) all has been decided: what a record names is taken away if it is there.

// Effect is what a record has done to the one that it names.
type Effect uint8

const (
	EffectNone      Effect = iota // it names none: it is delivered, or dead-lettered
	EffectUnjudged                // not decided yet
	EffectCancelled               // what it names is not delivered
	EffectTooLate                 // what it names was delivered or dead-lettered, or is about to be
	EffectUnknown                 // nothing of that name is pending, and nothing was
	EffectForward                 // it names a record of another partition, which decides
	EffectReplaced                // of a replacement: it is pending itself, in the place of what it names
	EffectAccepted                // it names none, and is pending itself: the audit topic tells so when O passes it
	effects
)

var effectNames = [effects]string{"none", "unjudged", "cancelled", "too_late", "unknown", "forwarded", "replaced", "accepted"}

// String is the word for it, as metrics have it.
func (e Effect) String() string { return effectNames[e] }

// Pending reports whether the record is pending itself: what is on the list of what O passes is a note about it, without its bytes.
func (e Effect) Pending() bool { return e == EffectReplaced || e == EffectAccepted }

// Effects are how often each came about.
type Effects [effects]int64

// naming is about the records that name others.
type naming struct {
	asks    []ask              // in the order of the log: what is to be decided
	told    map[int64]struct{} // by offset: a resolve record says that it has taken a late record away
	removed map[int64]release  // by the offset of what has done so: what was taken away
	effects Effects            // of what was settled since they were last asked for

	releases []release // what is given up when the checkpoint is committed
}

// release is what the ledger gives up: an offset below which the store's resume stays, or with a key a record that was cancelled or replaced.
type release struct {
	offset int64
	key    state.Key
	far    bool // only the log holds it: the ledger goes on counting it until it is read again
}

// ask is a question: what has the record at an offset done to what it names?
type ask struct {
	offset int64
	names  state.Key
}

func keyOf(h topics.Handle) state.Key { return state.Key{Due: h.Due, Seq: h.Offset} }

// TakeEffects returns how often each effect came about since it was last called, of what was settled.
func (p *Partition) TakeEffects() Effects {
	e := p.effects
	p.effects = Effects{}
	return e
}

// cancel takes in a record that cancels another one.
func (k *keyed) cancel(r *kgo.Record, req *topics.Request) error {
	here := req.Forwarded || req.Here
	switch {
	case r.Offset < k.accepted && here:
		k.replay(r.Offset, keyOf(req.Handle))
	case r.Offset < k.accepted: // it was forwarded
	case here:
		if !k.env.Route.CancelsAnswered {
			of := r
			r = &kgo.Record{Offset: of.Offset, Timestamp: of.Timestamp} // nothing will be written for it
			if k.env.Audit {
				r.Headers = of.Headers // but for what tells of the one that it names
			}
		}
		k.ask(r, held{}, keyOf(req.Handle))
	default:
		k.addLate(r, held{effect: EffectForward})
	}
	return nil
}

// replay takes away what a record below O names. What was resolved otherwise is at or below W, or a resolve record names it.
func (k *keyed) replay(offset int64, names state.Key) {
	if names.Seq < offset {
		k.window.drop(names)
	}
}

// ask keeps a record that names another one until what it does can be decided.
func (k *keyed) ask(r *kgo.Record, h held, names state.Key) {
	h.effect = EffectUnjudged
	k.addLate(r, h)
	k.asks = append(k.asks, ask{r.Offset, names})
}

// resolve applies a resolve record of ours: what it names is not pending any more, and what has taken that away need not look for it.
func (k *keyed) resolve(key state.Key, by int64) error {
	if h := k.late.at(by); h != nil && h.effect == EffectUnjudged {
		if k.told == nil {
			k.told = map[int64]struct{}{}
		}
		k.told[by] = struct{}{}
	}
	k.window.drop(key)
	return nil
}

// Load brings what is due soon into memory, and decides what records do that name others.
func (k *keyed) Load(now int64, room Room) error {
	if k.live && len(k.asks) > 0 {
		if err := k.decide(); err != nil {
			return err
		}
	}
	return k.window.Load(now, room)
}

// decide answers what was asked, in the order of the log.
func (k *keyed) decide() error {
	keys := make([]state.Key, len(k.asks))
	for i, a := range k.asks {
		keys[i] = a.names
	}
	near := sift(k.wheel, keys, k.asks[0].offset)
	defer near.giveBack()
	for len(k.asks) > 0 {
		a := k.asks[0]
		h := k.late.at(a.offset)
		effect, err := k.remove(a, &near)
		if err != nil {
			return err
		}
		if _, told := k.told[a.offset]; told {
			effect = EffectCancelled
			delete(k.told, a.offset)
		}
		k.asks = k.asks[1:]
		if h.key == (state.Key{}) {
			h.effect = effect
			continue
		}
		if err := k.replace(h, effect); err != nil {
			return err
		}
	}
	k.asks = nil
	return nil
}

// remove takes away what a record names, if it is pending.
func (k *keyed) remove(a ask, near *sifted) (Effect, error) {
	if a.names.Seq >= a.offset {
		return EffectUnknown, nil
	}
	if h := k.late.at(a.names.Seq); h != nil && h.key == a.names && !h.effect.Pending() {
		if h.refusal != nil || h.by > 0 || h.effect != EffectNone {
			return EffectTooLate, nil
		}
		h.by, h.replaced = a.offset, k.late.at(a.offset).key != (state.Key{})
		return EffectCancelled, nil
	}
	if !k.judge.Less(a.names) {
		return EffectTooLate, nil
	}
	if _, is := k.gone[a.names]; is {
		return EffectUnknown, nil
	}
	taken, err := k.withhold(a.names, near)
	if err != nil || !taken {
		return EffectUnknown, err
	}
	if k.gone == nil {
		k.gone = map[state.Key]struct{}{}
	}
	k.gone[a.names] = struct{}{}
	if k.removed == nil {
		k.removed = map[int64]release{}
	}
	k.removed[a.offset] = release{a.names.Seq, a.names, k.store == nil && k.horizon.Less(a.names)}
	return EffectCancelled, nil
}

// withhold takes a record from where it is held, and has the ledger keep it.
func (w *window) withhold(key state.Key, in *sifted) (taken bool, err error) {
	if r, near := in.take(key); near {
		run := w.near.get(r)
		w.ledger.Withhold(key, key.Seq, len(run))
		w.near.release(r)
		taken = true
	} else if !w.horizon.Less(key) || !w.ledger.Has(key.Seq) {
		return false, nil
	} else if w.store == nil {
		return true, nil // what it counts as pending there is read again, and taken away then
	} else {
		if err := w.commit(); err != nil {
			return false, err
		}
		taken, err = w.store.Get(key, func(run []byte) { w.ledger.Withhold(key, key.Seq, len(run)) })
		if err != nil {
			return false, fmt.Errorf("look for a record in the store that is to be taken away: %w", err)
		}
	}
	return taken, nil
}

// replace decides what becomes of a replacement, by what it has done to what it names.
func (k *keyed) replace(h *held, effect Effect) error {
	above := k.judge.Less(h.key)
	var rec Record
	if err := rec.Decode(k.near.get(h.ref)); err != nil {
		panic("pending: BUG: " + err.Error())
	}
	if effect != EffectCancelled && h.refusal == nil && !k.env.Route.ReplacesLate {
		h.refusal = topics.TooLateToReplace(rec.Headers, effect == EffectTooLate)
	}
	h.effect = EffectNone
	switch {
	case h.refusal != nil:
		h.resolve = above
		return nil
	case !above:
		return nil // it is late itself
	}
	h.effect = EffectReplaced
	k.late.bytes -= int64(h.size)
	k.late.notes++
	h.size = 0
	k.ledger.Release(h.offset)
	run := k.near.get(h.ref)
	k.longest.see(h.key.Due, rec.Timestamp)
	if !k.horizon.Less(h.key) {
		k.pend(h.key, h.offset, len(run), h.ref)
		return nil
	}
	defer k.near.release(h.ref)
	k.ledger.Add(h.key, h.offset, len(run), true)
	if k.store == nil {
		return nil
	}
	if err := k.store.Put(h.key, run); err != nil {
		return fmt.Errorf("store replacement %d: %w", h.offset, err)
	}
	k.dirty = true
	return nil
}

// tookAway notes for the audit topic what was pending, and was taken away by late records.
func (n *naming) tookAway(late []Item) {
	for i := range late {
		if r, has := n.removed[late[i].Offset]; has {
			late[i].Took = &r.key
		}
	}
}

// conclude takes in that a late record is resolved.
func (n *naming) conclude(it *Item) {
	n.effects[it.Effect]++
	if r, has := n.removed[it.Offset]; has {
		delete(n.removed, it.Offset)
		n.releases = append(n.releases, r)
	}
}

// giveUp gives up what was kept for a checkpoint that is committed by now.
func (r release) giveUp(w *window) {
	switch {
	case r.far:
		return
	case r.key == (state.Key{}):
		w.ledger.Release(r.offset)
		return
	}
	w.ledger.Forget(r.offset)
	delete(w.gone, r.key)
	if w.store != nil {
		_ = w.store.Delete(r.key) // in the open batch, which takes it
		w.dirty = true
	}
}

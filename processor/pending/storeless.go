package pending

import (
	"cmp"
	"math"
	"slices"

	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/wheel"
)

// A partition without a store holds in memory what is due first, as much as its share of the near
// budget. What lies above its horizon is counted and forgotten: the ledger knows that it is
// pending, so L stays below it, and the log has it. When what memory holds is used up, the
// partition is read again from its checkpoint, with a later horizon. While its pending records fit
// into memory, the horizon is beyond all of them and nothing is read again.
//
// Two things keep it right. Only what is in the wheel is ever taken out of the ledger, so what the
// ledger counts beyond the wheel is at least what is pending there, and L is at most too low; a
// resolve record for a key above the horizon therefore changes nothing of that, until it is read again:
// what is taken away there is marked as gone, so that nothing else finds it. And
// W is the key of a record that was in the wheel, so it does not pass the horizon.

// farthest is the horizon of a partition whose pending records are all in memory.
var farthest = state.Key{Due: math.MaxInt64, Seq: math.MaxInt64}

// HasStore reports whether it uses the store.
func (w *index) HasStore() bool { return w.store != nil }

// Forgo goes on without the store: what only the store held has been counted, and is read again in
// time. Nothing that is in memory is lost or waits.
func (w *window) Forgo() {
	scouting{w}.end()
	w.store, w.dirty, w.spent, w.passed, w.forgone = nil, false, 0, nil, true
	w.blind, w.identified = w.identified, false
	w.forgetDeleted()
}

// shorten makes the horizon of a partition without a store nearer when it takes more than its share
// of memory, so that half of that is free again. A live one keeps at least what is due at once, and
// pauses reading instead; one that is not live keeps at least what is due first. Some bytes are held that
// cannot be given back.
func (w *window) shorten(now, share, held int64) {
	takes := w.Memory()
	if takes <= share {
		w.shortened = 0
		return
	}
	if takes < w.shortened+share/4 {
		return // there was nothing to give back a moment ago
	}
	keep := share/2 + held
	limit := w.near.stretchAt(keep)
	if w.live {
		limit = max(limit, max(now, w.lateUpTo.Due)+LeastWindow+1)
	} else if next, ok := w.wheel.Next(); ok {
		limit = max(limit, endOfStretch(int64(next)))
	}
	if limit <= w.horizon.Due {
		w.wheel.TakeFrom(wheel.Tick(limit), func(e wheel.Entry) { evict(w, e) })
		w.horizon = state.Key{Due: limit - 1, Seq: math.MaxInt64}
	}
	if !w.live && w.near.bytes > keep && w.wheel.Len() > 1 {
		w.split(keep)
	}
	w.shortened = w.Memory()
}

// Blind reports whether the store has failed, and with it ids that only it held, or what it had laid aside: only the log tells them again.
func (w *index) Blind() bool { return w.blind }

// UsedUp reports whether a live partition without a store has records beyond its horizon whose time
// comes near, and room for them, or does not know the ids of some: it is to be read again.
func (w *window) UsedUp(now int64, room Room) bool {
	ahead := w.horizon.Due - max(now, w.lateUpTo.Due)
	if w.live && w.blind {
		return true
	}
	return w.live && w.Far() > 0 && ahead <= room.Most/2 && (w.near.bytes <= room.Share/4 || w.wheel.Len() == 0)
}

// Horizon is the key up to which its pending records are in memory.
func (w *window) Horizon() state.Key { return w.horizon }

// evict drops the bytes of a record from memory; the ledger still counts the record.
func evict(w *window, e wheel.Entry) {
	r := ref(e.Ref)
	if offset, err := recordOffset(w.near.get(r)); err == nil && !r.stored() {
		w.ledger.Stored(offset) // the log does, as far as it matters here
		beyond{w}.add(e.Seq, offset)
	}
	w.near.release(r)
}

// beyond is what a partition knows of what lies beyond its horizon.
type beyond struct{ *window }

// add takes in that a pending record does, and at which offset.
func (w beyond) add(seq, offset int64) {
	if w.store == nil && seq < offset {
		w.ledger.Displaced.Add(seq)
	}
}

// counts reports whether the ledger counts a record that memory does not hold. Where it lies is known of what has not moved; of copies, without a
// store, which there are. Of those that a store has had it is known among which seqs they are: then the store is asked, or all is read again.
func (w beyond) counts(seq int64) verdict {
	switch {
	case w.ledger.Has(seq):
		return isSo
	case !w.copied.has(seq):
		return isNot
	case w.store != nil:
		return notKnown
	case w.ledger.Displaced.Has(seq):
		return isSo
	case w.forgone:
		return notKnown
	}
	return isNot
}

// split is for many records that are due within one stretch of time: those with the smallest keys
// stay, at most about some bytes of them but at least one, and are copied so that the memory of the
// others is given back.
func (w *window) split(keep int64) {
	var all []wheel.Entry
	w.wheel.TakeFrom(w.wheel.Now(), func(e wheel.Entry) { all = append(all, e) })
	slices.SortFunc(all, func(a, b wheel.Entry) int { return cmp.Or(cmp.Compare(a.Due, b.Due), cmp.Compare(a.Seq, b.Seq)) })
	for i, e := range all {
		if keep <= 0 && i > 0 {
			evict(w, e)
			continue
		}
		r := ref(e.Ref)
		run := w.near.get(r)
		keep -= int64(len(run)) + lengthPrefix
		w.horizon = keyOfEntry(e)
		w.wheel.Add(e.Due, e.Seq, uint64(w.near.put(int64(e.Due), run, r.stored()).to(r.number())))
		w.near.release(r)
	}
}

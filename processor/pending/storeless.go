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
// resolve record for a key above the horizon therefore changes nothing, until it is read again. And
// W is the key of a record that was in the wheel, so it does not pass the horizon.

// farthest is the horizon of a partition whose pending records are all in memory.
var farthest = state.Key{Due: math.MaxInt64, Seq: math.MaxInt64}

// Storeless reports whether it does without a store that it could use.
func (p *Partition) Storeless() bool { return p.store == nil && p.queue == nil }

// HasStore reports whether it uses the store.
func (p *Partition) HasStore() bool { return p.store != nil }

// Forgo goes on without the store: what only the store held has been counted, and is read again in
// time. Nothing that is in memory is lost or waits.
func (p *Partition) Forgo() {
	p.store, p.dirty, p.spent = nil, false, 0
}

// shorten makes the horizon of a partition without a store nearer when it takes more than its share
// of memory, so that half of that is free again. A live one keeps at least what is due at once, and
// pauses reading instead; one that is not live keeps at least what is due first.
func (p *Partition) shorten(now, share int64) {
	takes := p.Memory()
	if takes <= share {
		p.shortened = 0
		return
	}
	if takes < p.shortened+share/4 {
		return // there was nothing to give back a moment ago
	}
	keep := share/2 + p.lateBytes
	limit := p.near.stretchAt(keep)
	if p.live {
		limit = max(limit, max(now, p.judge.Due)+LeastWindow+1)
	} else if next, ok := p.wheel.Next(); ok {
		limit = max(limit, endOfStretch(int64(next)))
	}
	if limit <= p.horizon.Due {
		p.wheel.TakeFrom(wheel.Tick(limit), p.let)
		p.horizon = state.Key{Due: limit - 1, Seq: math.MaxInt64}
	}
	if !p.live && p.near.bytes > keep && p.wheel.Len() > 1 {
		p.split(keep)
	}
	p.shortened = p.Memory()
}

// UsedUp reports whether a live partition without a store has records beyond its horizon whose time
// comes near, and room for them: it is to be read again.
func (p *Partition) UsedUp(now int64, room Room) bool {
	ahead := p.horizon.Due - max(now, p.judge.Due)
	return p.live && p.Far() > 0 && ahead <= room.Most/2 && (p.near.bytes <= room.Share/4 || p.wheel.Len() == 0)
}

// Horizon is the key up to which its pending records are in memory.
func (p *Partition) Horizon() state.Key { return p.horizon }

// Leave keeps it from beginning anything new: it waits for its checkpoint, to be read again.
func (p *Partition) Leave() { p.leaving = true }

// let forgets a record that the ledger goes on counting.
func (p *Partition) let(e wheel.Entry) {
	r := ref(e.Ref)
	if offset, err := recordOffset(p.near.get(r)); err == nil && !r.stored() {
		p.ledger.Stored(offset) // the log does, as far as it matters here
	}
	p.near.release(r)
}

// split is for many records that are due within one stretch of time: those with the smallest keys
// stay, at most about some bytes of them but at least one, and are copied so that the memory of the
// others is given back.
func (p *Partition) split(keep int64) {
	var all []wheel.Entry
	p.wheel.TakeFrom(p.wheel.Now(), func(e wheel.Entry) { all = append(all, e) })
	slices.SortFunc(all, func(a, b wheel.Entry) int { return cmp.Or(cmp.Compare(a.Due, b.Due), cmp.Compare(a.Seq, b.Seq)) })
	for i, e := range all {
		if keep <= 0 && i > 0 {
			p.let(e)
			continue
		}
		r := ref(e.Ref)
		run := p.near.get(r)
		keep -= int64(len(run)) + lengthPrefix
		p.wheel.Add(e.Due, e.Seq, uint64(p.near.put(int64(e.Due), run, r.stored())))
		p.near.release(r)
		p.horizon = state.Key{Due: int64(e.Due), Seq: e.Seq}
	}
}

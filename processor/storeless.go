package processor

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

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

func (p *partition) storeless() bool { return p.store == nil && p.queue == nil && p.wheel != nil }

// forgo goes on without the store: what only the store held has been counted, and is read again in
// time. Nothing that is in memory is lost or waits.
func (p *partition) forgo() {
	p.store, p.dirty, p.spent = nil, false, 0
}

// memory is what the near records of a partition take.
func (p *partition) memory() int64 { return p.near.bytes + int64(p.wheel.Bytes()) }

// share is what of the near budget is meant for one partition.
func (l *lane) share() int64 { return l.nearBudget / int64(max(len(l.parts), 1)) }

// shorten makes the horizon of a partition without a store nearer when it takes more than its share
// of memory, so that half of that is free again. A live one keeps at least what is due at once, and
// pauses reading instead; one that is not live keeps at least what is due first.
func (l *lane) shorten(p *partition, now int64) {
	share, takes := l.share(), p.memory()
	if takes <= share {
		p.shortened = 0
		return
	}
	if takes < p.shortened+share/4 {
		return // there was nothing to give back a moment ago
	}
	keep := share/2 + p.lateBytes
	limit := p.near.stretchAt(keep)
	if p.live() {
		limit = max(limit, max(now, p.judge.Due)+windowFloor+1)
	} else if next, ok := p.wheel.Next(); ok {
		limit = max(limit, endOfStretch(int64(next)))
	}
	if limit <= p.horizon.Due {
		p.wheel.TakeFrom(wheel.Tick(limit), p.let)
		p.horizon = state.Key{Due: limit - 1, Seq: math.MaxInt64}
	}
	if !p.live() && p.near.bytes > keep && p.wheel.Len() > 1 {
		p.split(keep)
	}
	p.shortened = p.memory()
}

// let forgets a record that the ledger goes on counting.
func (p *partition) let(e wheel.Entry) {
	r := ref(e.Ref)
	if offset, err := recordOffset(p.near.get(r)); err == nil && !r.stored() {
		p.ledger.Stored(offset) // the log does, as far as it matters here
	}
	p.near.release(r)
}

// split is for many records that are due within one stretch of time: those with the smallest keys
// stay, at most about some bytes of them but at least one, and are copied so that the memory of the
// others is given back.
func (p *partition) split(keep int64) {
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

const (
	// readAgainRest is how long a partition is at least live between two times that it is read again.
	readAgainRest = time.Second
	// readAgainApart is how long one partition that is being read again holds up the next.
	readAgainApart = 10 * time.Second
)

// readAgain starts over, one after the other, the partitions without a store that need it: because
// there is a store again, or because the time of what memory does not hold comes near.
func (l *lane) readAgain(ctx context.Context, now int64) {
	works := l.p.store.works()
	var next *partition
	for _, p := range l.order {
		if !p.storeless() {
			continue
		}
		if p.phase == PhaseCatchUp && time.Since(l.readAgainAt) < readAgainApart {
			return
		}
		if (works || l.usedUp(p, now)) && p.live() && (next == nil || p.horizon.Less(next.horizon)) {
			next = p
		}
	}
	if next == nil {
		return
	}
	if l.cfg.Guarantee == AtLeastOnce && !next.settled() {
		next.leaving, next.writing.tried = true, time.Time{} // else what was acknowledged comes again
		return
	}
	l.readAgainAt = time.Now()
	if !works {
		l.p.counters.readAgain.Add(1)
	}
	l.log.Debug("partition is read again", "topic", next.tp.Topic, "partition", next.tp.Partition, "with_store", works, "far", next.far())
	l.startOver(ctx, next, 0)
}

// settled reports whether the checkpoint says all that has been delivered.
func (p *partition) settled() bool {
	return p.turns == 0 && len(p.repeat) == 0 && p.done.Offset == p.committed.Offset && p.done.Watermark == p.committed.Watermark
}

// usedUp reports whether a partition has records beyond its horizon whose time comes near, and room
// for them.
func (l *lane) usedUp(p *partition, now int64) bool {
	if !p.live() || p.far() == 0 || time.Since(p.liveAt) < readAgainRest {
		return false
	}
	ahead := p.horizon.Due - max(now, p.judge.Due)
	return ahead <= l.windowMax/2 && (p.near.bytes <= l.share()/4 || p.wheel.Len() == 0)
}

package processor

import (
	"context"
	"time"

	"github.com/duewheel/duewheel/processor/pending"
)

const (
	// readAgainRest is how long a partition is at least live between two times that it is read again.
	readAgainRest = time.Second
	// readAgainApart is how long one partition that is being read again holds up the next.
	readAgainApart = 10 * time.Second
)

// readAgain starts over, one after the other, the partitions without a store that need it: because
// there is a store again, or because the time of what memory does not hold comes near.
func (l *lane) readAgain(ctx context.Context, now int64) {
	works := l.store.Works()
	var next *partition
	for _, p := range l.order {
		if !p.opened() || !p.Storeless() {
			continue
		}
		if p.phase == PhaseCatchUp && time.Since(l.readAgainAt) < readAgainApart {
			return
		}
		switch {
		case !p.live():
		case p.Marks().Leaving: // whatever was the reason may be over by now, but it delivers nothing
			next = p
		case next != nil && (next.Marks().Leaving || !p.Horizon().Less(next.Horizon())):
		case keeps(p) && (!works || !p.Blind()):
		case p.usedUp(now, l.memory.room(len(l.order))):
			next = p
		case !works:
		case !p.endIsFresh():
			p.endAsked = time.Time{} // it may have lost something since it was asked
		default:
			next = p
		}
	}
	if next == nil {
		return
	}
	if l.cfg.Guarantee == AtLeastOnce && !next.Settled() {
		next.Leave() // else what was acknowledged comes again
		next.writing.tried = time.Time{}
		return
	}
	l.readAgainAt = time.Now()
	if !works {
		l.counters.readAgain.Add(1)
	}
	l.log.Debug("partition is read again", "topic", next.tp.Topic, "partition", next.tp.Partition, "with_store", works, "far", next.Far())
	l.startOver(ctx, next, 0)
}

// keeps reports whether memory holds something of a log that has lost what is pending. That cannot be read again, so it is delivered first; unless the store, which it was brought to when
// that was seen, works again, and the partition waits for that.
func keeps(p *partition) bool {
	return p.loss != nil && (p.Pending() > int64(p.Far()) || p.Undecided() > 0 || len(p.Repeated()) > 0)
}

// usedUp reports whether a partition is to be read again because what memory holds is used up.
func (p *partition) usedUp(now int64, room pending.Room) bool {
	return p.live() && time.Since(p.liveAt) >= readAgainRest && p.UsedUp(now, room)
}

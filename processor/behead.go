package processor

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/pending"
	"github.com/duewheel/duewheel/state"
)

// beheading is what a lane does with a live partition whose reader is told that the log has nothing where it is: it begins above that now, as after
// DeleteRecords by hand, or has lost its end. In the first case what is held is delivered. It is not read again, since what lies below the log's start has no
// other copy.
type beheading struct{ *lane }

// heard has that go on at once which waits for where a log begins.
func (l beheading) heard() {
	if slices.ContainsFunc(l.order, func(p *partition) bool { return !p.beheaded.IsZero() }) {
		l.tidiedAt = time.Time{}
	}
}

// tidy does what follows, and reports whether it has started a partition over: one that has lost the end of its log, or has nothing left to deliver. With accept_loss it is read
// on from where its log begins, when the disk has what it holds, and nothing is dropped.
func (l beheading) tidy(ctx context.Context) (startedOver bool) {
	for _, p := range l.order {
		if p.beheaded.IsZero() {
			continue
		}
		switch position := p.Marks().Position; {
		case !p.endAsked.After(p.beheaded):
			p.endAsked = time.Time{} // it is asked for at once
		case position >= p.logStart:
			l.restart(ctx, p, fmt.Errorf("the log does not go on at offset %d", position))
			return true
		case l.cfg.AcceptLoss && l.bears(p):
			l.readOn(ctx, p)
			return true // a poll may have brought something meanwhile
		case l.cfg.AcceptLoss:
		case !holds(p) && p.Settled():
			l.restart(ctx, p, fmt.Errorf("%w: what lay from offset %d to %d was never read", ErrLogTruncated, position, p.logStart))
			return true
		}
	}
	return false
}

// tell has the group leave the lane what its logs have lost and this process holds, and share it out like all else when that is delivered.
func (l beheading) tell() {
	var alone []kafka.TopicPartition
	for _, p := range l.order {
		if p.loss != nil {
			alone = append(alone, p.tp)
		}
	}
	was := l.holdsAlone()
	l.alone.Store(&alone)
	if len(alone) < len(was) {
		l.membership.Rebalance()
	}
}

// save has the store hold what this process holds of what logs have lost, of one partition at a time while there is room, and be on the disk then: so it outlives the
// process. It says of which partition there was an error.
func (l beheading) save() (*partition, error) {
	room := l.store.HasRoom()
	for _, p := range l.order {
		if p.loss == nil || p.saved >= p.logStart {
			continue
		}
		if p.stored < p.logStart && room {
			room = false
			all, err := pending.Saving{Partition: p.Partition}.Some(pending.SpillBytes)
			if err != nil {
				return p, err
			}
			if all {
				p.stored = p.logStart
			}
		}
		if p.stored >= p.logStart {
			if err := l.bear(p); err != nil {
				return p, err
			}
		}
	}
	return nil, nil
}

// bear has the store say that it has what the log has lost, when O has passed that, as what is above the O of a store is read again. What a turn has, or is late,
// is in memory alone until it is resolved.
func (l beheading) bear(p *partition) error {
	m := p.Marks()
	if upTo := min(p.logStart, m.Position); m.Committed.Offset < upTo || (pending.Saving{Partition: p.Partition}).Reaches() < upTo {
		return nil
	}
	p.saved = p.logStart
	if err := p.Tidy(true); err != nil {
		return err
	}
	p.flush = l.store.Bear(l.cfg.AcceptLoss)
	return nil
}

// readOnWithin is how long a partition waits at most to be read on from where its log begins for what it holds to be on the disk: a kill while that is not known there gives
// up all that the store has.
const readOnWithin = 10 * time.Second

// bears reports whether what a partition holds of what its log has lost is on the disk, or will not be soon.
func (l beheading) bears(p *partition) bool {
	if p.loss == nil || !p.HasStore() || time.Since(p.beheaded) > readOnWithin {
		return true
	}
	return p.saved >= p.logStart && l.store.Flushed(p.flush)
}

// readOn reads a partition on from where its log begins.
func (l beheading) readOn(ctx context.Context, p *partition) {
	l.stopPoll(ctx)
	if l.partitions[p.tp] != p {
		return
	}
	p.log.Error("going on although the log has lost records that were not read", "position", p.Marks().Position, "log_start", p.logStart)
	p.Pass(p.logStart, state.NoEpoch)
	p.beheaded, p.loss, p.stored, p.saved = time.Time{}, nil, 0, 0
	p.checkLog()                  // what it holds has the disk bear that it was read on
	p.writing.tried = time.Time{} // as soon as the checkpoint does
	l.reading.add(p.tp, p.logStart, state.NoEpoch)
	l.balancedAt = time.Time{}
}

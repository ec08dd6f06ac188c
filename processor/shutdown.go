package processor

import (
	"context"
	"errors"
	"time"

	"github.com/duewheel/duewheel/processor/local"
	"github.com/duewheel/duewheel/processor/pending"
	"github.com/duewheel/duewheel/processor/wait"
	"github.com/duewheel/duewheel/state"
)

// shutdown finishes what is open, writes the checkpoints, and leaves the group.
func (l *lane) shutdown() {
	ctx := l.until
	l.turns.stopping = true
	l.restores.Cancel(nil)
	for _, p := range l.order {
		l.events.tell(Event{Kind: EventLeaving}, p.tp)
	}
	l.stopPoll(ctx)
	l.awaitTurn(ctx)
	l.restores.Cancel(nil) // what its outcome has begun
	l.checkpoints.last(ctx, l.order, l.membership)
	l.storePositions(l.order)
	l.membership.Leave()
	l.storeAll(ctx, l.order) // others need not wait for that
	// Callbacks of the leaving client do not wait any more; what they still hand over is passed over.
	for {
		select {
		case <-l.group.Handovers():
		case <-l.restores.Restored:
		case <-l.membership.Left():
			return
		case <-ctx.Done():
			return
		}
	}
}

// storePositions has the local store know where each partition stands: a restart reads what comes after that, and goes on from there if the group's
// offsets have expired meanwhile.
func (k *kit) storePositions(ps []*partition) {
	for _, p := range ps {
		if p.live() {
			k.storeFails(p, p.Tidy(true))
		}
	}
}

// storeAll has the local store hold what only memory holds, too, while there is time, where the log may be cut before the next start: then the store is the
// only one that has it. Elsewhere that is not worth the time for which the partition may wait for its next owner.
func (k *kit) storeAll(ctx context.Context, ps []*partition) {
	for _, p := range ps {
		if !p.live() || !mayBeCut(p) {
			continue
		}
		var all bool
		var err error
		for !all && err == nil && ctx.Err() == nil {
			if !k.store.HasRoom() {
				wait.For(ctx, local.RoomPause)
				continue
			}
			all, err = pending.Saving{Partition: p.Partition}.Some(8 * pending.SpillBytes)
		}
		k.storeFails(p, err)
	}
}

// longAway: a log that is not cut before no replica has run for so long is not worth the wait. What is pending is carried when it is half as old as its topic
// keeps, so the other half is how long that takes.
const longAway = 24 * time.Hour

// mayBeCut reports whether a log may be cut above what is pending before the next start, or has been, or is compacted, as far as is known.
func mayBeCut(p *partition) bool {
	keeps := time.Duration(p.stats.Keeps.Load()) * time.Millisecond
	return keeps > 0 && keeps/2 < longAway || p.stats.Trouble.Get() != "" || p.loss != nil
}

// storeFails takes in what has become of the last that the store was told of a partition.
func (k *kit) storeFails(p *partition, err error) {
	switch {
	case errors.Is(err, state.ErrFailed):
		k.store.Failed(err)
	case err != nil:
		p.log.Warn("the local store lacks what was taken in last; the log has it", "error", err)
	}
}

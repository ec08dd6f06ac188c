package processor

import (
	"errors"

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
			if err := p.Tidy(true); errors.Is(err, state.ErrFailed) {
				k.store.Failed(err)
			} else if err != nil {
				k.log.Warn("the local store lacks what was taken in last; the log has it", "topic", p.tp.Topic, "partition", p.tp.Partition, "error", err)
			}
		}
	}
}

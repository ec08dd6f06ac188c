package processor

import (
	"context"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/turn"
)

// turnDecided acts on what became of the turn in flight.
func (l *lane) turnDecided(ctx context.Context, t *turn.Turn) {
	l.turns.conclude(ctx, l.order, t, l.membership)
	if t.Outcome == turn.Unknown {
		l.log.Warn("turn with unknown outcome; its partitions start over from their checkpoints", "error", t.Err, "partitions", len(t.Tried))
		l.dropUnknown(ctx, t)
	}
	if t.Plain {
		l.restartTopics(ctx, l.checkpoints.refused(t))
	}
}

// commitDecided acts on what became of the checkpoints that were written beside turns.
func (l *lane) commitDecided(ctx context.Context, t *turn.Turn) {
	if silent := l.checkpoints.conclude(t); silent && !l.turns.stopping {
		l.endMembership(ctx, t.Err)
		return
	}
	l.restartTopics(ctx, l.checkpoints.refused(t))
}

// dropUnknown drops what was remembered of the partitions of a turn that may or may not have
// happened. A plain commit that was not answered ends the membership as well, because a late
// copy of it must find its generation gone.
func (l *lane) dropUnknown(ctx context.Context, t *turn.Turn) {
	if l.checkpoints.commit != nil && !t.Plain {
		l.awaitTurn(ctx) // a checkpoint that is on its way must not arrive after the partition's restore
	}
	var tps []kafka.TopicPartition
	for _, pt := range t.Lasts() {
		if !partitionOf(pt).dropped { // else it was lost meanwhile
			tps = append(tps, pt.TP)
		}
	}
	switch {
	case l.turns.stopping: // their next owner finds out
		l.drop(ctx, tps)
	case t.Plain:
		l.endMembership(ctx, t.Err)
	default:
		t.Renderer.Forget()
		rest := l.unknowns.Failed()
		l.producers.renew(ctx, rest)
		l.drop(ctx, tps)
		l.restore(ctx, tps, rest)
	}
}

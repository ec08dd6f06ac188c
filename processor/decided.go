package processor

import (
	"context"

	"github.com/duewheel/duewheel/processor/kafka"
)

// turnDecided acts on what became of the turn in flight.
func (l *lane) turnDecided(ctx context.Context, t *turn) {
	l.turns.conclude(ctx, l.order, t, l.membership)
	if t.outcome == outcomeUnknown {
		l.log.Warn("turn with unknown outcome; its partitions start over from their checkpoints", "error", t.err, "partitions", len(t.tried))
		l.dropUnknown(ctx, t)
	}
	if t.plain {
		l.restartTopics(ctx, l.checkpoints.refused(t))
	}
}

// commitDecided acts on what became of the checkpoints that were written beside turns.
func (l *lane) commitDecided(ctx context.Context, t *turn) {
	if silent := l.checkpoints.conclude(t); silent && !l.turns.stopping {
		l.endMembership(ctx, t.err)
		return
	}
	l.restartTopics(ctx, l.checkpoints.refused(t))
}

// dropUnknown drops what was remembered of the partitions of a turn that may or may not have
// happened. A plain commit that was not answered ends the membership as well, because a late
// copy of it must find its generation gone.
func (l *lane) dropUnknown(ctx context.Context, t *turn) {
	if l.checkpoints.commit != nil && !t.plain {
		l.awaitTurn(ctx) // a checkpoint that is on its way must not arrive after the partition's restore
	}
	var tps []kafka.TopicPartition
	for _, pt := range t.lasts() {
		if !pt.p.dropped { // else it was lost meanwhile
			tps = append(tps, pt.p.tp)
		}
	}
	switch {
	case l.turns.stopping: // their next owner finds out
		l.drop(ctx, tps)
	case t.plain:
		l.endMembership(ctx, t.err)
	default:
		t.render.forget()
		rest := l.unknowns.Failed()
		l.producers.renew(ctx, rest)
		l.drop(ctx, tps)
		l.restore(ctx, tps, rest)
	}
}

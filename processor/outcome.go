package processor

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/pending"
)

// took takes in what became of the turn in flight.
func (l *lane) took(ctx context.Context, t *turn) {
	t.cancel()
	l.turn = nil
	if t.producer != nil {
		l.pace.ended(t.began, time.Now(), t.full)
	}
	l.p.counters.turn(t)
	l.events.turn(t)
	l.blame(t)
	if t.narrows || t.rejected != nil {
		l.lost.add(time.Since(t.began))
	}
	for _, pt := range t.parts {
		pt.p.End()
	}
	for _, h := range t.held {
		l.hold(h)
	}
	switch t.outcome {
	case outcomeDone:
		if !t.plain {
			l.aborts = 0
		}
		if !t.plain && len(t.took) > 0 {
			l.timeouts = 0
			l.resize(t)
		}
		l.tookDone(t)
		if t.producer != nil && t.producer.Stale() && !l.stopping {
			l.log.Info("a decision was asked for twice; the producers are renewed before a late copy can decide anything else")
			l.producers.renew(ctx, 0)
		}
	case outcomeAborted:
		if t.plain {
			break
		}
		l.tookGivenUp(ctx, t)
	}
	l.release(ctx, t.outcome == outcomeDone && len(t.held) == 0)
	if t.outcome == outcomeUnknown {
		l.log.Warn("turn with unknown outcome; its partitions start over from their checkpoints", "error", t.err, "partitions", len(t.took))
		l.tookUnknown(ctx, t)
	}
	if t.plain {
		l.tookRefused(ctx, t)
	}
}

// tookGivenUp takes in a turn with records that is known not to have happened.
func (l *lane) tookGivenUp(ctx context.Context, t *turn) {
	if errors.Is(t.err, context.DeadlineExceeded) {
		l.timeouts = min(l.timeouts+1, 5)
		l.resize(t)
	}
	if t.rejected != nil {
		l.tookRejected(t)
	}
	level := slog.LevelWarn
	if kafka.VerdictOf(t.err) == kafka.Refused {
		level = slog.LevelInfo // every rebalance refuses some turn
	}
	l.log.Log(ctx, level, "turn given up; it is tried again", "error", t.err, "partitions", len(t.took))
	l.dropRefused(t)
	l.tookAborted(t)
}

// blame notes which targets have made the turn fail, and that those on trial may be tried again. In
// a turn with unknown outcome a producer was in trouble: that a target was silent says nothing then.
func (l *lane) blame(t *turn) {
	for topic, err := range t.blamed {
		if t.outcome != outcomeUnknown || kafka.IsTargets(err) {
			l.p.targets.failed(topic, err, t.leftBusy)
		}
	}
	t.endTrials()
}

// endTrials lets other turns try the targets that this one had on trial.
func (t *turn) endTrials() {
	for _, target := range t.trials {
		target.trying.Store(false)
	}
	t.trials = nil
}

// heldPause is after what time a part is tried again that could not be.
const heldPause = 250 * time.Millisecond

// hold keeps a part that could not be tried. What comes before the record that can go nowhere has not to
// wait for it, and is tried by itself.
func (l *lane) hold(h heldPart) {
	p := h.part.p
	if h.before > 0 {
		first, second := h.part.Split(h.before)
		p.Repeat(second, 0)
		p.Repeat(first, 0)
		return
	}
	p.Repeat(h.part.Part, l.p.clock.Now()+heldPause.Milliseconds())
	if errors.Is(h.why, errAsking) {
		return
	}
	if p.err == nil || p.err.Error() != h.why.Error() {
		l.log.Warn("partition is held up", "topic", p.tp.Topic, "partition", p.tp.Partition, "error", h.why)
	}
	p.err = h.why
}

// tookAborted keeps the parts of a turn that is known not to have happened: the same O, W and
// records are tried again, so partitions that stay do not pay for a rebalance with a catch-up.
func (l *lane) tookAborted(t *turn) {
	at := int64(0)
	if kafka.VerdictOf(t.err) == kafka.Stop && len(t.blamed) == 0 && len(t.refused) == 0 {
		at = l.p.clock.Now() + pending.LongestPutBack
	}
	if t.rejected == nil && len(t.blamed) == 0 { // else the next turn is a smaller one, or goes around the target
		l.aborts++
	}
	if l.aborts > 4 { // a rebalance refuses a few; what goes on refusing must not be asked at full speed
		at = max(at, l.p.clock.Now()+int64(min(50<<min(l.aborts-4, 5), pending.LongestPutBack)))
	}
	for _, pt := range t.took {
		if len(pt.Items) > 0 {
			pt.p.Repeat(pt.Part, at)
		}
		if at > 0 {
			pt.p.err = t.err
		}
		pt.p.writing.tried = time.Now() // a checkpoint that went along waits for its next time
	}
}

func (l *lane) tookDone(t *turn) {
	now := time.Now()
	for _, pt := range t.took {
		p := pt.p
		if t.refused[pt] != nil {
			continue
		}
		if p.Undecided() == 0 || !t.plain {
			p.answeredAt = now
		}
		if t.plain {
			p.tookCheckpoint(pt, now)
			continue
		}
		p.err = nil
		p.Settle(pt.Part)
		l.recycle(pt)
		if end := t.ownEnds[pt]; end > 0 {
			p.Appended(end)
		}
		if l.cfg.Guarantee == ExactlyOnce {
			p.toldWritten(now)
			p.Committed(pt.Part)
		}
	}
	if t.render != nil {
		l.p.counters.outputs(t)
	}
}

// tookUnknown drops what was remembered of the partitions of a turn that may or may not have
// happened. A plain commit that was not answered ends the membership as well, because a late
// copy of it must find its generation gone.
func (l *lane) tookUnknown(ctx context.Context, t *turn) {
	if l.commit != nil && !t.plain {
		l.awaitTurn(ctx) // a checkpoint that is on its way must not arrive after the partition's restore
	}
	var tps []topicPartition
	for _, pt := range t.took {
		if l.parts[pt.p.tp] == pt.p { // else it was lost meanwhile
			tps = append(tps, pt.p.tp)
		}
	}
	switch {
	case l.stopping: // their next owner finds out
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

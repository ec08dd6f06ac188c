package processor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/pending"
)

// conclude settles what a turn did, or keeps it to be tried again, and lets the one begin that was rendered ahead. A turn with unknown
// outcome is more than it can mend.
func (ts *turns) conclude(ctx context.Context, ps []*partition, t *turn, stay membership) {
	ts.inFlight = nil
	if t.producer != nil {
		ts.pace.ended(t.began, time.Now(), t.full)
	}
	ts.counters.turn(t)
	ts.events.turn(t)
	ts.blame(t)
	if t.narrows || t.rejected != nil {
		ts.selection.lost.add(time.Since(t.began))
	}
	for _, pt := range t.parts {
		pt.p.End()
	}
	for _, h := range t.held {
		ts.hold(h)
	}
	if t.outcome == outcomeDone {
		ts.happened(ctx, t)
	}
	// Where some checkpoints were refused their parts are to be tried again, and nothing may happen before them.
	goesOn := t.outcome == outcomeDone && len(t.held)+len(t.refused) == 0
	if goesOn { // it has not to wait for what takes some ms here
		ts.release(ps, true, stay)
	}
	switch {
	case t.outcome == outcomeDone:
		ts.done(t)
	case t.outcome == outcomeAborted && !t.plain:
		ts.givenUp(ctx, ps, t)
	}
	if t.plain && t.outcome != outcomeUnknown {
		ts.putBack(t)
	}
	ts.concludeCopies(t)
	ts.full = t.full
	if !goesOn {
		ts.release(ps, false, stay)
	}
}

// happened takes in of a turn that happened what the next one has to know.
func (ts *turns) happened(ctx context.Context, t *turn) {
	for _, pt := range t.tried {
		pt.p.Appended(t.ownEnds[pt])
	}
	if t.producer != nil && t.producer.Stale() && !ts.stopping {
		ts.log.Info("a decision was asked for twice; the producers are renewed before a late copy can decide anything else")
		ts.producers.renew(ctx, 0)
	}
}

// done takes in a turn that happened.
func (ts *turns) done(t *turn) {
	if t.plain {
		ts.checkpoints.wrote(t)
	} else {
		ts.aborts = 0
		if len(t.tried) > 0 {
			ts.timeouts = 0
			ts.selection.resize(t)
		}
		ts.settle(t)
	}
}

// givenUp takes in a turn with records that is known not to have happened.
func (ts *turns) givenUp(ctx context.Context, ps []*partition, t *turn) {
	if errors.Is(t.err, context.DeadlineExceeded) {
		ts.timeouts = min(ts.timeouts+1, 5)
		ts.selection.resize(t)
	}
	if t.rejected != nil {
		ts.selection.suspect(ps, t)
	}
	level := slog.LevelWarn
	switch {
	case !ts.gaveUp.Is(codeOf(t.err)):
		level = slog.LevelDebug // the metrics count on
	case kafka.VerdictOf(t.err) == kafka.Refused:
		level = slog.LevelInfo // every rebalance refuses some turn
	}
	ts.log.Log(ctx, level, "turn given up; it is tried again", "error", t.err, "partitions", len(t.tried))
	ts.dropRefused(t)
	ts.repeat(t)
}

// dropRefused takes the parts out of a transaction that is known not to have happened whose offsets
// the coordinator has refused for a reason of their own.
func (ts *turns) dropRefused(t *turn) {
	t.tried = slices.DeleteFunc(t.tried, func(pt *part) bool {
		err := t.refused[pt]
		if err != nil && !pt.p.dropped && pt.p.phase != PhaseStopped {
			pt.p.stop(fmt.Errorf("commit offset of %s: %w", pt.p.tp, err), ts.events)
		}
		return err != nil
	})
}

// blame notes which targets have made the turn fail, and that those on trial may be tried again. In
// a turn with unknown outcome a producer was in trouble: that a target was silent says nothing then.
func (ts *turns) blame(t *turn) {
	for topic, err := range t.blamed {
		if t.outcome != outcomeUnknown || kafka.IsTargets(err) {
			ts.targets.Failed(topic, err, t.leftBusy)
		}
	}
	t.endTrials()
}

// heldPause is after what time a part is tried again that could not be.
const heldPause = 250 * time.Millisecond

// askingPause is the same for what waits for the answer to a question that is on its way: a trip to the brokers, or two.
const askingPause = 50 * time.Millisecond

// hold keeps a part that could not be tried. What comes before the record that can go nowhere has not to
// wait for it, and is tried by itself.
func (ts *turns) hold(h heldPart) {
	p := h.part.p
	if h.part.copies != nil {
		return // it has nothing to be tried again
	}
	if h.before > 0 {
		first, second := h.part.Split(h.before)
		p.Repeat(second, 0)
		p.Repeat(first, 0)
		return
	}
	if errors.Is(h.why, errBehind) {
		p.Repeat(h.part.Part, 0)
		return
	}
	if errors.Is(h.why, errAsking) {
		p.Repeat(h.part.Part, ts.clock.Now()+askingPause.Milliseconds())
		return
	}
	p.Repeat(h.part.Part, ts.clock.Now()+heldPause.Milliseconds())
	if p.err == nil || p.err.Error() != h.why.Error() {
		ts.log.Warn("partition is held up", "topic", p.tp.Topic, "partition", p.tp.Partition, "error", h.why)
	}
	p.err = h.why
}

// repeat keeps the parts of a turn that is known not to have happened: the same O, W and
// records are tried again, so partitions that stay do not pay for a rebalance with a catch-up.
func (ts *turns) repeat(t *turn) {
	at := int64(0)
	if kafka.VerdictOf(t.err) == kafka.Stop && len(t.blamed) == 0 && len(t.refused) == 0 {
		at = ts.clock.Now() + pending.LongestPutBack
	}
	if t.rejected == nil && len(t.blamed) == 0 && t.copyRefused == nil { // else the next turn is a smaller one, or goes around the target
		ts.aborts++
	}
	if ts.aborts > 4 { // a rebalance refuses a few; what goes on refusing must not be asked at full speed
		at = max(at, ts.clock.Now()+int64(min(50<<min(ts.aborts-4, 5), pending.LongestPutBack)))
	}
	for _, pt := range t.tried {
		pt.p.Appended(t.ownEnds[pt]) // what was acknowledged in at_least_once is not tried again
		if len(pt.Items) > 0 {
			pt.p.Repeat(pt.Part, at)
			if at > 0 {
				pt.p.err = t.err
			}
		}
		pt.p.writing.tried = time.Now() // a checkpoint that went along waits for its next time
	}
}

// putBack keeps the parts with records that a plain commit has not settled, to be tried again.
func (ts *turns) putBack(t *turn) {
	for _, pt := range t.tried {
		if len(pt.Items) > 0 && (t.outcome == outcomeAborted || t.refused[pt] != nil) {
			pt.p.Repeat(pt.Part, ts.clock.Now()+heldPause.Milliseconds())
		}
	}
}

// settle takes in that records of partitions have been delivered, and what was delivered of each.
func (ts *turns) settle(t *turn) {
	now := time.Now()
	for _, pt := range t.tried {
		p := pt.p
		p.answeredAt, p.err = now, nil
		p.Settle(pt.Part)
		ts.selection.recycle(pt)
		ts.counters.effects(p)
		if ts.cfg.Guarantee == ExactlyOnce {
			p.wasWritten(now)
			p.Committed(pt.Part)
		}
	}
	if t.render != nil {
		ts.counters.outputs(t)
	}
}

// turn tells what has become of a turn.
func (es events) turn(t *turn) {
	kinds := map[outcome]EventKind{outcomeDone: EventCommitted, outcomeAborted: EventAborted, outcomeUnknown: EventUnknown}
	e := Event{Kind: kinds[t.outcome]}
	if es.to == nil || e.Kind == "" || len(t.tried) == 0 {
		return
	}
	tps := make([]kafka.TopicPartition, 0, len(t.tried))
	for _, pt := range t.tried {
		if t.refused[pt] == nil {
			e.Records += len(pt.Items)
		}
	}
	for _, pt := range t.lasts() {
		if t.refused[pt] == nil {
			tps = append(tps, pt.p.tp)
		}
	}
	es.tell(e, tps...)
}

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
	"github.com/duewheel/duewheel/processor/turn"
)

// conclude settles what a turn did, or keeps it to be tried again, and lets the one begin that was rendered ahead. A turn with unknown
// outcome is more than it can mend.
func (ts *turns) conclude(ctx context.Context, ps []*partition, t *turn.Turn, stay membership) {
	ts.inFlight = nil
	if t.Producer != nil {
		ts.pace.ended(t.Began, time.Now(), t.Full)
	}
	ts.counters.turn(t)
	ts.events.turn(t)
	ts.blame(t)
	ts.passing.wrote(t)
	if t.Narrows || t.Rejected != nil {
		ts.selection.search.lost.add(time.Since(t.Began))
	}
	for _, pt := range t.Parts {
		partitionOf(pt).End()
	}
	for _, h := range t.Untried {
		ts.hold(h)
	}
	if t.Outcome == turn.Done {
		ts.happened(ctx, t)
	}
	// Where some checkpoints were refused their parts are to be tried again, and nothing may happen before them.
	goesOn := t.Outcome == turn.Done && len(t.Untried)+len(t.Refused) == 0
	if goesOn { // it has not to wait for what takes some ms here
		ts.release(ps, true, stay)
	}
	switch {
	case t.Outcome == turn.Done:
		ts.done(t)
	case t.Outcome == turn.Aborted && !t.Plain:
		ts.knownAbort(ctx, ps, t)
	}
	if t.Plain && t.Outcome != turn.Unknown {
		ts.putBack(t)
	}
	ts.copies.conclude(t)
	ts.full = t.Full
	if !goesOn {
		ts.release(ps, false, stay)
	}
}

// happened takes in of a turn that happened what the next one has to know.
func (ts *turns) happened(ctx context.Context, t *turn.Turn) {
	for _, pt := range t.Tried {
		partitionOf(pt).Appended(t.OwnEnds[pt])
	}
	if t.Producer != nil && t.Producer.Stale() && !ts.stopping {
		ts.log.Info("a decision was asked for twice; the producers are renewed before a late copy can decide anything else")
		ts.producers.renew(ctx, 0)
	}
}

// done takes in a turn that happened.
func (ts *turns) done(t *turn.Turn) {
	if t.Plain {
		ts.checkpoints.wrote(t)
	} else {
		ts.aborts = 0
		if len(t.Tried) > 0 {
			ts.timeouts = 0
			ts.selection.resize(t)
		}
		ts.settle(t)
	}
}

// knownAbort takes in a turn with records that is known not to have happened.
func (ts *turns) knownAbort(ctx context.Context, ps []*partition, t *turn.Turn) {
	if errors.Is(t.Err, context.DeadlineExceeded) {
		ts.timeouts = min(ts.timeouts+1, 5)
		ts.selection.resize(t)
	}
	if t.Rejected != nil {
		ts.selection.search.suspect(ps, t)
	}
	level := slog.LevelWarn
	switch {
	case !ts.gaveUp.Is(codeOf(t.Err)):
		level = slog.LevelDebug // the metrics count on
	case kafka.VerdictOf(t.Err) == kafka.Refused:
		level = slog.LevelInfo // every rebalance refuses some turn
	}
	ts.log.Log(ctx, level, "turn given up; it is tried again", "error", t.Err, "partitions", len(t.Tried))
	ts.dropRefused(t)
	ts.repeat(t)
}

// dropRefused takes the parts out of a transaction that is known not to have happened whose offsets
// the coordinator has refused for a reason of their own.
func (ts *turns) dropRefused(t *turn.Turn) {
	t.Tried = slices.DeleteFunc(t.Tried, func(pt *turn.Part) bool {
		p, err := partitionOf(pt), t.Refused[pt]
		if err != nil && !p.dropped && p.phase != PhaseStopped {
			p.stop(fmt.Errorf("commit offset of %s: %w", pt.TP, err), ts.events)
		}
		return err != nil
	})
}

// blame notes which targets have made the turn fail, and that those on trial may be tried again. In
// a turn with unknown outcome a producer was in trouble: that a target was silent says nothing then.
func (ts *turns) blame(t *turn.Turn) {
	for topic, err := range t.Blamed {
		if t.Outcome != turn.Unknown || kafka.IsTargets(err) {
			ts.targets.Failed(topic, err, t.LeftBusy)
		}
	}
	t.EndTrials()
}

// heldPause is after what time a part is tried again that could not be.
const heldPause = 250 * time.Millisecond

// askingPause is the same for what waits for the answer to a question that is on its way: a trip to the brokers, or two.
const askingPause = 50 * time.Millisecond

// hold keeps a part that could not be tried. What comes before the record that can go nowhere has not to
// wait for it, and is tried by itself.
func (ts *turns) hold(h turn.Untried) {
	p := partitionOf(h.Part)
	if h.Part.Copies != nil {
		return // it has nothing to be tried again
	}
	if h.Before > 0 {
		first, second := h.Part.Split(h.Before)
		p.Repeat(second, 0)
		p.Repeat(first, 0)
		return
	}
	if errors.Is(h.Why, turn.ErrBehind) {
		p.Repeat(h.Part.Part, 0)
		return
	}
	if errors.Is(h.Why, turn.ErrAsking) {
		p.Repeat(h.Part.Part, ts.clock.Now()+askingPause.Milliseconds())
		return
	}
	p.Repeat(h.Part.Part, ts.clock.Now()+heldPause.Milliseconds())
	if p.err == nil || p.err.Error() != h.Why.Error() {
		ts.log.Warn("partition is held up", "topic", p.tp.Topic, "partition", p.tp.Partition, "error", h.Why)
	}
	p.err = h.Why
}

// repeat keeps the parts of a turn that is known not to have happened: the same O, W and
// records are tried again, so partitions that stay do not pay for a rebalance with a catch-up.
func (ts *turns) repeat(t *turn.Turn) {
	at := int64(0)
	if kafka.VerdictOf(t.Err) == kafka.Stop && len(t.Blamed) == 0 && len(t.Refused) == 0 {
		at = ts.clock.Now() + pending.LongestPutBack
	}
	if t.Rejected == nil && len(t.Blamed) == 0 && t.CopyRefused == nil { // else the next turn is a smaller one, or goes around the target
		ts.aborts++
	}
	if ts.aborts > 4 { // a rebalance refuses a few; what goes on refusing must not be asked at full speed
		at = max(at, ts.clock.Now()+int64(min(50<<min(ts.aborts-4, 5), pending.LongestPutBack)))
	}
	for _, pt := range t.Tried {
		p := partitionOf(pt)
		p.Appended(t.OwnEnds[pt]) // what was acknowledged in at_least_once is not tried again
		if len(pt.Items) > 0 {
			p.Repeat(pt.Part, at)
			if at > 0 {
				p.err = t.Err
			}
		}
		p.writing.tried = time.Now() // a checkpoint that went along waits for its next time
	}
}

// putBack keeps the parts with records that a plain commit has not settled, to be tried again.
func (ts *turns) putBack(t *turn.Turn) {
	for _, pt := range t.Tried {
		if len(pt.Items) > 0 && (t.Outcome == turn.Aborted || t.Refused[pt] != nil) {
			partitionOf(pt).Repeat(pt.Part, ts.clock.Now()+heldPause.Milliseconds())
		}
	}
}

// settle takes in that records of partitions have been delivered, and what was delivered of each.
func (ts *turns) settle(t *turn.Turn) {
	now := time.Now()
	for _, pt := range t.Tried {
		p := partitionOf(pt)
		p.answeredAt, p.err = now, nil
		p.Settle(pt.Part)
		ts.selection.recycle(pt)
		ts.counters.effects(p)
		if ts.cfg.Guarantee == ExactlyOnce {
			p.wasWritten(now)
			p.Committed(pt.Part)
		}
	}
	if t.Renderer != nil {
		ts.counters.outputs(t)
	}
}

// turn tells what has become of a turn.
func (es events) turn(t *turn.Turn) {
	kinds := map[turn.Outcome]EventKind{turn.Done: EventCommitted, turn.Aborted: EventAborted, turn.Unknown: EventUnknown}
	e := Event{Kind: kinds[t.Outcome]}
	if es.to == nil || e.Kind == "" || len(t.Tried) == 0 {
		return
	}
	tps := make([]kafka.TopicPartition, 0, len(t.Tried))
	for _, pt := range t.Tried {
		if t.Refused[pt] == nil {
			e.Records += len(pt.Items)
		}
	}
	for _, pt := range t.Lasts() {
		if t.Refused[pt] == nil {
			tps = append(tps, pt.TP)
		}
	}
	es.tell(e, tps...)
}

package processor

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/pending"
	"github.com/duewheel/duewheel/processor/turn"
	"github.com/duewheel/duewheel/state"
)

// In at_least_once a checkpoint that is written beside a turn is what the last decision has left: it
// passes nothing that the turn holds, and its answer takes nothing back that was decided meanwhile.
func TestCheckpointBesideATurn(t *testing.T) {
	l := testLane(t, func(c *Config) { c.Guarantee = AtLeastOnce })
	p := livePartition(t, l)
	begin := func() *turn.Part {
		t.Helper()
		pt := p.take(testNow, nil, 1, anyBytes)
		p.Begin()
		return pt
	}
	l.read(t, p, testNow, req(0, testNow, "orders"), req(1, testNow, "orders"))
	first := begin()
	if pt := p.prepareCommit(); pt != nil {
		t.Errorf("written before anything is decided: %+v", pt.To)
	}
	l.happened(first)
	second := begin()
	l.read(t, p, testNow, req(2, testNow-1, "orders"), control(3)) // late by the W of the second
	third := begin()
	equals(t, "records of the third", offsetsIn(third), []int64{2})
	pt := p.prepareCommit()
	equal(t, "O", pt.To.Offset, 2)
	equal(t, "W", pt.To.Watermark, state.Key{Due: testNow, Seq: 0})
	if pt.To.LowWater > 1 {
		t.Errorf("L is %d, and record 1 is not acknowledged", pt.To.LowWater)
	}
	l.happened(second, third)
	l.checkpoints.wrote(&turn.Turn{Env: l.turnEnv(), Tried: []*turn.Part{pt}})
	equal(t, "O that was written", p.Marks().Committed.Offset, 2)
	equal(t, "O that was decided", p.Marks().Done.Offset, third.To.Offset)
	last := p.prepareCommit()
	equal(t, "O when no turn is in flight", last.To.Offset, 4)
	l.happened(last)
	equal(t, "W", p.Marks().Committed.Watermark, state.Key{Due: testNow, Seq: 1})
}

// Checkpoints that are refused are tried again, less often each time up to a bound.
func TestRefusedCheckpointsAreSpacedOut(t *testing.T) {
	l := testLane(t, func(c *Config) { c.Guarantee = AtLeastOnce })
	for i, want := range []time.Duration{250, 500, 1000, 2000, 2000, 2000} {
		l.checkpoints.refusals = i
		equal(t, "interval", l.checkpoints.interval(0), want*time.Millisecond)
	}
	l.checkpoints.refusals = 0
	for i, want := range []time.Duration{250, 500, 1000, 2000, 2000} {
		equal(t, "interval of one that is refused", l.checkpoints.interval(i), want*time.Millisecond)
	}
	l.cfg.CommitInterval = 5 * time.Second
	equal(t, "one that is longer already", l.checkpoints.interval(0), 5*time.Second)
}

// What cannot be written is an error that names the partition.
func TestEntry(t *testing.T) {
	e, err := turn.CommitOf(testTP, testID, state.Checkpoint{TopicID: testID.Short(), Offset: 9, LowWater: 3, Watermark: state.Key{Due: 5, Seq: 4}, Writer: "w"})
	if err != nil || e.Offset != 9 || e.TP != testTP || e.ID != testID {
		t.Errorf("got %+v, %v", e, err)
	}
	if c, err := state.ParseCheckpoint(e.Offset, state.NoEpoch, e.Metadata); err != nil || c.LowWater != 3 || c.Writer != "w" {
		t.Errorf("it reads %+v, %v", c, err)
	}
	if _, err := turn.CommitOf(testTP, testID, state.Checkpoint{Offset: 3, LowWater: 9}); !errors.Is(err, state.ErrCorrupt) {
		t.Errorf("a low water above the offset is written: %v", err)
	}
}

// A checkpoint that is on its way must not arrive when its partition is looked up anew, whatever that starts over for (design rule 7).
func TestCheckpointOnItsWayIsAwaited(t *testing.T) {
	for name, startsOver := range map[string]func(ctx context.Context, l *lane, p *partition){
		"it starts over": func(ctx context.Context, l *lane, p *partition) { l.startOver(ctx, p, 0) },
		"its turn is unknown": func(ctx context.Context, l *lane, p *partition) {
			l.dropUnknown(ctx, &turn.Turn{Tried: []*turn.Part{p.part(&pending.Part{})}, Renderer: &turn.Renderer{}, Outcome: turn.Unknown, Err: kafka.ErrUnanswered})
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := testLane(t, func(c *Config) { c.Guarantee = AtLeastOnce })
			ctx, cancel := context.WithCancel(t.Context())
			defer l.wg.Wait()
			cancel()
			l.membership = outsider{}
			p := livePartition(t, l)
			l.read(t, p, testNow, control(0))
			commit := &turn.Turn{Env: l.turnEnv(), Parts: []*turn.Part{p.prepareCommit()}, Plain: true, Cancel: func() {}, Outcome: turn.Aborted, Err: kerr.IllegalGeneration}
			commit.Tried = commit.Parts
			l.checkpoints.commit = commit
			l.checkpoints.committed <- commit
			startsOver(ctx, l, p)
			equal(t, "a checkpoint is on its way", l.checkpoints.commit != nil, false)
			equals(t, "partitions to restore", l.restoring(), []kafka.TopicPartition{testTP})
		})
	}
}

// What was refused counts no more when something was taken.
func TestRefusalsEndWithSuccess(t *testing.T) {
	l := testLane(t, func(c *Config) { c.Guarantee = AtLeastOnce })
	l.checkpoints.refusals = 3
	l.checkpoints.refused(&turn.Turn{Plain: true, Outcome: turn.Done})
	equal(t, "interval", l.checkpoints.interval(0), 250*time.Millisecond)
}

// A checkpoint is not overdue of which there is nothing to be written any more.
func TestNothingToWriteIsNotOverdue(t *testing.T) {
	l := testLane(t, func(c *Config) { c.Guarantee = AtLeastOnce })
	p := livePartition(t, l)
	l.read(t, p, testNow, control(0))
	l.happened(p.prepareCommit())
	stale := func() int {
		p.writing.tried = time.Time{}
		return len(l.checkpoints.stale(l.order))
	}
	equal(t, "to be written", stale(), 0)
	l.checkpoints.unanswered.until = time.Now().Add(time.Hour)
	equal(t, "to be written while a late one may arrive", stale(), 1)
	equal(t, "since when is known", p.writing.behind.IsZero(), false)
	l.checkpoints.unanswered.until = time.Time{}
	equal(t, "to be written after that", stale(), 0)
	equal(t, "overdue", p.writing.overdue(), 0)
}

// Without a member nothing is committed, and nothing refused.
func TestNoCheckpointWithoutAMember(t *testing.T) {
	l := testLane(t, func(c *Config) { c.Guarantee = AtLeastOnce })
	p := livePartition(t, l)
	l.read(t, p, testNow, control(0))
	l.checkpoints.begin(l.order, outsider{})
	equal(t, "a checkpoint is on its way", l.checkpoints.commit != nil, false)
}

// A checkpoint that is written beside a turn (at_least_once) is no answer to that.
func TestCheckpointAnswersNoTurn(t *testing.T) {
	l := testLane(t, func(c *Config) { c.Guarantee = AtLeastOnce })
	p := livePartition(t, l)
	l.read(t, p, testNow, control(0))
	wrote := func() bool {
		p.answeredAt = time.Time{}
		l.checkpoints.wrote(&turn.Turn{Tried: []*turn.Part{p.part(&pending.Part{To: p.Marks().Committed})}})
		return !p.answeredAt.IsZero()
	}
	equal(t, "answered", wrote(), true)
	p.Begin()
	equal(t, "answered beside a turn", wrote(), false)
}

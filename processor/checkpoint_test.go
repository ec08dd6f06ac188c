package processor

import (
	"errors"
	"testing"
	"time"

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
		equal(t, "interval", l.checkpoints.interval(), want*time.Millisecond)
	}
	l.cfg.CommitInterval = 5 * time.Second
	equal(t, "one that is longer already", l.checkpoints.interval(), 5*time.Second)
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

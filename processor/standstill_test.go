package processor

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/duewheel/duewheel/processor/turn"
)

// A lane that has not run for half of a session does not know whether its partitions are its own; by the clock on the wall, too, which goes on while a
// machine is suspended.
func TestStandstill(t *testing.T) {
	const session = 10 * time.Second
	now := time.Now()
	wall := now.Round(0)
	var s standstill
	equal(t, "before the first step", s.step(now, wall, session), 0)
	equal(t, "half of a session", s.step(now.Add(session/2), wall.Add(session/2), session), 0)
	equal(t, "it doubts", s.doubts(), false)
	now, wall = now.Add(session), wall.Add(session)
	equal(t, "a little more", s.step(now.Add(1), wall.Add(1), session), session/2+1)
	equal(t, "it doubts", s.doubts(), true)
	equal(t, "the next step", s.step(now.Add(2), wall.Add(2), session), 0)
	equal(t, "it doubts still", s.doubts(), true)

	before, after := now, now.Add(time.Second)
	s.heard(&turn.Turn{Began: before, Outcome: turn.Done})
	equal(t, "after a commit that was sent before", s.doubts(), true)
	s.heard(&turn.Turn{Began: after, Outcome: turn.Aborted, Err: kerr.UnknownMemberID})
	equal(t, "after one that was refused", s.doubts(), true)
	s.heard(&turn.Turn{Began: after, Outcome: turn.Done})
	equal(t, "after one that was taken", s.doubts(), false)

	equal(t, "suspended", s.step(now.Add(3), wall.Add(time.Minute+2), session), time.Minute)
}

// In at_least_once nothing but a checkpoint is sent after a long standstill, although none has moved on, until one was taken.
func TestNothingIsDeliveredInDoubt(t *testing.T) {
	for _, g := range []Guarantee{AtLeastOnce, ExactlyOnce} {
		t.Run(string(g), func(t *testing.T) {
			l := testLane(t, func(c *Config) { c.Guarantee = g })
			p := livePartition(t, l)
			l.read(t, p, testNow, req(0, testNow, "orders"))
			l.happened(p.prepareCommit())
			l.checkpoints.steps(time.Now().Add(-time.Hour))
			l.checkpoints.steps(time.Now())
			doubts := g == AtLeastOnce
			equal(t, "it doubts", l.checkpoints.standstill.doubts(), doubts)
			equal(t, "there is a checkpoint to be written", l.checkpoints.of(p) != nil, doubts)
			if doubts {
				l.turns.begin(l.order, testNow, insider{})
				equal(t, "a turn begins", l.turns.inFlight != nil, false)
				l.checkpoints.conclude(&turn.Turn{Plain: true, Began: time.Now(), Outcome: turn.Done})
				equal(t, "it doubts when a checkpoint was taken", l.checkpoints.standstill.doubts(), false)
			}
		})
	}
}

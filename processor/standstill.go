package processor

import (
	"time"

	"github.com/duewheel/duewheel/processor/turn"
)

// standstill is what a lane of at_least_once knows of times in which it did not run: its process was frozen, or the machine. After one that was long, others
// may have its partitions, and a member is told so only when it has run for some ms: enough to deliver once more all that fell due meanwhile. In exactly_once
// the coordinator refuses that with the offsets of the transaction; here no turn begins before it has taken a checkpoint that was sent since.
type standstill struct {
	stepped time.Time // when the lane last took a step; zero: it has taken none
	wall    time.Time // the same by the clock on the wall
	ended   time.Time // when a long one did; zero: the coordinator has heard of the lane since
}

// step takes in that the lane takes a step, and returns how long it has stood still if that was too long: half of a session, since the last
// heartbeat before may be a third of it old. By the clock on the wall, too, which alone goes on while a machine is suspended.
func (s *standstill) step(now, wall time.Time, session time.Duration) (long time.Duration) {
	if !s.stepped.IsZero() {
		if d := max(now.Sub(s.stepped), wall.Sub(s.wall)); d > session/2 {
			long, s.ended = d, now
		}
	}
	s.stepped, s.wall = now, wall
	return long
}

// heard takes in what became of a commit.
func (s *standstill) heard(t *turn.Turn) {
	if t.Outcome == turn.Done && !t.Began.Before(s.ended) {
		s.ended = time.Time{}
	}
}

// doubts reports whether the partitions may be those of others.
func (s *standstill) doubts() bool { return !s.ended.IsZero() }

package standby

import (
	"testing"
	"time"

	"github.com/duewheel/duewheel/processor/assignor"
)

// A replica with less than its share asks for a rebalance; where that does not help it asks less and
// less often, from the first time on.
func TestEvenAsksLessAndLessOften(t *testing.T) {
	e := testEnv(t)
	s := New(e)
	v := &assignor.View{Members: map[string]int{"duewheel-me-0": 1, "duewheel-other-0": 3}}
	for _, want := range []time.Duration{2 * evenInterval, 4 * evenInterval} {
		s.even(v, "duewheel-me")
		select {
		case <-e.Uneven:
		default:
			t.Fatal("it does not ask")
		}
		s.even(v, "duewheel-me")
		equal(t, "asked again at once", len(e.Uneven), 0)
		equal(t, "pause", s.evenPause, want)
		s.evenedAt = s.evenedAt.Add(-s.evenPause)
	}
	v.Members["duewheel-me-0"] = 2
	s.even(v, "duewheel-me")
	equal(t, "pause when it is even", s.evenPause, evenInterval)
}

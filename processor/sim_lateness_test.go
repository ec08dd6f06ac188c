//go:build synctests

package processor

import (
	"testing"
	"time"
)

// Lateness is what is between a record and its delivery while both could have met: it counts from
// when the record is due, without a replica to deliver it, and from when it was written, if it was
// due before.
func TestSimLatenessCountsFromArrival(t *testing.T) {
	scenario(t, worldConfig{}, func(w *world) {
		a := w.live("a")
		w.send(request("late on arrival", in(-time.Hour)), request("in time", in(time.Second)))
		w.within(time.Second+soon, "delivered", func() bool { return w.outstanding() == 0 })
		sum := func(p *process) float64 {
			for _, target := range p.p.Stats().Targets {
				if target.Target == "orders" {
					return target.Lateness.Sum
				}
			}
			return -1
		}
		if got := sum(a); got <= 0 || got > 2*soon.Seconds() {
			t.Errorf("both together were %v s late", got)
		}
		if s := a.p.Stats().Topics[0]; s.LateOnArrival != 1 || s.Accepted != 2 {
			t.Errorf("of %d accepted %d were late on arrival", s.Accepted, s.LateOnArrival)
		}
		w.send(request("due while all are away", in(time.Second)))
		a.kill()
		time.Sleep(20 * time.Second)
		b := w.live("b")
		w.within(soonEnough, "delivered", func() bool { return w.outstanding() == 0 && sum(b) > 0 }) // seen, and answered
		if got := sum(b); got < 18 || got > 30 {
			t.Errorf("it was %v s late", got)
		}
		if s := b.p.Stats().Topics[0]; s.LateOnArrival != 0 {
			t.Errorf("%d were late on arrival", s.LateOnArrival)
		}
		w.finish()
	})
}

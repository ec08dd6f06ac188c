package processor

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestPace(t *testing.T) {
	const ms = time.Millisecond
	began := time.Unix(1_767_225_605, 0)
	for _, c := range []struct {
		name  string
		pace  pace
		takes []time.Duration // turns, one after the other
		full  bool
		left  time.Duration // after the last
	}{
		{name: "short ones", takes: []time.Duration{ms}, left: ms},
		{name: "one and a half", takes: []time.Duration{4 * ms}, left: 2 * ms},
		{name: "long ones", takes: []time.Duration{9 * ms}, left: ms},
		{name: "longer than any interval", takes: []time.Duration{40 * ms}},
		{name: "one that is long among short ones", takes: []time.Duration{2 * ms, 2 * ms, 10 * ms}},
		{name: "one that is short among long ones", takes: []time.Duration{4 * ms, 0}, left: 5250 * time.Microsecond},
		{name: "with a backlog", takes: []time.Duration{4 * ms}, full: true},
		{name: "at_least_once", pace: pace{freely: true}, takes: []time.Duration{4 * ms}},
		{name: "fixed", pace: pace{fixed: 50 * ms}, takes: []time.Duration{4 * ms}, left: 46 * ms},
		{name: "fixed, at_least_once", pace: pace{fixed: 50 * ms, freely: true}, takes: []time.Duration{4 * ms}, left: 46 * ms},
		{name: "fixed, with a backlog", pace: pace{fixed: 50 * ms}, takes: []time.Duration{4 * ms}, full: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var now time.Time
			for _, took := range c.takes {
				now = began.Add(took)
				c.pace.ended(began, now, c.full)
			}
			if got := c.pace.left(now); got != c.left {
				t.Errorf("%v are left, want %v", got, c.left)
			}
			if got := c.pace.left(now.Add(time.Second)); got != 0 {
				t.Errorf("%v are left a second later", got)
			}
		})
	}
}

// A lane that has something to do sleeps until the next turn may begin.
func TestLaneSleepsUntilTheNextTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := testLane(t)
		defer l.reader.Close() // in the bubble that it was used in
		p := livePartition(t, l)
		now := l.clock.Now()
		l.read(t, p, now, req(0, now, "orders"))
		equal(t, "nothing keeps it", l.turns.pause(l.order), leastPause)
		for _, takes := range []time.Duration{4 * time.Millisecond, 20 * time.Millisecond} {
			began := time.Now()
			time.Sleep(takes)
			l.turns.pace.ended(began, time.Now(), false)
			equal(t, "the lane sleeps", l.turns.pause(l.order), max(l.turns.pace.left(time.Now()), leastPause))
		}
		l.turns.pace.fixed = time.Second
		l.turns.pace.ended(time.Now(), time.Now(), false)
		equal(t, "a long interval", l.turns.pause(l.order), 100*time.Millisecond)
	})
}

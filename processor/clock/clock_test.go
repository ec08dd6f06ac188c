package clock

import (
	"log/slog"
	"math"
	"testing"
	"testing/synctest"
	"time"
)

// A wrong clock is one that has been stepped by hand.
type wrongClock struct{ by time.Duration }

func (w *wrongClock) now() time.Time { return time.Now().Add(w.by) }

// Each case steps the wall clock at given instants, and says what the clock shows at others,
// both relative to where it began. The clock is read every 100 ms, as a lane does.
func TestClock(t *testing.T) {
	type at = map[time.Duration]time.Duration
	const ms, s = time.Millisecond, time.Second
	for _, c := range []struct {
		name  string
		steps at // at an instant: how far the wall clock is off from then on
		shows at // at an instant: how far the clock is off
		count int64
	}{
		{name: "it keeps time", shows: at{0: 0, s: 0, 10 * s: 0}},
		{name: "a small step is believed", steps: at{s: 100 * ms}, shows: at{1100 * ms: 100 * ms}},
		{name: "a small step back is believed", steps: at{s: -100 * ms}, shows: at{1100 * ms: -100 * ms}},
		{name: "a step forward must last", steps: at{s: 10 * s},
			shows: at{1100 * ms: 0, 5900 * ms: 0, 6100 * ms: 10 * s}, count: 1},
		{name: "a step forward that is taken back was never believed", steps: at{s: 10 * s, 4 * s: 0},
			shows: at{1100 * ms: 0, 3900 * ms: 0, 4100 * ms: 0, 12 * s: 0}, count: 1},
		{name: "a step back is believed at once", steps: at{s: -10 * s}, shows: at{1100 * ms: -10 * s, 9 * s: -10 * s}, count: 1},
		{name: "back and forward again", steps: at{s: -10 * s, 2 * s: 0},
			shows: at{1100 * ms: -10 * s, 2100 * ms: -10 * s, 7100 * ms: 0}, count: 2},
		{name: "a further step has to last as long again", steps: at{s: s, 5500 * ms: 3600 * s, 7 * s: s},
			shows: at{6100 * ms: 0, 6900 * ms: 0, 12100 * ms: s}, count: 2},
		{name: "what comes back in between has to last as well", steps: at{s: 3600 * s, 2 * s: s, 5500 * ms: 3600 * s, 7 * s: s},
			shows: at{6900 * ms: 0, 12100 * ms: s}, count: 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				wall := &wrongClock{}
				clock := New(wall.now, time.Second, slog.New(slog.DiscardHandler))
				began := time.Now()
				for passed := time.Duration(0); passed <= 13*s; passed += 100 * ms {
					if by, ok := c.steps[passed]; ok {
						wall.by = by
					}
					got := time.Until(clock.Time())
					if want, ok := c.shows[passed]; ok && got != want {
						t.Errorf("after %v the clock is off by %v, want %v", time.Since(began), got, want)
					}
					time.Sleep(100 * ms)
				}
				if clock.Picture().Steps != c.count {
					t.Errorf("%d steps were seen, want %d", clock.Picture().Steps, c.count)
				}
			})
		})
	}
}

// The clock shows a ms only when all of it has come: what is due at that ms is not early.
func TestClockRoundsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := New(time.Now, time.Second, slog.New(slog.DiscardHandler))
		due := clock.Now() + 5
		time.Sleep(5*time.Millisecond - 1)
		if got := clock.Now(); got >= due {
			t.Errorf("it shows %d a ns before %d", got, due)
		}
		if got := clock.Until(due); got != 1 {
			t.Errorf("%v until then, want 1ns", got)
		}
		time.Sleep(time.Nanosecond)
		if got := clock.Now(); got != due {
			t.Errorf("it shows %d at %d", got, due)
		}
	})
}

// Within what is allowed the wall clock counts, and beyond it the earliest time that it can be by the
// brokers'. What they have said is worth less the older it is.
func TestClockByBrokers(t *testing.T) {
	const ms, s = time.Millisecond, time.Second
	for _, c := range []struct {
		name  string
		off   time.Duration // of the wall clock
		trip  time.Duration // how inexact the answer was
		age   time.Duration // of the answer
		shows time.Duration // how far the clock is off
		limit time.Duration // how far W may be ahead
		wrong bool
	}{
		{name: "it is right", limit: s},
		{name: "a little ahead", off: 900 * ms, shows: 900 * ms, limit: s},
		{name: "a little behind", off: -900 * ms, shows: -900 * ms, limit: s},
		{name: "ahead", off: 3 * s, limit: s, wrong: true},
		{name: "behind", off: -3 * s, limit: s, wrong: true},
		{name: "ahead, and the answer took long", off: 3 * s, trip: 400 * ms, shows: -200 * ms, limit: 1200 * ms, wrong: true},
		{name: "perhaps ahead", off: 1100 * ms, trip: 400 * ms, shows: 1100 * ms, limit: 1200 * ms},
		{name: "ahead of an old answer", off: 3 * s, age: time.Hour, shows: -720 * ms, limit: 1720 * ms, wrong: true},
		{name: "perhaps ahead of an old answer", off: 1100 * ms, age: time.Hour, shows: 1100 * ms, limit: 1720 * ms},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				wall := &wrongClock{by: c.off}
				clock := New(wall.now, s, slog.New(slog.DiscardHandler))
				if clock.Limit() != math.MaxInt64 {
					t.Error("W is limited by nothing that is known")
				}
				truth := time.Duration(time.Now().UnixNano()) - clock.mono()
				clock.tell(span{truth - c.trip/2, truth + c.trip/2, clock.mono()}, nil, "")
				time.Sleep(c.age)
				if got := time.Until(clock.Time()); got != c.shows {
					t.Errorf("it is off by %v, want %v", got, c.shows)
				}
				if got := time.Until(time.UnixMilli(clock.Limit())); got.Round(ms) != c.limit {
					t.Errorf("W may be %v ahead, want %v", got, c.limit)
				}
				p := clock.Picture()
				if got := p.Trouble != ""; got != c.wrong || p.Skew != -c.off {
					t.Errorf("wrong %v, skew %v: %s", got, p.Skew, p.Trouble)
				}
			})
		})
	}
}

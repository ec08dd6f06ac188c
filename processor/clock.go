package processor

import (
	"log/slog"
	"sync"
	"time"
)

// clock reads the wall clock for the whole process and does not believe everything it says. A
// step forward, seen as wall time running ahead of monotonic time, would deliver records early
// if it were wrong and taken back: it counts only once it has persisted. A step backward is
// believed at once: it can only delay.
type clock struct {
	wall  func() time.Time
	log   *slog.Logger
	start time.Time // a monotonic reading; set once

	mu       sync.Mutex
	ahead    time.Duration // wall minus monotonic time, as believed
	doubtful time.Time     // since when the wall clock has been ahead of that, in monotonic time; zero: it is not
	doubted  time.Duration // by how much since then, at least; a further step has to last as long again
	steps    int64
}

const (
	// stepAtLeast is how far the wall clock may drift from monotonic time between two readings
	// before it counts as a step; NTP slews at most 0.5 ms a second.
	stepAtLeast = 200 * time.Millisecond
	// stepPersists is how long a step forward must last to be believed.
	stepPersists = 5 * time.Second
)

func newClock(wall func() time.Time, log *slog.Logger) *clock {
	c := &clock{wall: wall, log: log, start: time.Now()}
	c.ahead = c.reading()
	return c
}

// reading is wall time minus monotonic time since start.
func (c *clock) reading() time.Duration {
	return time.Duration(c.wall().UnixNano()) - time.Since(c.start)
}

// now returns the time in ms since the epoch, rounded down: what is due at that ms is due.
func (c *clock) now() int64 { return c.time().UnixMilli() }

func (c *clock) time() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	mono := time.Since(c.start)
	ahead := time.Duration(c.wall().UnixNano()) - mono
	c.doubted = min(c.doubted, ahead)
	switch d := ahead - c.ahead; {
	case d < -stepAtLeast:
		c.steps++
		c.log.Warn("the wall clock was set back", "by", -d)
		c.ahead, c.doubtful = ahead, time.Time{}
	case d <= stepAtLeast:
		c.ahead, c.doubtful = ahead, time.Time{}
	case c.doubtful.IsZero() || ahead-c.doubted > stepAtLeast:
		c.steps++
		c.log.Warn("the wall clock jumped ahead; waiting to see whether it stays", "by", d, "wait", stepPersists)
		c.doubtful, c.doubted = time.Now(), ahead
	case time.Since(c.doubtful) >= stepPersists:
		c.log.Info("the wall clock stayed ahead; following it", "by", d)
		c.ahead, c.doubtful = ahead, time.Time{}
	}
	return time.Unix(0, int64(mono+c.ahead))
}

// until is how long it takes until the clock shows dueMillis.
func (c *clock) until(dueMillis int64) time.Duration {
	return time.UnixMilli(dueMillis).Sub(c.time())
}

func (c *clock) stepCount() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.steps
}

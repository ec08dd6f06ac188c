package clock

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/duewheel/duewheel/processor/wait"
)

// Clock tells the whole process what time it is: the wall clock's time as long as that is not
// further from the brokers' time than is allowed, and else the brokers' time. One wrong clock would
// otherwise make a whole group early: it moves watermarks ahead, and they do not go back.
//
// Brokers are asked about once a minute (timekeeper.go), and monotonic time goes on from their
// last answer. Until one has been had, the wall clock is all there is, and it is not believed
// everything. A step forward, seen as wall time running ahead of monotonic time, would deliver
// records early if it were wrong and taken back: it counts only once it has persisted. A step
// backward is believed at once: it can only delay.
type Clock struct {
	// Set once.
	wall    func() time.Time
	log     *slog.Logger
	start   time.Time     // a monotonic reading
	most    time.Duration // how far the wall clock may be off
	stepped wait.Wake     // asked when the wall clock has stepped
	settled chan struct{} // closed when brokers' time is known, or known not to be had

	mu       sync.Mutex
	ahead    time.Duration // wall minus monotonic time, as believed
	doubtful time.Time     // since when the wall clock has been ahead of that, in monotonic time; zero: it is not
	doubted  time.Duration // by how much since then, at least; a further step has to last as long again
	steps    int64
	brokers  span     // brokers' time minus monotonic time
	known    bool     // brokers is
	others   []Broker // as last asked
	apart    string   // which of them are wrong
	unknown  string   // why brokers' time is not to be had
}

const (
	// stepAtLeast is how far the wall clock may drift from monotonic time between two readings
	// before it counts as a step; NTP slews at most 0.5 ms a second.
	stepAtLeast = 200 * time.Millisecond
	// StepPersists is how long a step forward must last to be believed.
	StepPersists = 5 * time.Second
	// drift is how much the brokers' clocks and ours may differ in speed: quartz keeps to 100 ppm.
	drift = 1.0 / 5000
)

// span says that brokers' time is ahead of monotonic time by low at least and by high at most, as
// it was at a moment of monotonic time.
type span struct{ low, high, at time.Duration }

// now is what is left of that knowledge at a later moment.
func (s span) now(mono time.Duration) span {
	by := time.Duration(float64(mono-s.at) * drift)
	return span{s.low - by, s.high + by, mono}
}

func (s span) middle() time.Duration { return (s.low + s.high) / 2 }

// apart is by how much another time is ahead of every one that is possible, or (negative) behind.
func (s span) apart(other time.Duration) time.Duration {
	return max(other-s.high, 0) + min(other-s.low, 0)
}

// New makes a clock that reads the wall clock by a function, and lets it be off the brokers' by most. It starts nothing.
func New(wall func() time.Time, most time.Duration, log *slog.Logger) *Clock {
	c := &Clock{wall: wall, most: most, log: log, start: time.Now(), stepped: wait.NewWake(), settled: make(chan struct{})}
	c.ahead = c.reading(c.mono())
	return c
}

// mono is monotonic time.
func (c *Clock) mono() time.Duration { return time.Since(c.start) }

// reading is wall time minus monotonic time.
func (c *Clock) reading(mono time.Duration) time.Duration {
	return time.Duration(c.wall().UnixNano()) - mono
}

// Now returns the time in ms since the epoch, rounded down: what is due at that ms is due.
func (c *Clock) Now() int64 { return c.Time().UnixMilli() }

// Time is the time, exactly.
func (c *Clock) Time() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	mono := c.mono()
	c.believe(c.reading(mono))
	ahead := c.ahead
	if s := c.brokers.now(mono); c.known && s.apart(ahead).Abs() > c.most {
		ahead = s.low
	}
	return time.Unix(0, int64(mono+ahead))
}

// believe takes in a reading of the wall clock. mu is held.
func (c *Clock) believe(ahead time.Duration) {
	c.doubted = min(c.doubted, ahead)
	switch d := ahead - c.ahead; {
	case d < -stepAtLeast:
		c.step()
		c.log.Warn("the wall clock was set back", "by", -d)
		c.ahead, c.doubtful = ahead, time.Time{}
	case d <= stepAtLeast:
		c.ahead, c.doubtful = ahead, time.Time{}
	case c.doubtful.IsZero() || ahead-c.doubted > stepAtLeast:
		c.step()
		c.log.Warn("the wall clock jumped ahead; waiting to see whether it stays", "by", d, "wait", StepPersists)
		c.doubtful, c.doubted = time.Now(), ahead
	case time.Since(c.doubtful) >= StepPersists:
		c.log.Info("the wall clock stayed ahead", "by", d)
		c.ahead, c.doubtful = ahead, time.Time{}
	}
}

func (c *Clock) step() {
	c.steps++
	c.stepped.Ask()
}

// Limit is up to when W may be: the brokers' time and how far a wall clock may be off. A W beyond
// it was moved there by a wrong clock, and nothing is due for its sake (design rule 1).
func (c *Clock) Limit() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.known {
		return math.MaxInt64
	}
	mono := c.mono()
	return time.Unix(0, int64(mono+c.brokers.now(mono).high+c.most)).UnixMilli()
}

// Until is how long it takes until the clock shows dueMillis.
func (c *Clock) Until(dueMillis int64) time.Duration {
	return time.UnixMilli(dueMillis).Sub(c.Time())
}

// tell takes in what brokers have answered: the time that counts, and how theirs differ.
func (c *Clock) tell(s span, others []Broker, apart string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.brokers, c.known, c.unknown = s, true, ""
	c.others, c.apart = others, apart
	c.settle()
}

// goWithout notes that brokers' time is not to be had, and reports whether that is news. What was
// had before goes on to count.
func (c *Clock) goWithout(why error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	news := c.unknown == ""
	c.unknown = why.Error()
	c.settle()
	return news
}

func (c *Clock) settle() {
	select {
	case <-c.settled:
	default:
		close(c.settled)
	}
}

// Await waits until it is known what time it is, as far as that can be known, and reports whether
// ctx still goes on.
func (c *Clock) Await(ctx context.Context) bool {
	select {
	case <-c.settled:
		return true
	case <-ctx.Done():
		return false
	}
}

// Broker is a broker's clock compared with the broker's that counts.
type Broker struct {
	Broker int32
	Skew   time.Duration // its time minus that one's
}

// Picture is what a clock shows of itself.
type Picture struct {
	Skew    time.Duration // brokers' time minus wall time; 0 while it is not known
	Steps   int64
	Trouble string // the wall clock is wrong
	Apart   string // brokers' clocks are
	Unknown string // why brokers' time is not to be had
	Others  []Broker
}

// Picture is what the clock shows of itself now.
func (c *Clock) Picture() Picture {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := Picture{Steps: c.steps, Apart: c.apart, Unknown: c.unknown, Others: c.others}
	if !c.known {
		return p
	}
	mono := c.mono()
	s, ahead := c.brokers.now(mono), c.reading(mono)
	p.Skew = s.middle() - ahead
	if s.apart(ahead).Abs() > c.most {
		p.Trouble = fmt.Sprintf("the clock of this machine is %s: set it right; records are delivered by the brokers' time meanwhile", offBy(-p.Skew, "the brokers'"))
	}
	return p
}

// offBy says by how much a clock is off another one.
func offBy(d time.Duration, other string) string {
	if d < 0 {
		return fmt.Sprintf("%v behind %s", (-d).Round(10*time.Millisecond), other)
	}
	return fmt.Sprintf("%v ahead of %s", d.Round(10*time.Millisecond), other)
}

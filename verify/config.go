package verify

import (
	"errors"
	"time"

	"github.com/duewheel/duewheel/bench/check"
)

// These errors can be returned by New and Pass.
var (
	// ErrMemory means that more is pending at one time than Config.Memory has room for.
	ErrMemory = errors.New("verify: not enough memory")
	// ErrAnew means that a delay topic is another one than when the Verifier first looked, so that it knows nothing of what is there.
	ErrAnew = errors.New("verify: a delay topic was made anew")
	// ErrSilent means that brokers do not answer, or have nothing to answer.
	ErrSilent = errors.New("verify: nothing has come")
)

// Config says what was promised, and what to look at.
type Config struct {
	// Routes are the delay topics, as the group is configured. Their TopicID is asked for.
	Routes []check.Route
	// Group is the consumer group. Empty: no checkpoint says what is resolved, and nothing is missing, only overdue.
	Group string
	// Identity is the name by which the group knows what it has written into delay topics for itself, where no checkpoint says that. Empty: Group.
	Identity string
	// AtLeastOnce counts what arrives twice without calling it a fault.
	AtLeastOnce bool
	// Skew is how early a record may be. Defaults to a second, as max_clock_skew of a processor.
	Skew time.Duration
	// From and To choose requests by when they were written: from the first on, and before the second. Zero is no bound.
	From, To time.Time
	// Grace is for how long a request may be due before it is overdue. Defaults to a minute.
	Grace time.Duration
	// Late is how late a delivery may be before that is a fault. Zero is no bound: how late they are is only told.
	Late time.Duration
	// InTime is for how long a cancel or a replacement may have been in the partition of a request when that was delivered, by timestamps, before it is a
	// fault that it did not count. Zero is no bound: a request that is cancelled may be delivered or not.
	InTime time.Duration
	// AllTargets reads every topic that a pattern of a route allows. Otherwise those are read that a request names, or a route literally: what
	// was delivered to any other by mistake is missing.
	AllTargets bool
	// Keep is how many faults of each kind are kept in full. Defaults to 10.
	Keep int
	// Memory bounds what is held of requests, in bytes. Defaults to 512 MiB.
	Memory int64
	// Patience is how long to wait for an open transaction to end. Defaults to 10 s; then what lies behind it is left for the next pass.
	Patience time.Duration
	// Progress is told how many records of how many have been read, several times a second. It may be nil.
	Progress func(done, of int64)
	// Now is the time of this machine. Defaults to time.Now.
	Now func() time.Time
}

func (c Config) withDefaults() Config {
	for _, d := range []struct {
		is    *time.Duration
		usual time.Duration
	}{{&c.Skew, time.Second}, {&c.Grace, time.Minute}, {&c.Patience, 10 * time.Second}} {
		if *d.is == 0 {
			*d.is = d.usual
		}
	}
	if c.Keep == 0 {
		c.Keep = 10
	}
	if c.Memory == 0 {
		c.Memory = 512 << 20
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Progress == nil {
		c.Progress = func(int64, int64) {}
	}
	return c
}

// before is To, in ms.
func (c *Config) before() int64 {
	if c.To.IsZero() {
		return never
	}
	return c.To.UnixMilli()
}

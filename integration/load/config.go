package load

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Config says what to write.
type Config struct {
	// Seed makes two loads alike.
	Seed uint64
	// Topics are the delay topics; each request goes to one of them, at random.
	Topics []string
	// Targets are the target topics, likewise. Empty: requests name none, for routes that have one.
	Targets []string
	// Records is how many requests are committed, bad ones included.
	Records int
	// Rate is how many are written in a second, by all producers together. Zero: as many as the cluster takes.
	Rate float64

	// Due are the due times to choose among. Defaults to a third already due, a third within five seconds, and a third in an hour.
	Due []Due
	// Plain leaves out the due time, for routes with a fixed delay.
	Plain bool
	// Grid rounds half of the due times up to a multiple of it, so that many records are due at once. Defaults to 20 ms.
	Grid time.Duration

	// Keys is how many keys there are. Defaults to 100. One record in fifty has none.
	Keys int
	// ValueBytes is the length of values, at least some twenty. Defaults to 100. Of every fifty values one is null, unless Bare.
	ValueBytes int
	// Headers is the largest number of headers of a request besides its own. Defaults to 3. Some are empty, null, or twice there.
	Headers int
	// TargetPartitions is how many partitions every target has; some requests then ask for one. Zero: none does.
	TargetPartitions int
	// IDs gives each request an id of its own.
	IDs bool
	// Bare makes all records alike but for key and value: what a benchmark wants.
	Bare bool

	// Bad is the share of requests that cannot be delivered, 0.01 for one in a hundred.
	Bad float64
	// BadKinds are the ways to be bad, taken in turn. Defaults to all that the configuration allows for.
	BadKinds []Bad
	// Forbidden is a topic that requests may not name. Defaults to "forbidden".
	Forbidden string
	// Unknown is a topic that requests may name and that does not exist. Empty: nothing is bad in this way.
	Unknown string
	// LargeBytes is the length of a value too large for every target. Zero: nothing is bad in this way.
	LargeBytes int
	// TooFar is a delay beyond what is allowed. Defaults to 1,000 days.
	TooFar time.Duration

	// Producers is how many write at the same time. Defaults to 2.
	Producers int
	// Transactional is how many of these use transactions.
	Transactional int
	// Batch is how many records a transaction has. Defaults to 100.
	Batch int
	// Abort is the share of transactions that are aborted, 0.2 for one in five. Aborted records come on top of Records.
	Abort float64
}

// Due is a stretch of due times.
type Due struct {
	// Weight is how often it is chosen, beside the others.
	Weight float64
	// From and To bound how far ahead of its writing a record is due. Negative: due already.
	From, To time.Duration
	// At is one instant instead, for all records.
	At time.Time
}

// Bad is a way in which a request cannot be delivered.
type Bad uint8

// The ways. Good is none of them.
const (
	Good              Bad = iota
	NoDue                 // says nothing of a due time
	Unparsable            // says something that is none
	OutOfRange            // says a number that no due time has
	NoTarget              // names no target
	NotAllowed            // names a target that it may not name
	UnknownTarget         // names a target that does not exist
	TooLarge              // does not fit into its target
	TooFarAhead           // is due too far ahead
	UnsupportedHeader     // has a header that is known and not supported, or unknown
	bads
)

var badNames = [bads]string{
	"good", "no due", "unparsable", "out of range", "no target", "not allowed", "unknown target", "too large", "too far ahead",
	"unsupported header",
}

func (b Bad) String() string { return badNames[b] }

// possible tells whether a configuration allows for a way to be bad.
func (c *Config) possible(b Bad) bool {
	switch b {
	case NoDue, Unparsable, OutOfRange, TooFarAhead:
		return !c.Plain
	case NoTarget, NotAllowed:
		return len(c.Targets) > 0
	case UnknownTarget:
		return c.Unknown != ""
	case TooLarge:
		return c.LargeBytes > 0
	}
	return b != Good
}

func (c *Config) fill() {
	def(&c.Grid, 20*time.Millisecond)
	def(&c.Keys, 100)
	def(&c.ValueBytes, 100)
	def(&c.Headers, 3)
	def(&c.Forbidden, "forbidden")
	def(&c.TooFar, 1000*24*time.Hour)
	def(&c.Producers, 2)
	def(&c.Batch, 100)
	if len(c.Due) == 0 {
		c.Due = []Due{
			{Weight: 1, From: -time.Hour, To: -time.Second},
			{Weight: 1, To: 5 * time.Second},
			{Weight: 1, From: time.Hour, To: 2 * time.Hour},
		}
	}
	if len(c.BadKinds) == 0 {
		for b := range bads {
			if c.possible(b) {
				c.BadKinds = append(c.BadKinds, b)
			}
		}
	}
}

func def[T comparable](v *T, to T) {
	var zero T
	if *v == zero {
		*v = to
	}
}

func (c *Config) validate() error {
	var problems []error
	if len(c.Topics) == 0 {
		problems = append(problems, errors.New("no delay topics"))
	}
	if c.Transactional > c.Producers {
		problems = append(problems, fmt.Errorf("%d transactional producers of %d", c.Transactional, c.Producers))
	}
	if c.Bad < 0 || c.Bad > 1 || c.Abort < 0 || c.Abort >= 1 {
		problems = append(problems, errors.New("Bad and Abort are shares, and not everything can be aborted"))
	}
	for _, b := range c.BadKinds {
		if !c.possible(b) {
			problems = append(problems, fmt.Errorf("nothing can be bad as %q with this configuration", b))
		}
	}
	if slices.ContainsFunc(c.Due, func(d Due) bool { return d.Weight < 0 || d.To < d.From }) {
		problems = append(problems, errors.New("a stretch of due times with a negative weight or length"))
	}
	if len(problems) > 0 {
		return fmt.Errorf("load: %w", errors.Join(problems...))
	}
	return nil
}

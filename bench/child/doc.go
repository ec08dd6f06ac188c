// Package child runs replicas in processes of their own, so that they can be killed and frozen: for the benchmarks that measure
// take-overs, and for the tests that break things.
//
// The parent calls Start with a command whose main calls Serve, and an Order: the processor's configuration. It is one line of JSON on the
// child's standard input. On its standard output the child tells, a line of JSON each (Message), when it heeds SIGTERM, what its
// processor tells by events, and, if asked to, what it counts. Its log goes to its standard error and is for people.
//
// A child ends when its parent does, however that ends: its standard input is closed then. The methods of a Process may be called from
// several goroutines.
package child

import (
	"context"
	"encoding/json"
	"log/slog"
	"runtime/metrics"
	"time"

	"github.com/duewheel/duewheel/processor"
)

// Order is what a child is to do.
type Order struct {
	processor.Config
	Reach      json.RawMessage `json:",omitempty"` // for the main of the child, which knows what to make of it
	Level      slog.Level      // of its log
	CountEvery time.Duration   // 0: it tells no counts
	Presence   string          // where it listens for other replicas (host:port); empty: nowhere

	// What the main of the child adds, and does not travel.
	Admin  string                                            `json:"-"` // where its admin port is, which it tells
	Beside func(ctx context.Context, p *processor.Processor) `json:"-"` // runs as long as the processor does; nil: nothing
}

// Message is one thing that a child tells.
type Message struct {
	Heeds  bool             `json:",omitempty"` // from now on SIGTERM ends it in order
	Event  *processor.Event `json:",omitempty"`
	Counts *Counts          `json:",omitempty"`
	Admin  string           `json:",omitempty"` // where its admin port is
}

// Counts are a child's own.
type Counts struct {
	At       time.Time
	Live     int64                  // partitions
	Pending  int64                  // records in partitions of its own
	Standbys int64                  // partitions of others that it follows
	Warm     int64                  // pending records that it holds of those
	Heap     int64                  // bytes in use, by the Go runtime
	Topics   map[string]TopicCounts `json:",omitempty"`

	Delivered map[string]int64   `json:",omitempty"` // records, by target
	Kept      map[string]float64 `json:",omitempty"` // seconds: no piece of work has kept a lane for longer, by kind
}

// TopicCounts are a child's own of one delay topic.
type TopicCounts struct {
	Accepted int64 // records so far
	Pending  int64 // records
	Bytes    int64 // of those
	Open     int64 // offsets from the low water to the offset of the checkpoints
	Carried  int64 // copies so far
}

func countsOf(s processor.Stats) *Counts {
	c := &Counts{At: time.Now(), Heap: heapInUse(), Topics: map[string]TopicCounts{}, Delivered: map[string]int64{}, Kept: map[string]float64{}}
	for _, t := range s.Topics {
		c.Topics[t.Topic] = TopicCounts{Accepted: t.Accepted, Carried: t.Carried}
	}
	for _, p := range s.Partitions {
		if p.Phase == processor.PhaseLive {
			c.Live++
		}
		c.Pending += p.Pending
		of := c.Topics[p.Topic]
		of.Pending, of.Bytes, of.Open = of.Pending+p.Pending, of.Bytes+p.PendingBytes, of.Open+max(p.Offset-p.LowWater, 0)
		c.Topics[p.Topic] = of
	}
	for _, b := range s.Standbys {
		c.Standbys++
		c.Warm += b.Pending
	}
	for _, t := range s.Targets {
		c.Delivered[t.Target] = t.Delivered
	}
	for kind, took := range s.Work {
		c.Kept[kind] = took.Longest()
	}
	return c
}

// heapInUse is what objects take, dead ones included that are not swept yet.
func heapInUse() int64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return int64(sample[0].Value.Uint64())
}

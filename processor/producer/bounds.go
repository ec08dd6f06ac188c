package producer

import (
	"maps"
	"slices"
	"sync"

	"github.com/duewheel/duewheel/processor/kafka"
)

// Bounds knows how large a batch of each topic the client of a producer makes. The client asks once
// for each topic, and remembers the answer for as long as it lives.
type Bounds struct {
	takes func(topic string) int32 // the largest batch that the topic takes

	mu    sync.Mutex
	large map[string]bool  // topics that are to take a record that is larger before it is compressed
	told  map[string]int32 // since the client was made
}

// NewBounds makes the bounds of one producer; takes says how large a batch a topic takes now, in bytes.
func NewBounds(takes func(topic string) int32) *Bounds {
	return &Bounds{takes: takes, large: map[string]bool{}, told: map[string]int32{}}
}

// of is the bound of a topic.
func (b *Bounds) of(topic string) int32 {
	if topic == "" { // asked once, to validate
		return kafka.DefaultMaxBytes
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	n, ok := b.told[topic]
	if !ok {
		n = b.takes(topic)
		if b.large[topic] {
			n = kafka.LargestBatch
		}
		b.told[topic] = n
	}
	return n
}

// Least is the bound that a topic has, or would have if the client asked now.
func (b *Bounds) Least(topic string) int32 {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch n, ok := b.told[topic]; {
	case ok:
		return n
	case b.large[topic]:
		return kafka.LargestBatch
	}
	return b.takes(topic)
}

// Outgrow raises the bound of a topic, and reports whether the client remembers the lower one.
func (b *Bounds) Outgrow(topic string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.large[topic] = true
	return b.told[topic] != 0
}

// Told are the topics that the client has asked for, in no order: it produces to them.
func (b *Bounds) Told() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Collect(maps.Keys(b.told))
}

// forget is called when a new client is made.
func (b *Bounds) forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	clear(b.told)
}

// Exceeds reports whether the client makes larger batches of a topic than that takes, and how large those may be.
func (b *Bounds) Exceeds(topic string) (takes int32, larger bool) {
	takes = b.takes(topic)
	return takes, b.of(topic) > takes
}

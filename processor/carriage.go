package processor

import (
	"fmt"
	"sync"
	"time"

	"github.com/duewheel/duewheel/processor/kafka"
)

// carriage is how far the carrying of a partition has come.
type carriage struct {
	tp     kafka.TopicPartition
	id     kafka.TopicID
	next   int64 // all that is pending below and can be carried has been copied
	old    int64 // what lies below this offset is older than half of what the topic keeps
	ageing int64 // and than three quarters
	most   int   // copies in one turn
	rests  time.Time
	failed int     // in a row
	ahead  []int64 // from where on was carried for the length of the log, when L has not passed that yet
	stuck  string  // why some record is not carried
}

// retention is what a topic keeps.
type retention struct {
	age time.Duration // 0: for ever
	all bool          // neither age nor size delete anything
}

// upTo is the offset below which is to be carried.
func (g *carriage) upTo(long bool, p PartitionStats) int64 {
	if long {
		return p.Offset
	}
	return min(g.old, p.Offset)
}

// why says what may be the reason that carrying is behind, and what to do.
func (g *carriage) why() string {
	if g.stuck != "" {
		return g.stuck
	}
	return "raise retention.ms, or carry_records and carry_bytes, unless all replicas were away for long"
}

// succeeded takes in that something was copied, or nothing had to be.
func (g *carriage) succeeded(most int, got copied) {
	g.failed, g.most = 0, min(2*g.most, most)
	if got.unfit != nil {
		g.stuck = fmt.Sprintf("the record at offset %d does not fit into the topic with two headers more: raise its max.message.bytes", *got.unfit)
	}
}

// behinds says of which partitions of a topic the log may lose what is pending, and why. Carriers write it, every goroutine may read.
type behinds struct {
	mu sync.Mutex
	m  map[int32]string
}

// set says why of a partition, or that it is not so: "". It returns what was said before.
func (b *behinds) set(partition int32, why string) (was string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	was = b.m[partition]
	if b.m == nil {
		b.m = map[int32]string{}
	}
	if b.m[partition] = why; why == "" {
		delete(b.m, partition)
	}
	return was
}

func (b *behinds) of(partition int32) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.m[partition]
}

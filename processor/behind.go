package processor

import (
	"fmt"
	"sync"

	"github.com/duewheel/duewheel/topics"
)

// tell says of which partitions the log may soon lose what is pending.
func (c *carrier) tell(pictures []PartitionStats) {
	for _, p := range pictures {
		g, why := c.of[p.tp()], ""
		if keeps := c.keeps[p.Topic].Age; keeps > 0 && p.LowWater < min(g.ageing, p.Offset) && !g.remembers(p) {
			why = fmt.Sprintf("what is pending at offset %d is older than three quarters of the %s that the topic keeps (retention.ms), and is lost when that is over: %s",
				p.LowWater, topics.FormatDelay(keeps), g.reason())
		}
		if was := c.counters.topics[p.Topic].behind.set(p.Partition, why); (was == "") != (why == "") {
			if why != "" {
				c.log.Error("carrying is behind", "topic", p.Topic, "partition", p.Partition, "why", why)
			} else {
				c.log.Info("carrying is not behind any more", "topic", p.Topic, "partition", p.Partition)
			}
		}
	}
}

// remembers reports whether it is an id that L waits for, as far as is known: all that is old and pending has been copied.
func (g *carriage) remembers(p PartitionStats) bool {
	return p.Remembered > 0 && g.stuck == "" && g.next >= g.ageing
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

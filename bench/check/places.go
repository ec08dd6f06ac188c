package check

import (
	"fmt"
	"math"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
)

// place is a position in a target or dead-letter topic: the index of the partition above, 40 bits of offset below.
type place uint64

const offsetBits = 40

func (p place) partition() int { return int(p >> offsetBits) }
func (p place) offset() int64  { return int64(p & (1<<offsetBits - 1)) }

// places numbers partitions.
type places struct {
	all []topicPartition
	by  map[topicPartition]int
}

func (x *places) of(r *kgo.Record) place {
	return place(x.number(topicPartition{r.Topic, r.Partition}))<<offsetBits | place(r.Offset)
}

func (x *places) number(key topicPartition) int {
	i, ok := x.by[key]
	if !ok {
		key.topic = strings.Clone(key.topic)
		i = len(x.all)
		x.all = append(x.all, key)
		x.by[key] = i
	}
	return i
}

func (x *places) at(p place) topicPartition { return x.all[p.partition()] }

func (x *places) name(p place) string {
	at := x.at(p)
	return fmt.Sprintf("%s/%d@%d", at.topic, at.partition, p.offset())
}

// targets numbers target topics, existing or not.
type targets struct {
	names []string           // by index
	by    map[string]uint16  // of those that are not known
	known map[string]*target // those that exist
	java  kgo.TopicPartitioner
}

func (x *targets) index(topic string) uint16 {
	if t := x.known[topic]; t != nil {
		return t.index
	}
	if i, ok := x.by[topic]; ok {
		return i
	}
	i := uint16(len(x.names))
	if i == mostTargets {
		return x.by[others]
	}
	x.names = append(x.names, strings.Clone(topic))
	x.by[x.names[i]] = i
	return i
}

const (
	// mostTargets are told apart. Requests may name any topics.
	mostTargets = math.MaxUint16
	// others is the name of those that are not, and of none.
	others = ""
)

// misplaced tells whether a record with a key is not where Java's producer would put it.
func (x *targets) misplaced(r *kgo.Record) bool {
	t := x.known[r.Topic]
	if t == nil || t.Partitions == 0 || r.Key == nil {
		return false
	}
	return x.java.Partition(r, t.Partitions) != int(r.Partition)
}

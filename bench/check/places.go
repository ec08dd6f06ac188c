package check

import (
	"fmt"
	"math"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
)

// place is a position in a target or dead-letter topic: the index of the partition above, and 40 bits below for how far it is from the first offset
// that was seen there, which may be any.
type place uint64

const (
	offsetBits = 40
	// middle is where the first offset is. So far from it in either direction no check gets.
	middle = 1 << (offsetBits - 1)
)

func (p place) partition() int { return int(p >> offsetBits) }

// places numbers partitions.
type places struct {
	all   []topicPartition
	first []int64 // offset of each that was seen
	by    map[topicPartition]int
}

func (x *places) of(r *kgo.Record) place {
	i := x.number(topicPartition{r.Topic, r.Partition}, r.Offset)
	return place(i)<<offsetBits | place(min(max(r.Offset-x.first[i]+middle, 0), 1<<offsetBits-1))
}

// offset is the one that a place stands for.
func (x *places) offset(p place) int64 {
	return int64(p&(1<<offsetBits-1)) - middle + x.first[p.partition()]
}

// number is that of a partition, in which this offset was seen.
func (x *places) number(key topicPartition, offset int64) int {
	i, ok := x.by[key]
	if !ok {
		key.topic = strings.Clone(key.topic)
		i = len(x.all)
		x.all, x.first = append(x.all, key), append(x.first, offset)
		x.by[key] = i
	}
	return i
}

func (x *places) at(p place) topicPartition { return x.all[p.partition()] }

func (x *places) name(p place) string {
	at := x.at(p)
	return fmt.Sprintf("%s/%d@%d", at.topic, at.partition, x.offset(p))
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

package check

import (
	"fmt"
	"hash/crc32"
	"math"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Partitioner is how the partition of its target is chosen for a delivered record that asks for none.
type Partitioner uint8

// Partitioners.
const (
	ByKey        Partitioner = iota // as Java's producer does
	ByCRC32                         // by the CRC32 of the key, as librdkafka does
	AsInItsTopic                    // the partition that the request was in
)

// of is the partition of a key in a topic of so many; negative is any.
func (p Partitioner) of(java kgo.TopicPartitioner, key []byte, partitions int) int {
	switch {
	case key == nil, partitions <= 0, p == AsInItsTopic:
		return -1
	case p == ByKey:
		return java.Partition(&kgo.Record{Key: key}, partitions)
	case len(key) == 0:
		return -1
	}
	return int(crc32.ChecksumIEEE(key) % uint32(partitions))
}

// misplacement says what is wrong with where a record lies that was delivered; empty: nothing. Asked is the partition of its slot.
func (x *targets) misplacement(rt *route, asked int16, to topicPartition, r *kgo.Record) string {
	switch {
	case asked >= 0 && to.partition != int32(asked):
		return fmt.Sprintf("partition %d, not %d", to.partition, asked)
	case asked >= 0, r == nil:
	case rt.surveyed && !x.plausible(rt.Partitioner, r):
		return fmt.Sprintf("partition %d is not that of the key, and was not with fewer partitions", to.partition)
	case !rt.surveyed && x.misplaced(rt.Partitioner, r):
		return fmt.Sprintf("partition %d is not that of the key", to.partition)
	}
	return ""
}

// misplaced tells whether a record with a key is not where its key says.
func (x *targets) misplaced(by Partitioner, r *kgo.Record) bool {
	t := x.known[r.Topic]
	if t == nil {
		return false
	}
	at := by.of(x.java, r.Key, t.Partitions)
	return at >= 0 && at != int(r.Partition)
}

// chosen is the partition of a slot: one that is asked for, or that of the request. One that the key says, in a survey, is negative: the target may have had fewer of them.
func (x *targets) chosen(src *source, e Expectation) int16 {
	by, t := src.route.Partitioner, x.known[e.Target]
	switch {
	case e.Partition >= 0:
		return int16(e.Partition)
	case by == AsInItsTopic:
		return int16(min(src.partition, math.MaxInt16))
	case t == nil || !src.route.surveyed:
		return -1
	}
	if n := by.of(x.java, e.Key, t.Partitions); n >= 0 {
		return -2 - int16(n)
	}
	return -1
}

// plausible tells whether a record with a key is where its key says while the topic had fewer partitions, or as many.
func (x *targets) plausible(by Partitioner, r *kgo.Record) bool {
	t := x.known[r.Topic]
	if t == nil || t.Partitions == 0 {
		return true
	}
	for n := t.Partitions; n > int(r.Partition); n-- {
		if at := by.of(x.java, r.Key, n); at < 0 || at == int(r.Partition) {
			return true
		}
	}
	return false
}

package kafka

import (
	"bytes"
	"cmp"
	"fmt"
	"strconv"
)

// TopicPartition names a partition of a topic.
type TopicPartition struct {
	Topic     string
	Partition int32
}

// String is topic/partition.
func (tp TopicPartition) String() string { return fmt.Sprintf("%s/%d", tp.Topic, tp.Partition) }

// MarshalText is how logs show it, whatever their format.
func (tp TopicPartition) MarshalText() ([]byte, error) { return []byte(tp.String()), nil }

// UnmarshalText reads what MarshalText has written.
func (tp *TopicPartition) UnmarshalText(text []byte) error {
	i := bytes.LastIndexByte(text, '/')
	n, err := strconv.ParseInt(string(text[i+1:]), 10, 32)
	if i < 0 || err != nil {
		return fmt.Errorf("%q is not topic/partition", text)
	}
	*tp = TopicPartition{string(text[:i]), int32(n)}
	return nil
}

// Alone is the partition as kgo takes partitions, with no other.
func (tp TopicPartition) Alone() map[string][]int32 {
	return map[string][]int32{tp.Topic: {tp.Partition}}
}

// TopicID is Kafka's id of a topic (KIP-516); another one under the same name means that the topic was
// deleted and made anew.
type TopicID [16]byte

// Short is what a checkpoint says of it: its first 4 bytes.
func (id TopicID) Short() [4]byte { return [4]byte(id[:4]) }

// Compare orders partitions by topic and number.
func Compare(a, b TopicPartition) int {
	return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
}

// Flatten lists partitions that a client names by topic, in no order.
func Flatten(ps map[string][]int32) []TopicPartition {
	var out []TopicPartition
	for topic, parts := range ps {
		for _, p := range parts {
			out = append(out, TopicPartition{topic, p})
		}
	}
	return out
}

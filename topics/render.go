package topics

import (
	"fmt"
	"hash/crc32"
	"strings"
)

// Partitioner is how the partition of a delivered record is chosen that asks for none.
type Partitioner uint8

const (
	PartitionerMurmur2 Partitioner = iota // as Java, kafkajs, franz-go and kafka-python do
	PartitionerCRC32                      // as librdkafka does: kcat, confluent-kafka for Python, Go and .NET
	PartitionerSource                     // that of the delay topic in which the request was
)

var partitionerNames = [...]string{"murmur2", "crc32", "source_partition"}

// String returns what UnmarshalText reads: murmur2, crc32 or source_partition.
func (p Partitioner) String() string { return partitionerNames[p] }

// MarshalText is the inverse of UnmarshalText.
func (p Partitioner) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText sets p by its name, in whatever case.
func (p *Partitioner) UnmarshalText(text []byte) error {
	for i, name := range partitionerNames {
		if strings.EqualFold(string(text), name) {
			*p = Partitioner(i)
			return nil
		}
	}
	return fmt.Errorf("%q is not one of %s", text, strings.Join(partitionerNames[:], ", "))
}

// Of is the partition of a record that asks for none, in a topic of so many; -1: the client chooses, by murmur2 or at random. source is
// the partition of the request.
func (p Partitioner) Of(key []byte, source, partitions int32) int32 {
	switch {
	case p == PartitionerSource:
		return source
	case p == PartitionerCRC32 && len(key) > 0 && partitions > 0: // as librdkafka's consistent_random, which leaves a key that is empty to chance, too
		return int32(crc32.ChecksumIEEE(key) % uint32(partitions))
	}
	return -1
}

// Timestamp is which timestamp a delivered record gets.
type Timestamp uint8

const (
	TimestampFired    Timestamp = iota // when it is delivered
	TimestampDue                       // when it was due
	TimestampOriginal                  // that of the request
)

var timestampNames = [...]string{"fired", "due", "original"}

// String returns what UnmarshalText reads: fired, due or original.
func (t Timestamp) String() string { return timestampNames[t] }

// MarshalText is the inverse of UnmarshalText.
func (t Timestamp) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText sets t by its name, in whatever case.
func (t *Timestamp) UnmarshalText(text []byte) error {
	for i, name := range timestampNames {
		if strings.EqualFold(string(text), name) {
			*t = Timestamp(i)
			return nil
		}
	}
	return fmt.Errorf("%q is not one of %s", text, strings.Join(timestampNames[:], ", "))
}

// Of is the timestamp of a record that is delivered at fired, in ms. One that was to be the request's, and that had none, is fired.
func (t Timestamp) Of(first Origin, fired int64) int64 {
	switch {
	case t == TimestampDue:
		return first.Due
	case t == TimestampOriginal && first.Timestamp >= 0:
		return first.Timestamp
	}
	return fired
}

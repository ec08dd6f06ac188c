// Package samples makes records of delay topics as tests take them in.
package samples

import (
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/topics"
)

// Request is one for a target at an offset, which is its value; it was written at a time and is due at another one, both in ms since the epoch.
func Request(topic string, partition int32, offset, written, due int64, target string) *kgo.Record {
	return &kgo.Record{
		Topic: topic, Partition: partition, Offset: offset, Timestamp: time.UnixMilli(written),
		Key: []byte("k"), Value: strconv.AppendInt(nil, offset, 10),
		Headers: []kgo.RecordHeader{
			{Key: topics.HeaderUntil, Value: strconv.AppendInt(nil, due, 10)},
			{Key: topics.HeaderTargetTopic, Value: []byte(target)},
		},
	}
}

// Marker is the end of a transaction in the log.
func Marker(topic string, partition int32, offset, written int64) *kgo.Record {
	return &kgo.Record{
		Topic: topic, Partition: partition, Offset: offset, Timestamp: time.UnixMilli(written),
		Attrs: kgo.NewRecordAttrs(kgo.RecordAttrsOpts{Transactional: true, Control: true}),
	}
}

package bench

import (
	"encoding/binary"
	"strconv"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/topics"
)

// valueBytes is the size of every record's value.
const valueBytes = 100

// stamp is what a value begins with, so that a consumer knows a record without its headers.
type stamp struct {
	due   int64  // ms
	mark  uint32 // which part of the case it belongs to
	index uint32 // within that part
}

const stampBytes = 16

// value writes the value of a record: its stamp, and noise that differs from record to record and that
// no compression makes smaller.
func (s stamp) value() []byte {
	b := make([]byte, stampBytes, valueBytes+8)
	binary.BigEndian.PutUint64(b, uint64(s.due))
	binary.BigEndian.PutUint32(b[8:], s.mark)
	binary.BigEndian.PutUint32(b[12:], s.index)
	for x := noise(uint64(s.mark)<<32 | uint64(s.index)); len(b) < valueBytes; x = noise(x) {
		b = binary.LittleEndian.AppendUint64(b, x)
	}
	return b[:valueBytes:valueBytes]
}

// stampOf reads what value wrote.
func stampOf(value []byte) (stamp, bool) {
	if len(value) != valueBytes {
		return stamp{}, false
	}
	return stamp{
		due:  int64(binary.BigEndian.Uint64(value)),
		mark: binary.BigEndian.Uint32(value[8:]), index: binary.BigEndian.Uint32(value[12:]),
	}, true
}

// noise is SplitMix64: the same input always gives the same output, and neighbours have nothing in common.
func noise(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

func (s stamp) request(topic string) *kgo.Record {
	return &kgo.Record{
		Topic: topic, Value: s.value(),
		Headers: []kgo.RecordHeader{{Key: topics.HeaderUntil, Value: strconv.AppendInt(nil, s.due, 10)}},
	}
}

// request is what asks for a record of the stage's.
func (s *stage) request(st stamp, topic string) *kgo.Record {
	rec := st.request(topic)
	rec.Key = s.key(st)
	if s.ids {
		rec.Headers = append(rec.Headers, kgo.RecordHeader{Key: "delay-id", Value: idOf(st)})
	}
	if len(s.targets) > 1 && s.to != s.targets[0] {
		rec.Headers = append(rec.Headers, kgo.RecordHeader{Key: topics.HeaderTargetTopic, Value: []byte(s.targetOf(st))})
	}
	return rec
}

// delivered is the record that is asked for.
func (s *stage) delivered(st stamp) *kgo.Record {
	return &kgo.Record{Topic: s.targetOf(st), Key: s.key(st), Value: st.value()}
}

func (s *stage) targetOf(st stamp) string {
	if s.to != "" {
		return s.to
	}
	return s.targets[int(st.index)%len(s.targets)]
}

func (s *stage) key(st stamp) []byte {
	if s.keys == 0 {
		return nil
	}
	return strconv.AppendUint(nil, noise(uint64(st.index))%uint64(s.keys), 10)
}

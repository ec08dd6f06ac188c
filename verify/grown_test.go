package verify

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// A delay topic may get a partition while a pass goes on: what comes of that is judged when it is read. One that it does not have was named by mistake.
func TestDelayTopicGetsAPartition(t *testing.T) {
	s := newFakeGroup(t)
	q := s.ask(0, 30)
	grow := func(int64, int64) {
		if _, err := s.adm.UpdatePartitions(t.Context(), 3, "delays"); err != nil {
			t.Error(err)
		}
		<-time.After(2 * metadataAge)
		q.Partition, q.Timestamp = 2, s.at(50)
		if err := s.client(kgo.RecordPartitioner(kgo.ManualPartitioner())).ProduceSync(t.Context(), q).FirstErr(); err != nil {
			t.Error(err)
		}
		s.write(s.delivered(q, 51))
	}
	s.write(s.delivered(q, 30))
	var once sync.Once
	s.config.Progress = func(done, of int64) { once.Do(func() { grow(done, of) }) }
	q = &kgo.Record{Topic: q.Topic, Key: q.Key, Value: q.Value, Headers: headers("trace=1", "delay-until="+millis(s.at(51)), "delay-target-topic=orders")}
	s.resolve("delays", 0, 1, 40, 1)
	v := s.verifier()
	r, err := v.Pass(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.expect(r, nil, "2 delivered")
	s.resolve("delays", 2, 1, 55, 1)
	s.expect(s.pass(v), nil, "2 requested")
	q.Partition = 7
	s.write(s.delivered(q, 51))
	s.expect(s.pass(v), map[string]int64{"stray": 1}, "the delay topic does not have that partition")
}

// A target may get a partition while a pass goes on, and be delivered to there.
func TestTargetGetsAPartition(t *testing.T) {
	s := newFakeGroup(t)
	key := 0
	at := func(partitions int) int32 {
		return int32(kgo.StickyKeyPartitioner(nil).ForTopic("").Partition(&kgo.Record{Key: fmt.Append(nil, key)}, partitions))
	}
	for at(2) != 0 || at(3) != 1 {
		key++
	}
	q := s.write(&kgo.Record{Topic: "delays", Key: fmt.Append(nil, key), Timestamp: s.at(0), Headers: headers("delay-until="+millis(s.at(5)), "delay-target-topic=orders")})
	s.resolve("delays", 0, 1, 4, 0)
	var grow func()
	s.config.Progress = func(int64, int64) {
		if grow != nil {
			grow()
		}
		grow = nil
	}
	v := s.verifier()
	s.expect(s.pass(v), map[string]int64{"overdue": 1}, "target orders: whole")
	grow = func() {
		if _, err := s.adm.UpdatePartitions(t.Context(), 3, "orders"); err != nil {
			t.Error(err)
		}
		<-time.After(2 * metadataAge)
		r := s.delivered(q, 5)
		r.Partition = at(3)
		if err := s.client(kgo.RecordPartitioner(kgo.ManualPartitioner())).ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Error(err)
		}
	}
	s.expect(s.pass(v), nil, "1 delivered")
}

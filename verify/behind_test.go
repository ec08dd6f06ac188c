package verify

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// What is written behind the window is not judged, although it is read for what it does to what lies in it: it may have an id,
// be lost, or be put off.
func TestWithIDsBehindTheWindow(t *testing.T) {
	s := newStage(t)
	s.ask(0, 30, "delay-id=a")
	s.write(s.delivered(s.ask(0, 30, "delay-id=b"), 30))
	s.request(20, "delay-cancel=a")
	s.ask(20, 40, "delay-id=a") // which is lost
	put := s.ask(20, 40, "delay-id=b")
	s.carryOn(put, 40, 41)
	r := s.delivered(put, 40)
	r.Headers = append(r.Headers, headers("delay-tries=1")...)
	s.write(r)
	s.resolve("delays", 0, 6, 60, 6)
	s.config.To = s.at(10)
	got := s.pass(s.verifier())
	s.expect(got, nil, "1 arrived of requests outside of the window")
	if c := got.Counts; c.Requested != 2 || c.Taken != 1 || c.Delivered != 1 {
		t.Errorf("%+v", c)
	}
}

// Where memory is short, what was delivered of a request behind the window may be read before that.
func TestWithIDsBehindTheWindowInLittleMemory(t *testing.T) {
	s := newStage(t)
	const n = 30_000
	value := make([]byte, 300) // so that it takes several fetches
	var all, came []*kgo.Record
	for i := range n {
		all = append(all, &kgo.Record{Topic: "delays", Key: []byte("k"), Value: value, Timestamp: s.at(float64(i) / 1000),
			Headers: headers("delay-until="+millis(s.at(float64(i)/1000+0.01)), "delay-target-topic=orders", fmt.Sprint("delay-id=", i))})
	}
	if err := s.cl.ProduceSync(t.Context(), all...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	for i, q := range all {
		if i != 777 {
			came = append(came, s.delivered(q, float64(i)/1000+0.01))
		}
	}
	if err := s.cl.ProduceSync(t.Context(), came...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	s.resolve("delays", 0, n, 50, n)
	s.config.To, s.config.Memory = s.at(3), 3_000_000 // of n ids of 400 bytes
	r := s.pass(s.verifier())
	s.expect(r, map[string]int64{"missing": 1}, "delays/0@777: has the id")
	if r.Counts.Requested != 3000 || r.Counts.Elsewhere != n-3000 {
		t.Errorf("%+v", r.Counts)
	}
}

// A delay topic may get a partition while a pass goes on: what comes of that is judged when it is read. One that it does not have was named by mistake.
func TestDelayTopicGetsAPartition(t *testing.T) {
	s := newStage(t)
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

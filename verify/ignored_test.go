package verify

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/bench/check"
)

// Where memory is short, the delivery of a request may be read before a later one that was left out because of it.
func TestLeftOutInLittleMemory(t *testing.T) {
	s := newStage(t)
	s.config.Routes[0].OnDuplicate = check.LeaveOut
	const n = 30_000
	value := make([]byte, 300) // so that it takes several fetches
	var all, came []*kgo.Record
	ask := func(i, id int) *kgo.Record {
		at, due := float64(i)/1000, float64(i)/1000+2
		q := &kgo.Record{Topic: "delays", Key: []byte("k"), Value: value, Timestamp: s.at(at),
			Headers: headers("delay-until="+millis(s.at(due)), "delay-target-topic=orders", fmt.Sprint("delay-id=", id))}
		all = append(all, q)
		return q
	}
	first := make(map[*kgo.Record]float64)
	for i := range n {
		first[ask(i, i)] = float64(i)/1000 + 2
		if i >= 1000 && i%20 == 0 {
			ask(i, i-1000)
		}
	}
	if err := s.cl.ProduceSync(t.Context(), all...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	for _, q := range all {
		if due, is := first[q]; is {
			came = append(came, s.delivered(q, due))
		}
	}
	if err := s.cl.ProduceSync(t.Context(), came...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	s.resolve("delays", 0, int64(len(all)), 50, int64(len(all)))
	s.config.Memory = 6_000_000
	r := s.pass(s.verifier())
	s.expect(r, nil, "all is well")
	if r.Counts.Taken != (n-1000)/20 {
		t.Errorf("%+v", r.Counts)
	}
}

// One may be left out because of another one that is late, and delivered before a pass is over that has not read as far.
func TestLeftOutMeanwhile(t *testing.T) {
	s := newStage(t)
	s.config.Routes[0].OnDuplicate = check.LeaveOut
	q := s.ask(0, 10, "delay-id=a")
	v := s.verifier()
	var meanwhile func()
	v.config.Progress = func(int64, int64) {
		if act := meanwhile; act != nil {
			meanwhile = nil
			act()
		}
	}
	s.expect(s.pass(v), map[string]int64{"overdue": 1}, "delays/0@0")
	meanwhile = func() {
		s.ask(50, 55, "delay-id=a")
		r := s.delivered(q, 10)
		r.Timestamp = s.at(50.1)
		s.write(r)
	}
	s.pass(v)
	s.resolve("delays", 0, 2, 58, 2)
	for range 2 {
		r := s.pass(v)
		if s.expect(r, nil, "all is well"); r.Counts.Taken != 1 {
			t.Errorf("%+v", r.Counts)
		}
	}
}

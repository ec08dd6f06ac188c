package verify

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// What is written behind the window is not judged, although it is read for what it does to what lies in it: it may have an id,
// be lost, or be put off.
func TestWithIDsBehindTheWindow(t *testing.T) {
	s := newFakeGroup(t)
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
	s := newFakeGroup(t)
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
	s.expect(r, map[string]int64{"missing": 1}, "delays/0@777: due ")
	if r.Counts.Requested != 3000 || r.Counts.Elsewhere != n-3000 {
		t.Errorf("%+v", r.Counts)
	}
}

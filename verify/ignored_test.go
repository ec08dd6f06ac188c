package verify

import (
	"fmt"
	"testing"
	"time"

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

// What had an id that another one has was left out, if that may have had it when it was read, by all that is known of their times.
func TestLostOrLeftOut(t *testing.T) {
	for name, tt := range map[string]struct {
		act  func(s *stage)
		want map[string]int64
		says string
	}{
		"while the first was pending": {func(s *stage) {
			s.write(s.delivered(s.ask(-200, 10, "delay-id=a"), 10))
			s.ask(9, 12, "delay-id=a")
		}, nil, "1 cancelled, replaced or left out"},
		"long after the first was delivered": {func(s *stage) {
			s.write(s.delivered(s.ask(-200, -100, "delay-id=a"), -100))
			s.ask(0, 12, "delay-id=a")
		}, map[string]int64{"missing": 1}, `delays/0@1: has the id "a"`},
		"after the first was delivered, by a clock that may be ahead": {func(s *stage) {
			s.write(s.delivered(s.ask(-200, -50, "delay-id=a"), -50))
			s.ask(0, 12, "delay-id=a")
		}, nil, "1 cancelled, replaced or left out"},
		"while the first was late": {func(s *stage) {
			r := s.delivered(s.ask(-200, -100, "delay-id=a"), -100)
			r.Timestamp = s.at(1)
			s.write(r)
			s.ask(0, 12, "delay-id=a")
		}, nil, "1 cancelled, replaced or left out"},
		"while the first was remembered": {func(s *stage) {
			s.config.Routes[0].Remember = 2 * time.Hour
			s.write(s.delivered(s.ask(-200, -100, "delay-id=a"), -100))
			s.ask(0, 12, "delay-id=a")
		}, nil, "1 cancelled, replaced or left out"},
		"long after the first was dead-lettered": {func(s *stage) {
			letter := s.condemned(s.ask(-200, -100, "delay-id=a"), "unknown_target")
			letter.Timestamp = s.at(-100)
			s.write(letter)
			s.ask(0, 12, "delay-id=a")
		}, map[string]int64{"missing": 1}, `delays/0@1: has the id "a"`},
		"nothing is seen of one between them": {func(s *stage) {
			s.write(s.delivered(s.ask(-200, -100, "delay-id=a"), -100))
			s.ask(-190, 12, "delay-id=a")
			s.ask(0, 12, "delay-id=a")
		}, nil, "2 cancelled, replaced or left out"},
		"long after, and cancelled": {func(s *stage) {
			s.write(s.delivered(s.ask(-200, -100, "delay-id=a"), -100))
			s.ask(0, 12, "delay-id=a")
			s.request(1, "delay-cancel=a")
		}, nil, "1 cancelled, replaced or left out"},
		"what was delivered may be pending again": {func(s *stage) {
			s.config.AtLeastOnce = true
			s.write(s.delivered(s.ask(-200, -100, "delay-id=a"), -100))
			s.ask(0, 12, "delay-id=a")
		}, nil, "1 cancelled, replaced or left out"},
		"it is not known when the first was delivered": {func(s *stage) {
			s.config.Routes[0].Timestamp = "due"
			s.write(s.delivered(s.ask(-200, -100, "delay-id=a"), -100))
			s.ask(0, 12, "delay-id=a")
		}, nil, "1 cancelled, replaced or left out"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			s.config.Routes[0].OnDuplicate = check.LeaveOut
			tt.act(s)
			ends, err := s.adm.ListEndOffsets(t.Context(), "delays")
			if err != nil {
				t.Fatal(err)
			}
			end := ends["delays"][0].Offset
			s.resolve("delays", 0, end, 30, end)
			v := s.verifier()
			for range 2 {
				s.expect(s.pass(v), tt.want, tt.says)
			}
		})
	}
}

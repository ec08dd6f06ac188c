package verify

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/duewheel/duewheel/bench/check"
)

// Where memory is short, the delivery of a request may be read before a later one that was left out because of it. How much is held does not depend on
// how much of a topic comes at once.
func TestLeftOutInLittleMemory(t *testing.T) {
	for _, small := range [][]string{nil, {"delays"}, {"orders"}, {"delays", "orders"}} {
		t.Run("in small pieces: "+strings.Join(small, ", "), func(t *testing.T) {
			s := newFakeGroup(t)
			s.inPieces(small)
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
			cl := s.client(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.ProducerBatchMaxBytes(piece))
			if err := cl.ProduceSync(t.Context(), all...).FirstErr(); err != nil {
				t.Fatal(err)
			}
			for _, q := range all {
				if due, is := first[q]; is {
					came = append(came, s.delivered(q, due))
				}
			}
			if err := cl.ProduceSync(t.Context(), came...).FirstErr(); err != nil {
				t.Fatal(err)
			}
			s.resolve("delays", 0, int64(len(all)), 50, int64(len(all)))
			s.config.Memory = 6_000_000
			r := s.pass(s.verifier())
			s.expect(r, nil, "all is well")
			if r.Counts.Taken != (n-1000)/20 {
				t.Errorf("%+v", r.Counts)
			}
		})
	}
}

// What is read further because memory is short is bounded by that, too: of nothing that waits does it tell.
func TestReadsNotOnWithoutMemory(t *testing.T) {
	s := newFakeGroup(t)
	s.inPieces([]string{"delays", "orders"})
	cl := s.client(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.ProducerBatchMaxBytes(piece))
	var waiting, foreign []*kgo.Record
	for i := range 20_000 {
		waiting = append(waiting, &kgo.Record{Topic: "delays", Key: []byte("k"), Timestamp: s.at(float64(i) / 1000),
			Headers: headers("delay-until="+millis(s.at(500)), "delay-target-topic=orders")})
	}
	for i := range 50_000 {
		q := kgo.Record{Topic: "delays", Offset: int64(100_000 + i), Key: []byte("k")}
		foreign = append(foreign, s.delivered(&q, 40+float64(i)/5000))
	}
	for _, all := range [][]*kgo.Record{waiting, foreign} {
		if err := cl.ProduceSync(t.Context(), all...).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	s.config.Memory = 600_000 // of 20,000 slots of 48 bytes, and 50,000 of 176
	v := s.verifier()
	if _, err := v.Pass(t.Context()); !errors.Is(err, ErrMemory) || v.Held() > 2*s.config.Memory {
		t.Errorf("got %v, and %d bytes are held", err, v.Held())
	}
}

// piece is how many bytes of a partition come at once, where that is little.
const piece = 64 << 10

// inPieces has a fetch answered with little of each partition of some topics.
func (s *fakeGroup) inPieces(small []string) {
	s.Helper()
	if len(small) == 0 {
		return
	}
	details, err := s.adm.ListTopics(s.Context(), small...)
	if err != nil {
		s.Fatal(err)
	}
	s.fake.ControlKey(int16(kmsg.Fetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		s.fake.KeepControl()
		for _, t := range req.(*kmsg.FetchRequest).Topics {
			if !slices.ContainsFunc(small, func(name string) bool { return details[name].ID == kadm.TopicID(t.TopicID) }) {
				continue
			}
			for i := range t.Partitions {
				t.Partitions[i].PartitionMaxBytes = piece
			}
		}
		return nil, nil, false
	})
}

// One may be left out because of another one that is late, and delivered before a pass is over that has not read as far.
func TestLeftOutMeanwhile(t *testing.T) {
	s := newFakeGroup(t)
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
		act  func(s *fakeGroup)
		want map[string]int64
		says string
	}{
		"while the first was pending": {func(s *fakeGroup) {
			s.write(s.delivered(s.ask(-200, 10, "delay-id=a"), 10))
			s.ask(9, 12, "delay-id=a")
		}, nil, "1 cancelled, replaced or left out"},
		"long after the first was delivered": {func(s *fakeGroup) {
			s.write(s.delivered(s.ask(-200, -100, "delay-id=a"), -100))
			s.ask(0, 12, "delay-id=a")
		}, map[string]int64{"missing": 1}, `should be delivered to orders; it has the id "a"`},
		"after the first was delivered, by a clock that may be ahead": {func(s *fakeGroup) {
			s.write(s.delivered(s.ask(-200, -50, "delay-id=a"), -50))
			s.ask(0, 12, "delay-id=a")
		}, nil, "1 cancelled, replaced or left out"},
		"while the first was late": {func(s *fakeGroup) {
			r := s.delivered(s.ask(-200, -100, "delay-id=a"), -100)
			r.Timestamp = s.at(1)
			s.write(r)
			s.ask(0, 12, "delay-id=a")
		}, nil, "1 cancelled, replaced or left out"},
		"while the first was remembered": {func(s *fakeGroup) {
			s.config.Routes[0].Remember = 2 * time.Hour
			s.write(s.delivered(s.ask(-200, -100, "delay-id=a"), -100))
			s.ask(0, 12, "delay-id=a")
		}, nil, "1 cancelled, replaced or left out"},
		"long after the first was dead-lettered": {func(s *fakeGroup) {
			letter := s.condemned(s.ask(-200, -100, "delay-id=a"), "unknown_target")
			letter.Timestamp = s.at(-100)
			s.write(letter)
			s.ask(0, 12, "delay-id=a")
		}, map[string]int64{"missing": 1}, `should be delivered to orders; it has the id "a"`},
		"nothing is seen of one between them": {func(s *fakeGroup) {
			s.write(s.delivered(s.ask(-200, -100, "delay-id=a"), -100))
			s.ask(-190, 12, "delay-id=a")
			s.ask(0, 12, "delay-id=a")
		}, nil, "2 cancelled, replaced or left out"},
		"long after, and cancelled": {func(s *fakeGroup) {
			s.write(s.delivered(s.ask(-200, -100, "delay-id=a"), -100))
			s.ask(0, 12, "delay-id=a")
			s.request(1, "delay-cancel=a")
		}, nil, "1 cancelled, replaced or left out"},
		"what was delivered may be pending again": {func(s *fakeGroup) {
			s.config.AtLeastOnce = true
			s.write(s.delivered(s.ask(-200, -100, "delay-id=a"), -100))
			s.ask(0, 12, "delay-id=a")
		}, nil, "1 cancelled, replaced or left out"},
		"it is not known when the first was delivered": {func(s *fakeGroup) {
			s.config.Routes[0].Timestamp = "due"
			s.write(s.delivered(s.ask(-200, -100, "delay-id=a"), -100))
			s.ask(0, 12, "delay-id=a")
		}, nil, "1 cancelled, replaced or left out"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFakeGroup(t)
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

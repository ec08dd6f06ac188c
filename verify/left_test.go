package verify

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/bench/check"
)

// carry writes a carried copy of what lies at the offset of a record, whose key is of an offset, and a due time in minutes.
func (s *fakeGroup) carry(q *kgo.Record, seq int64, due float64) *kgo.Record {
	s.Helper()
	c := *s.write(&kgo.Record{Topic: q.Topic, Partition: q.Partition, Key: q.Key, Value: q.Value, Timestamp: s.at(1), Headers: slices.Concat(q.Headers, headers(
		s.mark(q, "delay-seq", seq, s.at(due).UnixMilli(), q.Timestamp.UnixMilli()), fmt.Sprint("delay-from=", q.Offset)))})
	c.Headers, c.Timestamp = q.Headers, q.Timestamp // as what a copy of it is made of
	return &c
}

// left writes a request at minute 0 that is due at some minute, and what stands for it in its log when that has lost it.
func (s *fakeGroup) left(due float64, more ...string) *kgo.Record {
	s.Helper()
	q := s.ask(0, due, more...)
	s.carry(q, 0, due)
	s.cut("delays", 0, 1)
	return q
}

// A request that has left its log is judged by the carried copy that stands for it there, as if it were there itself.
func TestRequestsThatWereCarried(t *testing.T) {
	for name, tt := range map[string]struct {
		act  func(s *fakeGroup)
		want map[string]int64
		says string
		is   Counts
	}{
		"pending": {func(s *fakeGroup) { s.left(500) }, nil, "1 of them have left their delay topic", Counts{Pending: 1}},
		"overdue": {func(s *fakeGroup) { s.left(30) }, map[string]int64{"overdue": 1}, "delays/0@0: due", Counts{Overdue: 1}},
		"missing": {func(s *fakeGroup) {
			s.left(30)
			s.resolve("delays", 0, 2, 40, 1)
		}, map[string]int64{"missing": 1}, "delays/0@0: due", Counts{Missing: 1}},
		"delivered": {func(s *fakeGroup) {
			s.write(s.delivered(s.left(30), 30))
			s.resolve("delays", 0, 2, 40, 1)
		}, nil, "all is well", Counts{Delivered: 1}},
		"altered": {func(s *fakeGroup) {
			r := s.delivered(s.left(30), 30)
			r.Value = []byte("w")
			s.write(r)
			s.resolve("delays", 0, 2, 40, 1)
		}, map[string]int64{"altered": 1}, "value", Counts{Delivered: 1}},
		"early": {func(s *fakeGroup) {
			r := s.delivered(s.left(30), 30)
			r.Timestamp = s.at(29)
			s.write(r)
			s.resolve("delays", 0, 2, 40, 1)
		}, map[string]int64{"early": 1}, "delays/0@0", Counts{Delivered: 1}},
		"doubled": {func(s *fakeGroup) {
			r := s.write(s.delivered(s.left(30), 30))
			again := *r
			s.write(&again)
			s.resolve("delays", 0, 2, 40, 1)
		}, map[string]int64{"doubled": 1}, "delays/0@0: seen 2 times", Counts{Delivered: 2, Doubled: 1}},
		"dead-lettered": {func(s *fakeGroup) {
			s.write(s.condemned(s.left(30), "rejected"))
			s.resolve("delays", 0, 2, 40, 1)
		}, nil, "all is well", Counts{DeadLettered: 1}},
		"carried twice, and the first copy has left the log, too": {func(s *fakeGroup) {
			q := s.ask(0, 30)
			s.carry(s.carry(q, 0, 30), 0, 30)
			s.cut("delays", 0, 2)
			s.resolve("delays", 0, 3, 40, 2)
		}, map[string]int64{"missing": 1}, "delays/0@0: due", Counts{Missing: 1}},
		"carried twice": {func(s *fakeGroup) {
			q := s.ask(0, 30)
			s.carry(s.carry(q, 0, 30), 0, 30)
			s.cut("delays", 0, 1)
			s.write(s.delivered(q, 30))
			s.resolve("delays", 0, 3, 40, 1)
		}, nil, "all is well", Counts{Delivered: 1}},
		"of a partition's second page of offsets": {func(s *fakeGroup) {
			for range 70 {
				s.request(0, "delay-target-topic=orders")
			}
			q := s.ask(0, 30)
			s.carry(q, q.Offset, 30)
			s.cut("delays", 0, 71)
			s.resolve("delays", 0, 72, 40, 71)
		}, map[string]int64{"missing": 1}, "delays/0@70: due", Counts{Missing: 1}},
		"cancelled by its handle": {func(s *fakeGroup) {
			s.left(30)
			s.request(2, "delay-cancel=0-0-"+millis(s.at(30)))
			s.resolve("delays", 0, 3, 40, 1)
		}, nil, "all is well", Counts{Taken: 1}},
		"cancelled by its id": {func(s *fakeGroup) {
			s.left(30, "delay-id=a")
			s.request(2, "delay-cancel=a")
			s.resolve("delays", 0, 3, 40, 1)
		}, nil, "all is well", Counts{Taken: 1}},
		"not cancelled by another id": {func(s *fakeGroup) {
			s.left(30, "delay-id=a")
			s.request(2, "delay-cancel=b")
			s.resolve("delays", 0, 3, 40, 1)
		}, map[string]int64{"missing": 1}, "has the id", Counts{Missing: 1}},
		"replaced": {func(s *fakeGroup) {
			s.left(30)
			s.write(s.delivered(s.ask(2, 40, "delay-replace=0-0-"+millis(s.at(30))), 40))
			s.resolve("delays", 0, 3, 50, 1)
		}, nil, "all is well", Counts{Delivered: 1, Taken: 1, Requested: 1}},
		"replaced, and delivered, too": {func(s *fakeGroup) {
			q := s.left(30)
			s.write(s.delivered(q, 30))
			s.write(s.delivered(s.ask(2, 40, "delay-replace=0-0-"+millis(s.at(30))), 40))
			s.resolve("delays", 0, 3, 50, 1)
		}, map[string]int64{"doubled": 1}, "1 replacements of it", Counts{Delivered: 2, Requested: 1}},
		"taken away while the copy was on its way": {func(s *fakeGroup) {
			q := s.ask(0, 30)
			s.request(2, "delay-cancel=0-0-"+millis(s.at(30)))
			s.carry(q, 0, 30)
			s.cut("delays", 0, 1)
			s.write(&kgo.Record{Topic: "delays", Timestamp: s.at(3), Headers: headers(s.mark(q, "delay-resolve", 2, s.at(30).UnixMilli(), 0, -1))})
			s.resolve("delays", 0, 4, 40, 1)
		}, nil, "all is well", Counts{Taken: 1}},
		"taken away while the copy was on its way, by what has its id": {func(s *fakeGroup) {
			q := s.ask(0, 30, "delay-id=x")
			s.request(2, "delay-cancel=x")
			s.carry(q, 0, 30)
			s.cut("delays", 0, 1)
			s.write(&kgo.Record{Topic: "delays", Timestamp: s.at(3), Headers: headers(s.mark(q, "delay-resolve", 2, s.at(30).UnixMilli(), 0, -1))})
			s.resolve("delays", 0, 4, 40, 1)
		}, nil, "all is well", Counts{Taken: 1}},
		"taken away while the copy was on its way, by what has its id, which another one has by now": {func(s *fakeGroup) {
			q := s.ask(0, 30, "delay-id=x")
			for range 70 {
				s.request(0, "delay-target-topic=orders")
			}
			s.request(2, "delay-cancel=x")
			s.carry(q, 0, 30)
			s.cut("delays", 0, 71)
			s.write(&kgo.Record{Topic: "delays", Timestamp: s.at(3), Headers: headers(s.mark(q, "delay-resolve", 72, s.at(30).UnixMilli(), 0, -1))})
			s.ask(4, 500, "delay-id=x")
			s.resolve("delays", 0, 75, 40, 74)
		}, nil, "1 cancelled, replaced or left out", Counts{Taken: 1, Pending: 1, Requested: 1}},
		"taken away by its handle while the copy was on its way, long ago": {func(s *fakeGroup) {
			q := s.ask(0, 30)
			for range 70 {
				s.request(0, "delay-target-topic=orders")
			}
			s.request(2, "delay-cancel=0-0-"+millis(s.at(30)))
			s.carry(q, 0, 30)
			s.cut("delays", 0, 71)
			s.write(&kgo.Record{Topic: "delays", Timestamp: s.at(3), Headers: headers(s.mark(q, "delay-resolve", 72, s.at(30).UnixMilli(), 0, -1))})
			s.resolve("delays", 0, 72, 40, 71)
		}, nil, "1 cancelled, replaced or left out", Counts{Taken: 1}},
		"missing, and another one has its id by now": {func(s *fakeGroup) {
			q := s.ask(0, 30, "delay-id=x")
			for range 70 {
				s.request(0, "delay-target-topic=orders")
			}
			s.carry(q, 0, 30)
			s.cut("delays", 0, 71)
			s.ask(4, 500, "delay-id=x")
			s.resolve("delays", 0, 73, 40, 72)
		}, map[string]int64{"missing": 1}, "nothing that came later", Counts{Missing: 1, Pending: 1, Requested: 1}},
		"taken away while the copy was on its way, by what has left the log": {func(s *fakeGroup) {
			q := s.left(30)
			s.write(&kgo.Record{Topic: "delays", Timestamp: s.at(3), Headers: headers(s.mark(q, "delay-resolve", 1, s.at(30).UnixMilli(), 0, -1))})
			s.resolve("delays", 0, 3, 40, 1)
		}, nil, "cannot tell of 1: a resolve record says that they were taken away", Counts{Untold: 1}},
		"taken away, it says, and it has an id that nothing else has": {func(s *fakeGroup) {
			q := s.left(30, "delay-id=x")
			s.write(&kgo.Record{Topic: "delays", Timestamp: s.at(3), Headers: headers(s.mark(q, "delay-resolve", 1, s.at(30).UnixMilli(), 0, -1))})
			s.resolve("delays", 0, 3, 40, 1)
		}, nil, "cannot tell of 1: a resolve record says that they were taken away", Counts{Untold: 1}},
		"taken away, it says, and delivered": {func(s *fakeGroup) {
			q := s.left(30)
			s.write(&kgo.Record{Topic: "delays", Timestamp: s.at(3), Headers: headers(s.mark(q, "delay-resolve", 1, s.at(30).UnixMilli(), 0, -1))})
			s.write(s.delivered(q, 30))
			s.resolve("delays", 0, 3, 40, 1)
		}, nil, "all is well", Counts{Delivered: 1}},
		"delivered, and its resolve record is of itself": {func(s *fakeGroup) {
			q := s.left(30)
			s.write(&kgo.Record{Topic: "delays", Timestamp: s.at(3), Headers: headers(s.mark(q, "delay-resolve", 0, s.at(30).UnixMilli(), 0, -1))})
			s.resolve("delays", 0, 3, 40, 1)
		}, map[string]int64{"missing": 1}, "delays/0@0: due", Counts{Missing: 1}},
		"tried before": {func(s *fakeGroup) {
			q := s.ask(0, 10)
			s.carryOn(q, 10, 30)
			s.cut("delays", 0, 1)
			r := s.delivered(q, 10)
			r.Timestamp, r.Headers = s.at(31), append(r.Headers, headers("delay-tries=1")...)
			s.write(r)
			s.resolve("delays", 0, 2, 40, 1)
		}, nil, "all is well", Counts{Delivered: 1, Retried: 1}},
		"tried before, and not since": {func(s *fakeGroup) {
			s.carryOn(s.ask(0, 10), 10, 30)
			s.cut("delays", 0, 1)
			s.resolve("delays", 0, 2, 40, 1)
		}, map[string]int64{"missing": 1}, "delays/0@0: due", Counts{Missing: 1, Retried: 1}},
		"tried before, and to be tried": {func(s *fakeGroup) {
			s.carryOn(s.ask(0, 10), 10, 500)
			s.cut("delays", 0, 1)
			s.resolve("delays", 0, 2, 40, 1)
		}, nil, "1 pending", Counts{Pending: 1, Retried: 1}},
		"tried before and carried": {func(s *fakeGroup) {
			q := s.ask(0, 10)
			again := s.carryOn(q, 10, 30)
			s.carry(s.carry(again, 1, 30), 1, 30)
			s.cut("delays", 0, 2)
			r := s.delivered(q, 10)
			r.Timestamp, r.Headers = s.at(31), append(r.Headers, headers("delay-tries=1")...)
			s.write(r)
			s.resolve("delays", 0, 4, 40, 2)
		}, nil, "all is well", Counts{Delivered: 1, Retried: 1}},
		"tried twice, and only the second time is left": {func(s *fakeGroup) {
			q := s.ask(0, 10)
			s.carryOn(q, 10, 20)
			s.tryAgain(q, 20, 10, 2, 30)
			s.cut("delays", 0, 2)
			r := s.delivered(q, 10)
			r.Timestamp, r.Headers = s.at(31), append(r.Headers, headers("delay-tries=2")...)
			s.write(r)
			s.resolve("delays", 0, 3, 40, 2)
		}, nil, "all is well", Counts{Delivered: 1, Retried: 1}},
		"its target is not one of the configuration's": {func(s *fakeGroup) {
			q := s.ask(0, 30)
			set(q, "delay-target-topic", "bills.de")
			s.carry(q, 0, 30)
			s.cut("delays", 0, 1)
			r := s.delivered(q, 30)
			r.Topic = "bills.de"
			s.write(r)
			s.resolve("delays", 0, 2, 40, 1)
		}, nil, "all is well", Counts{Delivered: 1}},
		"a copy of another group": {func(s *fakeGroup) {
			q := s.ask(0, 30)
			s.config.Group = "others"
			s.carry(q, 0, 30)
			s.cut("delays", 0, 1)
		}, nil, "all is well", Counts{Requested: -1}},
		"from after what was asked for": {func(s *fakeGroup) {
			s.left(30)
			s.config.To = s.at(-0.5)
			s.resolve("delays", 0, 2, 40, 1)
		}, nil, "all is well", Counts{Requested: -1}},
		"from before the end of what was asked for": {func(s *fakeGroup) {
			s.left(500)
			s.config.To = s.at(0.5)
			s.resolve("delays", 0, 2, 40, 1)
		}, nil, "all is well", Counts{Pending: 1}},
		"from before what was asked for": {func(s *fakeGroup) {
			s.left(30)
			s.config.From = s.at(0.5)
			s.resolve("delays", 0, 2, 40, 1)
		}, nil, "all is well", Counts{Requested: -1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFakeGroup(t)
			tt.act(s)
			v := s.verifier()
			want := tt.is
			want.Requested++
			want.Left = min(want.Requested, 1)
			for name, of := range map[string]*Verifier{"first": v, "second": v, "another": s.verifier()} {
				r := s.pass(of)
				s.expect(r, tt.want, tt.says)
				got := r.Counts
				got.Faults, got.Cancels, got.Elsewhere, got.Foreign = 0, 0, 0, 0
				if got.DeadLettered > 1 {
					got.DeadLettered = 0
				}
				if got != want {
					t.Errorf("%s pass: %+v, want %+v", name, got, want)
				}
			}
		})
	}
}

// What was seen in its target before the copy was read that stands for it has arrived; and what has arrived, and is forgotten, is doubled when it comes again.
func TestCarriedAndDeliveredBetweenPasses(t *testing.T) {
	s := newFakeGroup(t)
	q := s.ask(0, 10)
	s.ask(0, 500)
	s.cut("delays", 0, 1)
	s.write(s.delivered(q, 10))
	v := s.verifier()
	r := s.pass(v)
	s.expect(r, nil, "1 arrived of requests outside of the window")
	s.carry(q, 0, 10) // the same batch may hold what was due when it was written
	s.resolve("delays", 0, 3, 40, 1)
	r = s.pass(v)
	if s.expect(r, nil, "all is well"); r.Counts.Requested != 1 || r.Counts.Left != 0 {
		t.Errorf("%+v", r.Counts)
	}
	s.write(s.delivered(q, 10))
	s.expect(s.pass(v), map[string]int64{"doubled": 1}, "delays/0@0: seen again in orders")

	other := s.ask(0, 20)
	s.carry(other, other.Offset, 20)
	s.cut("delays", 0, other.Offset+1)
	w := s.verifier()
	s.write(s.delivered(other, 20))
	s.resolve("delays", 0, other.Offset+2, 40, other.Offset+1)
	s.pass(w)
	s.expect(s.pass(w), map[string]int64{"doubled": 1}, "delays/0@0")
	s.write(s.delivered(other, 20))
	s.expect(s.pass(w), map[string]int64{"doubled": 2}, fmt.Sprintf("delays/0@%d: seen 2 times", other.Offset))
}

// Of what has arrived before it is said that its copy stands for nothing any more nothing was taken away.
func TestCopyIsStaleAfterItsDelivery(t *testing.T) {
	s := newFakeGroup(t)
	q := s.left(30)
	s.write(s.delivered(q, 30))
	v := s.verifier()
	s.pass(v)
	s.request(31, "delay-cancel=0-0-"+millis(s.at(30))) // in vain
	s.write(&kgo.Record{Topic: "delays", Timestamp: s.at(31), Headers: headers(s.mark(q, "delay-resolve", 1, s.at(30).UnixMilli(), 0, -1))})
	s.resolve("delays", 0, 4, 40, 4)
	r := s.pass(v)
	if s.expect(r, nil, "all is well"); r.Counts.Delivered != 1 || r.Counts.Taken != 0 {
		t.Errorf("%+v", r.Counts)
	}
}

// A record of a retry route that was parked before the copy was read that stood for it has arrived.
func TestCarriedAndParkedBetweenPasses(t *testing.T) {
	s := newFakeGroup(t)
	s.config.Routes[0].Retry = &check.Retry{Initial: time.Minute, Max: time.Minute, Factor: 1, MaxAttempts: 1, Parking: "unrelated"}
	s.config.Routes[0].Target = "orders"
	q := s.request(0, "delay-attempt=1")
	s.request(1)
	s.cut("delays", 0, 1)
	letter := s.condemned(q, "attempts_exhausted")
	letter.Topic = "unrelated"
	s.write(letter)
	v := s.verifier()
	s.pass(v)
	s.carry(q, 0, 1)
	r := s.pass(v)
	if s.expect(r, nil, "1 pending"); r.Counts.Requested != 1 || r.Counts.Left != 0 {
		t.Errorf("%+v", r.Counts)
	}
}

// What a retry record says of one attempt is counted once, although it is carried again after its request was looked at.
func TestRetryIsCarriedBetweenPasses(t *testing.T) {
	s := newFakeGroup(t)
	again := s.carryOn(s.ask(0, 10), 10, 500)
	for range 70 { // so that what is remembered of it is not of a page that is still read
		s.request(0, "delay-target-topic=orders")
	}
	again.Offset = s.carry(again, 1, 500).Offset
	s.cut("delays", 0, again.Offset)
	s.resolve("delays", 0, again.Offset+1, 40, again.Offset)
	v := s.verifier()
	s.expect(s.pass(v), nil, "1 pending")
	s.carry(again, 1, 500)
	if r := s.pass(v); r.Counts.Retried != 1 || r.Counts.Requested != 1 || r.Counts.Pending != 1 {
		t.Errorf("%+v", r.Counts)
	}
}

// A copy of an attempt may be on its way while its request is tried again: what is known of that since then stays.
func TestCopyOfAFormerAttempt(t *testing.T) {
	s := newFakeGroup(t)
	q := s.ask(0, 10)
	first := s.carryOn(q, 10, 20)
	for range 70 { // so that what is remembered of it is not of a page that is still read
		s.request(0, "delay-target-topic=orders")
	}
	first.Offset = s.carry(first, 1, 20).Offset
	s.cut("delays", 0, first.Offset)
	s.resolve("delays", 0, first.Offset+1, 15, first.Offset)
	v := s.verifier()
	s.expect(s.pass(v), map[string]int64{"overdue": 1}, "1 overdue")
	again := s.tryAgain(q, 20, 10, 2, 500)
	s.resolve("delays", 0, again.Offset+1, 40, first.Offset)
	s.expect(s.pass(v), nil, "1 pending")
	stale := s.carry(first, 1, 20)
	s.resolve("delays", 0, stale.Offset+1, 40, first.Offset)
	if r := s.pass(v); r.Counts.Retried != 2 || r.Counts.Requested != 1 || r.Counts.Pending != 1 {
		t.Errorf("%+v", r.Counts)
	}
}

// A record of a retry route is put off when it is read, where brokers do not say when it came: of that, too, what was carried tells.
func TestRetriesThatWereCarried(t *testing.T) {
	for _, tt := range []struct {
		name string
		tell func(s *fakeGroup, q *kgo.Record) (tries, end int64)
		want map[string]int64
	}{
		{"put off", func(s *fakeGroup, q *kgo.Record) (tries, end int64) {
			s.tryAgain(q, 1, 11, 0, 11)
			s.cut("delays", 0, 1)
			return 0, 2
		}, nil},
		{"put off and carried", func(s *fakeGroup, q *kgo.Record) (tries, end int64) {
			s.carry(s.tryAgain(q, 1, 11, 0, 11), 1, 11)
			s.cut("delays", 0, 2)
			return 0, 3
		}, nil},
		{"put off, and tried again, of which only the last is left", func(s *fakeGroup, q *kgo.Record) (tries, end int64) {
			s.tryAgain(q, 1, 11, 0, 11)
			s.tryAgain(q, 11, 11, 1, 11.5)
			s.cut("delays", 0, 2)
			return 1, 3
		}, nil},
		{"put off until another time", func(s *fakeGroup, q *kgo.Record) (tries, end int64) {
			s.carry(s.tryAgain(q, 1, 12, 0, 12), 1, 12)
			s.cut("delays", 0, 2)
			return 0, 3
		}, map[string]int64{"altered": 1, "early": 1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newFakeGroup(t)
			s.config.Routes[0] = check.Route{Topic: "delays", Allow: []string{"orders"}, Target: "orders", Retry: &check.Retry{Initial: 10 * time.Minute, Max: 10 * time.Minute, Factor: 1, MaxAttempts: 8}}
			q := s.request(0, "trace=1")
			tries, end := tt.tell(s, q)
			r := s.delivered(q, 11)
			r.Timestamp, r.Headers = s.at(12), append(r.Headers, headers("delay-attempt=1")...)
			if tries > 0 {
				r.Headers = append(r.Headers, headers(fmt.Sprint("delay-tries=", tries))...)
			}
			s.write(r)
			s.resolve("delays", 0, end, 40, 2)
			s.expect(s.pass(s.verifier()), tt.want, "1 of them have left their delay topic")
		})
	}
}

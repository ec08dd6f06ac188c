package verify

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/bench/check"
)

// remind writes a request to reminders/0, whose delay is 5 minutes, with the timestamp of some minute.
func (s *fakeGroup) remind(minute float64, more ...string) *kgo.Record {
	s.Helper()
	return s.write(&kgo.Record{Topic: "reminders", Key: []byte("k"), Value: []byte("v"), Timestamp: s.at(minute), Headers: headers(append([]string{"trace=1"}, more...)...)})
}

// With a fixed delay a record waits for those before it, so it is not overdue, nor late, before they are.
func TestTurnsOfAFixedDelay(t *testing.T) {
	for name, tt := range map[string]struct {
		act  func(s *fakeGroup)
		want map[string]int64
		is   Counts
	}{
		"its turn has not come": {func(s *fakeGroup) {
			s.remind(58)
			s.remind(40)
		}, nil, Counts{Requested: 2, Pending: 2}},
		"the turn of neither has come when the first is overdue": {func(s *fakeGroup) {
			s.remind(50)
			s.remind(40)
		}, map[string]int64{"overdue": 2}, Counts{Requested: 2, Overdue: 2}},
		"it is before what waits": {func(s *fakeGroup) {
			s.remind(40)
			s.remind(58)
		}, map[string]int64{"overdue": 1}, Counts{Requested: 2, Pending: 1, Overdue: 1}},
		"what is before it is ahead of the clock, and that may be an error of any size": {func(s *fakeGroup) {
			s.remind(6000)
			s.remind(40)
		}, map[string]int64{"overdue": 1}, Counts{Requested: 2, Pending: 1, Overdue: 1}},
		"it was delivered when its turn came": {func(s *fakeGroup) {
			s.config.Late = time.Minute
			s.write(s.delivered(s.remind(40), 45))
			r := s.delivered(s.remind(30), 35)
			r.Timestamp = s.at(45.1)
			s.write(r)
		}, nil, Counts{Requested: 2, Delivered: 2}},
		"it was delivered later": {func(s *fakeGroup) {
			s.config.Late = time.Minute
			s.write(s.delivered(s.remind(40), 45))
			r := s.delivered(s.remind(30), 35)
			r.Timestamp = s.at(47)
			s.write(r)
		}, map[string]int64{"late": 1}, Counts{Requested: 2, Delivered: 2}},
		"it was delivered when its turn came, and says when it was written": {func(s *fakeGroup) {
			s.config.Late, s.config.Routes[1].Emit = time.Minute, "all"
			for _, q := range []*kgo.Record{s.remind(40), s.remind(30)} {
				r := s.delivered(q, q.Timestamp.Sub(s.began).Minutes()+5)
				r.Timestamp = s.at(45.1)
				r.Headers = append(r.Headers, headers("delay-source-timestamp="+millis(q.Timestamp), "delay-fired="+millis(r.Timestamp))...)
				s.write(r)
			}
		}, nil, Counts{Requested: 2, Delivered: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFakeGroup(t)
			tt.act(s)
			r := s.pass(s.verifier())
			s.expect(r, tt.want, "requested")
			got := r.Counts
			if got.Faults, got.Ahead, got.AheadMost = 0, 0, 0; got != tt.is {
				t.Errorf("%+v, want %+v", got, tt.is)
			}
		})
	}
}

// A timestamp that is ahead of the clock counts as the time at which it was read, which nothing says but what was delivered: of no use is a request by that.
func TestExpiryOfWhatIsAhead(t *testing.T) {
	expired := func(s *fakeGroup, q *kgo.Record, minute float64) {
		r := s.condemned(q, "expired")
		r.Timestamp = s.at(minute)
		s.write(r)
	}
	for name, tt := range map[string]struct {
		act  func(s *fakeGroup) // is read at minute 10
		want map[string]int64
		is   Counts
	}{
		"it has expired": {func(s *fakeGroup) { expired(s, s.remind(20), 17) }, nil, Counts{Requested: 1, DeadLettered: 1}},
		"it had not, whenever it was read": {func(s *fakeGroup) { expired(s, s.remind(90), 30) },
			map[string]int64{"dead-lettered in vain": 1}, Counts{Requested: 1, DeadLettered: 1}},
		"it was delivered in time": {func(s *fakeGroup) { s.write(s.delivered(s.remind(40), 15)) }, nil, Counts{Requested: 1, Delivered: 1}},
		"it was delivered too late": {func(s *fakeGroup) {
			r := s.delivered(s.remind(40), 15)
			r.Timestamp = s.at(17)
			s.write(r)
		}, map[string]int64{"delivered in vain": 1}, Counts{Requested: 1, Delivered: 1}},
		"it expires by its timestamp before it is due": {func(s *fakeGroup) { s.write(s.delivered(s.remind(40, "delay-expires="+millis(s.at(20))), 15)) },
			nil, Counts{Requested: 1, Delivered: 1}},
		"it expires before it is due": {func(s *fakeGroup) { s.write(s.delivered(s.remind(40, "delay-expires="+millis(s.at(14))), 15)) },
			map[string]int64{"delivered in vain": 1}, Counts{Requested: 1, Delivered: 1}},
		"it expires before it is due, and was dead-lettered": {func(s *fakeGroup) { expired(s, s.remind(40, "delay-expires="+millis(s.at(14))), 10) },
			nil, Counts{Requested: 1, DeadLettered: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFakeGroup(t)
			s.config.Routes[1].ExpireAfter = time.Minute
			tt.act(s)
			s.resolve("reminders", 0, 1, 40, 1)
			r := s.pass(s.verifier())
			s.expect(r, tt.want, "1 requested")
			got := r.Counts
			if got.Faults, got.Ahead, got.AheadMost = 0, 0, 0; got != tt.is {
				t.Errorf("%+v, want %+v", got, tt.is)
			}
		})
	}
}

// With a fixed delay a record that was ahead of the clock may have been delivered before its timestamp says that it is due, and what is behind it, too.
func TestAheadInACutTarget(t *testing.T) {
	s := newFakeGroup(t)
	s.write(s.delivered(s.remind(40), 15)) // it was read at minute 10
	behind := s.write(s.delivered(s.remind(11), 16))
	s.write(s.delivered(s.ask(0, 20), 20))
	s.resolve("reminders", 0, 2, 50, 2)
	s.resolve("delays", 0, 1, 50, 1)
	s.cut("orders", behind.Partition, behind.Offset+1)
	s.expect(s.pass(s.verifier()), nil, "cannot tell of 2: the older part of their target is gone")
}

// A record that is due at once may have arrived before it says that it was written, by a clock that was ahead.
func TestDeadLettersOfWhatIsAheadAreCut(t *testing.T) {
	s := newFakeGroup(t)
	s.config.Routes[0].Retry = &check.Retry{Initial: time.Second, Max: time.Second, Factor: 1, MaxAttempts: 2, FromHeaders: true}
	q := s.request(30, "delay-target-topic=orders", "delay-attempt=2") // at minute 10
	r := s.condemned(q, "attempts_exhausted")
	r.Timestamp = s.at(10)
	first := s.write(r)
	r = s.condemned(s.request(20, "delay-target-topic=orders", "delay-attempt=2"), "attempts_exhausted")
	r.Timestamp = s.at(20)
	s.write(r)
	s.resolve("delays", 0, 2, 50, 2)
	s.cut("delays.dead", 0, first.Offset+1)
	s.expect(s.pass(s.verifier()), nil, "cannot tell of 1: the older part of a dead letter topic is gone")
}

// A request that was due before it was written is not overdue before the grace since then is over, whatever its route emits.
func TestDueBeforeItWasWritten(t *testing.T) {
	for _, emit := range []string{"source", "all"} {
		s := newFakeGroup(t)
		s.config.Routes[0].Emit = emit
		s.ask(59.9, 30)
		s.ask(50, 30)
		s.expect(s.pass(s.verifier()), map[string]int64{"overdue": 1}, "delays/0@1: due")
	}
}

// A fixed delay that counts from a timestamp that is missing says no due time, so the request is dead-lettered, and nobody knows since when it waits for that.
func TestFixedDelayWithoutATimestamp(t *testing.T) {
	s := newFakeGroup(t)
	v := s.verifier()
	q := s.write(&kgo.Record{Topic: "reminders", Timestamp: time.UnixMilli(-1)})
	s.expect(s.pass(v), nil, "1 pending")
	s.write(s.condemned(q, "due_out_of_range"))
	s.resolve("reminders", 0, 1, 30, 1)
	s.expect(s.pass(v), nil, "1 dead-lettered")

	s.write(s.delivered(s.write(&kgo.Record{Topic: "reminders", Partition: 1, Timestamp: time.UnixMilli(-1)}), 30))
	s.write(&kgo.Record{Topic: "reminders", Partition: 1, Timestamp: time.UnixMilli(-1)})
	s.resolve("reminders", 1, 2, 30, 2)
	s.expect(s.pass(v), map[string]int64{"delivered in vain": 1, "missing": 1}, "should be dead-lettered")
}

// A delay counts from the timestamp of its record, so one that has none is dead-lettered, and since when it waits for that is not known.
func TestDelayWithoutATimestamp(t *testing.T) {
	s := newFakeGroup(t)
	v := s.verifier()
	for partition := range int32(2) {
		s.write(&kgo.Record{Topic: "delays", Partition: partition, Timestamp: time.UnixMilli(-1), Headers: headers("delay-for=5m", "delay-target-topic=orders")})
	}
	s.expect(s.pass(v), nil, "2 pending")
	s.write(s.condemned(&kgo.Record{Topic: "delays", Timestamp: time.UnixMilli(-1), Headers: headers("delay-for=5m", "delay-target-topic=orders")}, "due_out_of_range"))
	s.resolve("delays", 0, 1, 30, 1)
	s.expect(s.pass(v), nil, "1 dead-lettered")

	s.write(s.delivered(&kgo.Record{Topic: "delays", Partition: 1}, 30))
	s.expect(s.pass(v), map[string]int64{"delivered in vain": 1}, "should be dead-lettered")
}

package verify

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// dueGroup is a group whose route gives delivered records the time at which they were due.
func dueGroup(t *testing.T) *fakeGroup {
	s := newFakeGroup(t)
	s.config.Routes[0].Timestamp = "due"
	return s
}

// asDue is what a processor delivers with timestamp: due.
func (s *fakeGroup) asDue(q *kgo.Record, due float64) *kgo.Record {
	r := s.delivered(q, due)
	r.Timestamp = s.at(due)
	return r
}

// With timestamp: due it is known what is missing, doubled or altered, and not when the others came.
func TestTimestampDue(t *testing.T) {
	s := dueGroup(t)
	s.config.Late = time.Minute
	came := s.write(s.asDue(s.ask(0, 5), 5))
	again := *came
	s.write(&again)
	altered := s.asDue(s.ask(0, 6), 6)
	altered.Value = []byte("w")
	s.write(altered)
	misdated := s.asDue(s.ask(0, 7), 7)
	misdated.Timestamp = s.at(6)
	s.write(misdated)
	s.ask(0, 8)
	s.resolve("delays", 0, 4, 30, 4)
	r := s.pass(s.verifier())
	s.expect(r, map[string]int64{"missing": 1, "doubled": 1, "altered": 2}, "4 do not say when they were delivered")
	if r.Lateness.Records != 0 || r.Counts.Untimed != 4 {
		t.Errorf("%+v", r)
	}
}

// What was due long before it was requested has a timestamp from before all requests.
func TestTimestampDueLongAgo(t *testing.T) {
	s := dueGroup(t)
	for range 20 {
		s.write(s.asDue(s.ask(0, -10_000), -10_000))
	}
	s.resolve("delays", 0, 20, 30, 20)
	s.expect(s.pass(s.verifier()), nil, "20 delivered")
}

// A timestamp that was given to a record does not tell since when its topic is whole; delay-fired does, and so do the records of other routes.
func TestTimestampDueInACutTarget(t *testing.T) {
	for _, fired := range []bool{false, true} {
		s := dueGroup(t)
		first := s.write(s.asDue(s.ask(0, 20), 20))
		late := s.asDue(s.ask(0, 10), 10) // because no replica was there
		if fired {
			late.Headers = append(late.Headers, headers("delay-source-timestamp="+millis(s.at(0)), "delay-fired="+millis(s.at(25)))...)
		}
		late = s.write(late)
		s.ask(0, 30)
		s.resolve("delays", 0, 3, 40, 3)
		s.cut("orders", first.Partition, late.Offset)
		want, says := map[string]int64(nil), "cannot tell of 2: the older part of their target is gone"
		if fired {
			want, says = map[string]int64{"missing": 1}, "cannot tell of 1: the older part of their target is gone"
		}
		s.expect(s.pass(s.verifier()), want, says)
	}
}

package verify

import (
	"testing"
	"time"

	"github.com/duewheel/duewheel/bench/check"
)

// What lies in its target although it is not due for long is early, whatever its timestamp says: the clock by which it was delivered is ahead.
func TestDeliveredBeforeItIsDue(t *testing.T) {
	for _, timestamp := range []string{"fired", "due"} {
		s := newFakeGroup(t)
		s.config.Routes[0].Timestamp = timestamp
		r := s.delivered(s.ask(0, 200), 200)
		r.Timestamp = s.at(200)
		s.write(r)
		s.resolveAll(201)
		s.expect(s.pass(s.verifier()), map[string]int64{"early": 1}, "delays/0@0: read at")
	}
	// By its own clock it is not early by so little: that may be behind.
	s := newFakeGroup(t)
	now := s.at(60)
	s.config.Now = func() time.Time { return now }
	s.write(s.delivered(s.ask(0, 60.9), 60.9))
	s.resolveAll(61)
	s.expect(s.pass(s.verifier()), nil, "all is well")
}

// arrivesFirst has something asked for and delivered when a pass has read all requests, so that it is seen before its request.
func (s *fakeGroup) arrivesFirst(v *Verifier, write func()) {
	s.Helper()
	asked := false
	v.config.Progress = func(int64, int64) {
		if !asked && v.requests.every((*part).done) {
			asked = true
			write()
		}
	}
	if r, err := v.Pass(s.Context()); err != nil || r.Counts.Delivered != 1 || r.Counts.Requested != 0 {
		s.Fatalf("%v, %+v", err, r)
	}
}

// How late something was is judged also where it was seen before its request.
func TestLateBeforeItsRequestWasRead(t *testing.T) {
	s := newFakeGroup(t)
	s.config.Late = time.Minute
	v := s.verifier()
	s.arrivesFirst(v, func() {
		r := s.delivered(s.ask(0, 10), 10)
		r.Timestamp = s.at(15)
		s.write(r)
	})
	s.resolveAll(30)
	r := s.pass(v)
	s.expect(r, map[string]int64{"late": 1}, "delays/0@0: ")
	if r.Lateness.Records != 1 || len(r.ByTarget) != 1 {
		t.Errorf("%+v, %+v", r.Lateness, r.ByTarget)
	}
}

// What was put off until a time that its record says is late by that, also where it was seen before its request.
func TestPutOffIsNotLateBeforeItsRequestWasRead(t *testing.T) {
	s := newFakeGroup(t)
	s.config.Late = time.Minute
	s.config.Routes[0] = check.Route{Topic: "delays", Target: "orders", Retry: &check.Retry{Initial: time.Minute, Max: time.Minute, Factor: 1, MaxAttempts: 3, Behind: time.Hour}}
	v := s.verifier()
	s.arrivesFirst(v, func() {
		q := s.request(0, "trace=1")
		s.tryAgain(q, 1, 2, 0, 2)
		r := s.delivered(q, 2)
		r.Headers = append(r.Headers, headers("delay-attempt=1")...)
		s.write(r)
	})
	s.resolveAll(30)
	r := s.pass(v)
	s.expect(r, nil, "all is well")
	if r.Lateness.Records != 1 || r.Lateness.Max > 1000 {
		t.Errorf("%+v", r.Lateness)
	}
}

// What was due before it was written is late by that, also where it was seen before its request.
func TestOverdueIsNotLateBeforeItsRequestWasRead(t *testing.T) {
	s := newFakeGroup(t)
	s.config.Late = time.Minute
	v := s.verifier()
	s.arrivesFirst(v, func() {
		r := s.delivered(s.ask(15, 10), 10)
		r.Timestamp = s.at(15)
		s.write(r)
	})
	s.resolveAll(30)
	r := s.pass(v)
	if s.expect(r, nil, "all is well"); r.Lateness.Max > 100 {
		t.Errorf("%+v", r.Lateness)
	}
}

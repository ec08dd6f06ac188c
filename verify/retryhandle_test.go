package verify

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// What waits to be tried again is listed under a handle of its own, and what names that names the request.
func TestNamedByTheHandleOfARetry(t *testing.T) {
	handle := func(s *fakeGroup, offset string, due float64) string { return "0-" + offset + "-" + millis(s.at(due)) }
	missing := map[string]int64{"missing": 1}
	for name, tt := range map[string]struct {
		act  func(s *fakeGroup)
		want map[string]int64
		says string
	}{
		"cancelled": {func(s *fakeGroup) {
			s.carryOn(s.ask(0, 10), 10, 30)
			s.request(12, "delay-cancel="+handle(s, "1", 30))
			s.resolve("delays", 0, 3, 40, 3)
		}, nil, "1 cancelled"},
		"cancelled, and cancels are answered": {func(s *fakeGroup) {
			s.config.Routes[0].CancelsAnswered = true
			s.carryOn(s.ask(0, 10), 10, 30)
			s.request(12, "delay-cancel="+handle(s, "1", 30))
			s.resolve("delays", 0, 3, 40, 3)
		}, nil, "1 cancelled"},
		"cancelled in vain": {func(s *fakeGroup) {
			s.config.Routes[0].CancelsAnswered = true
			q := s.ask(0, 10)
			s.carryOn(q, 10, 30)
			s.write(s.condemned(s.request(12, "delay-cancel="+handle(s, "1", 30)), "too_late"))
			s.resolve("delays", 0, 3, 40, 3)
		}, missing, "all 1 that name it came in vain"},
		"cancelled, and delivered all the same": {func(s *fakeGroup) {
			s.config.Routes[0].CancelsAnswered = true
			q := s.ask(0, 10)
			s.carryOn(q, 10, 30)
			s.request(12, "delay-cancel="+handle(s, "1", 30))
			r := s.delivered(q, 10)
			r.Timestamp, r.Headers = s.at(31), append(r.Headers, headers("delay-tries=1")...)
			s.write(r)
			s.resolve("delays", 0, 3, 40, 3)
		}, map[string]int64{"doubled": 1}, "1 cancels of it were not answered"},
		"replaced": {func(s *fakeGroup) {
			s.carryOn(s.ask(0, 10), 10, 30)
			s.write(s.delivered(s.ask(12, 20, "delay-replace="+handle(s, "1", 30)), 20))
			s.resolve("delays", 0, 3, 40, 3)
		}, nil, "1 cancelled, replaced"},
		"by another due time": {func(s *fakeGroup) {
			s.carryOn(s.ask(0, 10), 10, 30)
			s.request(12, "delay-cancel="+handle(s, "1", 31))
			s.resolve("delays", 0, 3, 40, 3)
		}, missing, "delays/0@0: due"},
		"of the try before": {func(s *fakeGroup) {
			q := s.ask(0, 10)
			s.carryOn(q, 10, 20)
			s.tryAgain(q, 20, 10, 2, 30)
			s.request(22, "delay-cancel="+handle(s, "1", 20))
			s.resolve("delays", 0, 4, 40, 4)
		}, missing, "delays/0@0: due"},
		"of the last try": {func(s *fakeGroup) {
			q := s.ask(0, 10)
			s.carryOn(q, 10, 20)
			s.tryAgain(q, 20, 10, 2, 30)
			s.request(22, "delay-cancel="+handle(s, "2", 30))
			s.resolve("delays", 0, 4, 40, 4)
		}, nil, "1 cancelled"},
		"of what has left the log": {func(s *fakeGroup) {
			s.carryOn(s.ask(0, 10), 10, 30)
			s.request(12, "delay-cancel="+handle(s, "1", 30))
			s.cut("delays", 0, 1)
			s.resolve("delays", 0, 3, 40, 3)
		}, nil, "1 cancelled"},
		"not left behind": {func(s *fakeGroup) {
			s.carryOn(s.ask(0, 10), 10, 500)
			s.request(12, "delay-cancel="+handle(s, "1", 500))
			s.resolve("delays", 0, 3, 20, 3)
		}, nil, "1 cancelled"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFakeGroup(t)
			tt.act(s)
			v := s.verifier()
			for range 2 {
				s.expect(s.pass(v), tt.want, tt.says)
			}
		})
	}
}

// So it is when little is remembered any more of what lies around it.
func TestNamedByTheHandleOfARetryLater(t *testing.T) {
	s := newFakeGroup(t)
	s.carryOn(s.ask(0, 10), 10, 500)
	var all []*kgo.Record
	for range 200 {
		all = append(all, s.condemned(s.request(0, "delay-target-topic=orders"), "no_due"))
	}
	for _, r := range all {
		s.write(r)
	}
	s.resolve("delays", 0, 202, 20, 1)
	v := s.verifier()
	s.expect(s.pass(v), nil, "1 pending")
	s.expect(s.pass(v), nil, "1 pending")
	s.request(30, "delay-cancel=0-1-"+millis(s.at(500)))
	s.resolve("delays", 0, 203, 50, 203)
	s.expect(s.pass(v), nil, "1 cancelled")
	s.expect(s.pass(v), nil, "1 cancelled")
}

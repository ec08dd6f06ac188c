package verify

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/bench/check"
)

// What was missing when all had been read that could have taken it away stays missing, whatever comes later that has its id, or names it.
func TestMissingStaysMissing(t *testing.T) {
	takes := func(more string) func(*fakeGroup) {
		return func(s *fakeGroup) { s.write(s.delivered(s.ask(40, 50, more), 50)) }
	}
	cancels := func(name string) func(*fakeGroup) {
		return func(s *fakeGroup) { s.request(40, "delay-cancel="+name) }
	}
	for name, tt := range map[string]struct {
		id     string
		inVain bool // something that names it came in vain
		later  func(s *fakeGroup, handle string)
	}{
		"another one takes its place":                {"a", false, func(s *fakeGroup, _ string) { takes("delay-id=a")(s) }},
		"one replaces its id":                        {"a", false, func(s *fakeGroup, _ string) { takes("delay-replace=a")(s) }},
		"its id is cancelled":                        {"a", false, func(s *fakeGroup, _ string) { cancels("a")(s) }},
		"it has an id, and its handle is cancelled":  {"a", false, func(s *fakeGroup, handle string) { cancels(handle)(s) }},
		"its handle is cancelled":                    {"", false, func(s *fakeGroup, handle string) { cancels(handle)(s) }},
		"its handle is replaced":                     {"", false, func(s *fakeGroup, handle string) { takes("delay-replace=" + handle)(s) }},
		"it was cancelled in vain, and is once more": {"", true, func(s *fakeGroup, handle string) { cancels(handle)(s) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFakeGroup(t)
			s.config.Routes[0].OnDuplicate, s.config.Routes[0].CancelsAnswered = check.Replace, tt.inVain
			var id []string
			if tt.id != "" {
				id = []string{"delay-id=" + tt.id}
			}
			s.ask(0, 10, id...)
			handle := "0-0-" + millis(s.at(10))
			if tt.inVain {
				s.write(s.condemned(s.write(&kgo.Record{Topic: "delays", Timestamp: s.at(2), Headers: headers("delay-cancel=" + handle)}), "unknown_handle"))
			}
			s.resolveAll(30)
			v := s.verifier()
			s.expect(s.pass(v), map[string]int64{"missing": 1}, "delays/0@0: due")
			tt.later(s, handle)
			s.resolveAll(55)
			for range 2 {
				r := s.pass(v)
				if s.expect(r, map[string]int64{"missing": 1}, "delays/0@0: due"); r.Counts.Taken != 0 {
					t.Errorf("%+v", r.Counts)
				}
			}
		})
	}
}

// Of an id that was cancelled in its partition nothing is left out behind the cancel; one that was passed on takes nothing away that came after it was written.
func TestLostAfterACancel(t *testing.T) {
	for name, tt := range map[string]struct {
		cancel func(s *fakeGroup)
		want   map[string]int64
		says   string
	}{
		"here":      {func(s *fakeGroup) { s.request(1, "delay-cancel=a") }, map[string]int64{"missing": 1}, "delays/0@2: due"},
		"elsewhere": {func(s *fakeGroup) { s.passOn(s.elsewhere(-1, "a"), 1, "a", group) }, nil, "2 cancelled, replaced or left out"},
		"of others": {func(s *fakeGroup) { s.request(1, "delay-cancel=b") }, nil, "1 cancelled, replaced or left out"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFakeGroup(t)
			s.config.Routes[0].OnDuplicate = check.LeaveOut
			q := s.ask(0, 20, "delay-id=a")
			tt.cancel(s)
			if name == "of others" {
				s.write(s.delivered(q, 20))
			}
			s.ask(2, 12, "delay-id=a")
			s.resolveAll(30)
			s.expect(s.pass(s.verifier()), tt.want, tt.says)
		})
	}
}

// A target that is made after it was named is read from then on.
func TestTargetIsMadeLater(t *testing.T) {
	s := newFakeGroup(t)
	q := s.request(0, "trace=1", "delay-until="+millis(s.at(30)), "delay-target-topic=bills.fr")
	lost := s.request(0, "delay-until="+millis(s.at(31)), "delay-target-topic=bills.fr")
	s.resolve("delays", 0, 2, 5, 0)
	v := s.verifier()
	s.expect(s.pass(v), map[string]int64{"overdue": 2}, "")
	if _, err := s.adm.CreateTopics(t.Context(), 2, 1, nil, "bills.fr"); err != nil {
		t.Fatal(err)
	}
	<-time.After(2 * metadataAge)
	r := s.delivered(q, 30)
	r.Topic = "bills.fr"
	s.write(r)
	s.resolveAll(40)
	s.expect(s.pass(v), map[string]int64{"missing": 1}, fmt.Sprintf("delays/0@%d: due", lost.Offset))
}

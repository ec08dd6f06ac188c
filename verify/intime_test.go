package verify

import (
	"encoding/hex"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Where it is asked for, what was delivered long after a cancel or a replacement of it was written into its partition is a fault, and what is tried again is not;
// nor is any of it where it is not asked for.
func TestCancelsInTime(t *testing.T) {
	const unheeded = "had been in its partition for 9m0.005s"
	cancel := func(s *fakeGroup, at float64, name string) *kgo.Record {
		return s.write(&kgo.Record{Topic: "delays", Timestamp: s.at(at), Headers: headers("delay-cancel=" + name)})
	}
	beside := func(at float64, header string) func(s *fakeGroup, q *kgo.Record, handle string) {
		return func(s *fakeGroup, _ *kgo.Record, _ string) { s.write(s.delivered(s.ask(at, 30, header), 30)) }
	}
	for name, tt := range map[string]struct {
		write  func(s *fakeGroup, q *kgo.Record, handle string)
		within time.Duration
		faults int64
	}{
		"a handle":                 {func(s *fakeGroup, _ *kgo.Record, handle string) { cancel(s, 1, handle) }, 5 * time.Minute, 1},
		"an id":                    {func(s *fakeGroup, _ *kgo.Record, _ string) { cancel(s, 1, "a") }, 5 * time.Minute, 1},
		"a handle, shortly before": {func(s *fakeGroup, _ *kgo.Record, handle string) { cancel(s, 6, handle) }, 5 * time.Minute, 0},
		"an id, shortly before":    {func(s *fakeGroup, _ *kgo.Record, _ string) { cancel(s, 6, "a") }, 5 * time.Minute, 0},
		"a handle, not asked for":  {func(s *fakeGroup, _ *kgo.Record, handle string) { cancel(s, 1, handle) }, 0, 0},
		"a handle, no timestamp": {func(s *fakeGroup, _ *kgo.Record, handle string) {
			cancel(s, time.UnixMilli(-1).Sub(s.began).Minutes(), handle)
		}, 5 * time.Minute, 0},
		"a handle, in another one": {func(s *fakeGroup, _ *kgo.Record, handle string) { s.passOn(s.elsewhere(1, handle), 6, handle, group) }, 5 * time.Minute, 0},
		"a handle, and passed on":  {func(s *fakeGroup, _ *kgo.Record, handle string) { s.passOn(s.elsewhere(0.5, handle), 1, handle, group) }, 5 * time.Minute, 1},
		"another group's passed on": {func(s *fakeGroup, _ *kgo.Record, handle string) {
			from := s.elsewhere(0.5, handle)
			s.passOn(from, 1, handle, "others")
			s.passOn(from, 6, handle, group)
		}, 5 * time.Minute, 0},
		"a replacement": {func(s *fakeGroup, _ *kgo.Record, handle string) {
			r := s.request(1, "delay-until="+millis(s.at(30)), "delay-target-topic=orders", "delay-replace="+handle)
			dead := s.condemned(r, "too_late")
			dead.Timestamp = s.at(10.5)
			s.write(dead)
		}, 5 * time.Minute, 1},
		"a replacement of an id":                 {beside(1, "delay-replace=a"), 5 * time.Minute, 1},
		"a replacement of an id, shortly before": {beside(6, "delay-replace=a"), 5 * time.Minute, 0},
		"a replacement of an id comes in vain": {func(s *fakeGroup, _ *kgo.Record, _ string) {
			s.write(s.condemned(s.ask(1, 30, "delay-replace=a"), "too_late"))
		}, 5 * time.Minute, 1},
		"another one with its id":                 {beside(1, "delay-id=a"), 5 * time.Minute, 1},
		"another one with its id, shortly before": {beside(6, "delay-id=a"), 5 * time.Minute, 0},
		"another one with its id, not asked for":  {beside(1, "delay-id=a"), 0, 0},
		"another one with its id, dead-lettered": {func(s *fakeGroup, _ *kgo.Record, _ string) {
			s.write(s.condemned(s.ask(1, 30, "delay-id=a"), "duplicate_id"))
		}, 5 * time.Minute, 0},
		"a handle, and it was tried again": {func(s *fakeGroup, q *kgo.Record, handle string) {
			cancel(s, 1, handle)
			s.carryOn(q, 10, 10)
		}, 5 * time.Minute, 0},
	} {
		for _, passes := range []int{1, 3} {
			t.Run(fmt.Sprint(name, ", passes: ", passes), func(t *testing.T) {
				t.Parallel()
				s := newFakeGroup(t)
				s.config.InTime = tt.within
				q := s.ask(0, 10, "delay-id=a")
				tt.write(s, q, fmt.Sprintf("0-%d-%s", q.Offset, millis(s.at(10))))
				s.many(11, 70)
				s.config.Now = func() time.Time { return s.at(90) }
				s.resolveAll(9)
				v := s.verifier()
				if passes > 1 { // it comes between two passes
					s.pass(v)
				}
				arrived := s.delivered(q, 10)
				if name == "a handle, and it was tried again" {
					arrived.Headers = append(arrived.Headers, headers("delay-tries=1")...)
				}
				s.write(arrived)
				s.resolveAll(100)
				want, says := map[string]int64{}, ""
				if tt.faults > 0 {
					want, says = map[string]int64{"delivered in vain": 1}, unheeded
				}
				for range max(passes-1, 1) {
					s.expect(s.pass(v), want, says)
				}
			})
		}
	}
}

// elsewhere writes a cancel into another partition than that of the request.
func (s *fakeGroup) elsewhere(at float64, name string) *kgo.Record {
	s.Helper()
	return s.write(&kgo.Record{Topic: "delays", Partition: 1, Timestamp: s.at(at), Headers: headers("delay-cancel=" + name)})
}

// passOn writes a cancel once more, as a replica of a group does, into partition 0.
func (s *fakeGroup) passOn(from *kgo.Record, at float64, name, by string) *kgo.Record {
	s.Helper()
	details, err := s.adm.ListTopics(s.Context(), "delays")
	if err != nil {
		s.Fatal(err)
	}
	id := details["delays"].ID
	return s.write(&kgo.Record{Topic: "delays", Timestamp: s.at(at), Headers: headers("delay-cancel="+name,
		fmt.Sprintf("delay-forwarded=%s:%s:0:%d:%d:%s", hex.EncodeToString(id[:4]), by, from.Partition, from.Offset, millis(from.Timestamp)))})
}

// A cancel that another group has passed on may have counted for this one, and hides nothing that came twice.
func TestAnotherGroupsCancelHidesNoDouble(t *testing.T) {
	for _, by := range []string{group, "others"} {
		for _, what := range []string{"a handle", "an id"} {
			t.Run(what+" by "+by, func(t *testing.T) {
				t.Parallel()
				s := newFakeGroup(t)
				q := s.ask(0, 10, "delay-id=a")
				name := "a"
				if what == "a handle" {
					name = fmt.Sprintf("0-%d-%s", q.Offset, millis(s.at(10)))
				}
				from := s.elsewhere(1, name)
				if s.passOn(from, 1.5, name, by); by != group { // and this one has passed it on later
					s.passOn(from, 9.9, name, group)
				}
				s.resolveAll(100)
				s.expect(s.pass(s.verifier()), nil, "1 cancelled, replaced or left out")
				s.write(s.delivered(q, 10))
				s.write(s.delivered(q, 10))
				s.expect(s.pass(s.verifier()), map[string]int64{"doubled": 1}, "seen 2 times")
			})
		}
	}
}

// resolveAll commits checkpoints that say that all is accepted which is in the delay topic, and what is due up to a minute resolved.
func (s *fakeGroup) resolveAll(minute float64) {
	s.Helper()
	ends, err := s.adm.ListEndOffsets(s.Context(), "delays")
	if err != nil {
		s.Fatal(err)
	}
	for partition, end := range ends["delays"] {
		s.resolve("delays", partition, end.Offset, minute, end.Offset)
	}
}

// A cancel that lies behind the window is read for what it does to what lies inside, and is not counted.
func TestCancelsBehindTheWindow(t *testing.T) {
	s := newFakeGroup(t)
	q := s.ask(0, 100)
	handle := fmt.Sprintf("0-%d-%s", q.Offset, millis(s.at(100)))
	s.passOn(s.elsewhere(40, handle), 41, handle, group)
	s.elsewhere(42, "an id")
	s.resolveAll(50)
	s.config.From, s.config.To = s.at(10), s.at(30)
	r := s.pass(s.verifier())
	if s.expect(r, nil, "the window is empty"); r.Counts.Cancels != 0 {
		t.Errorf("%d cancels are in it", r.Counts.Cancels)
	}
	s.config.From, s.config.To = s.at(35), time.Time{}
	s.expect(s.pass(s.verifier()), nil, "2 asked to cancel something")
}

// Of what is overdue and has an id, or is named by others, it is told when it was due and where it goes, as of all else.
func TestSaysWhenWhatHasAnIDWasDue(t *testing.T) {
	s := newFakeGroup(t)
	s.config.Routes[0].CancelsAnswered = true
	s.ask(0, 10, "delay-id=a")
	q := s.ask(1, 10)
	cancel := s.write(&kgo.Record{Topic: "delays", Timestamp: s.at(2), Headers: headers(fmt.Sprintf("delay-cancel=0-%d-%s", q.Offset, millis(s.at(10))))})
	s.write(s.condemned(cancel, "unknown_handle"))
	s.resolve("delays", 0, 3, 1, 0)
	r := s.pass(s.verifier())
	due := fmt.Sprintf("due %s (%s), should be delivered to orders; ", millis(s.at(10)), s.at(10).UTC().Format(time.RFC3339Nano))
	s.expect(r, map[string]int64{"overdue": 2}, "delays/0@0: "+due+`it has the id "a"`)
	s.expect(r, map[string]int64{"overdue": 2}, "delays/0@1: "+due+"all 1 that name it came in vain")
}

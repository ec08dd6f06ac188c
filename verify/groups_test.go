package verify

import (
	"encoding/hex"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/duewheel/duewheel/bench/check"
)

// Two groups share a delay topic, and each dead-letters what the other one delivers: neither has doubled anything.
func TestTwoGroupsWithTargetsOfTheirOwn(t *testing.T) {
	for name, tt := range map[string]struct {
		arrive func(s *fakeGroup, q *kgo.Record, between func())
		want   map[string]int64
		says   string
	}{
		"delivered by the other one, and then dead-lettered": {func(s *fakeGroup, q *kgo.Record, between func()) {
			s.write(s.billed(q))
			between()
			s.write(s.condemned(q, "target_not_allowed"))
		}, nil, "2 of others in these topics"},
		"dead-lettered, and then delivered by the other one": {func(s *fakeGroup, q *kgo.Record, between func()) {
			s.write(s.condemned(q, "target_not_allowed"))
			between()
			s.write(s.billed(q))
		}, nil, "2 of others in these topics"},
		"dead-lettered twice": {func(s *fakeGroup, q *kgo.Record, between func()) {
			s.write(s.condemned(q, "target_not_allowed"))
			between()
			s.write(s.condemned(q, "target_not_allowed"))
		}, map[string]int64{"doubled": 1}, "delays.dead/0@1"},
		"delivered twice by the other one, and dead-lettered": {func(s *fakeGroup, q *kgo.Record, between func()) {
			s.write(s.billed(q))
			s.write(s.billed(q))
			between()
			s.write(s.condemned(q, "target_not_allowed"))
		}, map[string]int64{"doubled": 1}, "now at bills.de/"},
	} {
		for _, passes := range []int{1, 2} { // in the second one what has arrived before is forgotten
			t.Run(fmt.Sprint(name, ", passes: ", passes), func(t *testing.T) {
				t.Parallel()
				s := newFakeGroup(t)
				s.config.Routes[0].Allow = []string{"orders"}
				s.write(&kgo.Record{Topic: "bills.de", Value: []byte("of others")})
				q := s.request(0, "delay-until="+millis(s.at(10)), "delay-target-topic=bills.de", "trace=1")
				s.many(1, 70)
				s.config.Now = func() time.Time { return s.at(80) }
				s.resolve("delays", 0, 71, 100, 71)
				v := s.verifier()
				var r *Report
				tt.arrive(s, q, func() {
					if passes == 2 {
						s.pass(v)
					}
				})
				r = s.pass(v)
				s.expect(r, tt.want, tt.says)
			})
		}
	}
}

// What the other group delivers to a target of its own has taken nothing away from this one, and has no id here.
func TestTwoGroupsJudgeWhatIsNamedApart(t *testing.T) {
	for name, more := range map[string]func(s *fakeGroup, first *kgo.Record){
		"it replaces one that was dead-lettered here": func(s *fakeGroup, first *kgo.Record) {
			q := s.request(1, "delay-until="+millis(s.at(10)), "delay-target-topic=bills.de", "delay-replace=0-0-"+millis(s.at(20)))
			s.write(s.condemned(first, "target_not_allowed"))
			s.write(s.billed(q))
			s.write(s.condemned(q, "target_not_allowed"))
		},
		"it was dead-lettered here before": func(s *fakeGroup, first *kgo.Record) {
			q := s.request(1, "delay-until="+millis(s.at(10)), "delay-target-topic=bills.de", "delay-replace=0-0-"+millis(s.at(20)))
			s.write(s.condemned(first, "target_not_allowed"))
			s.write(s.condemned(q, "too_late"))
			s.write(s.billed(q))
		},
		"another one has its id": func(s *fakeGroup, first *kgo.Record) {
			q := s.ask(1, 12, "delay-id=a")
			s.write(s.condemned(first, "target_not_allowed"))
			s.write(s.delivered(q, 12))
			late := s.delivered(first, 20)
			late.Topic = "bills.de"
			s.write(late)
		},
		"another one had its id and was cancelled": func(s *fakeGroup, first *kgo.Record) {
			s.config.InTime = time.Minute
			s.request(1, "delay-cancel=0-0-"+millis(s.at(20)))
			s.write(s.condemned(first, "target_not_allowed"))
			late := s.delivered(first, 20)
			late.Topic = "bills.de"
			s.write(late)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFakeGroup(t)
			s.config.Routes[0].Allow = []string{"orders"}
			first := s.request(0, "trace=1", "delay-until="+millis(s.at(20)), "delay-target-topic=bills.de", "delay-id=a")
			more(s, first)
			s.config.Now = func() time.Time { return s.at(80) }
			s.resolve("delays", 0, 2, 100, 2)
			s.expect(s.pass(s.verifier()), nil, "all is well")
		})
	}
}

// A delivery to a target that the route does not allow any more has taken the place of what it replaces, as far as it can be told.
func TestDeliveredInThePlaceOfOneWhenItWasAllowed(t *testing.T) {
	s := newFakeGroup(t)
	s.config.Routes[0].Allow = []string{"orders"}
	s.ask(0, 20)
	q := s.request(1, "delay-until="+millis(s.at(10)), "delay-target-topic=bills.de", "delay-replace=0-0-"+millis(s.at(20)))
	s.write(s.billed(q))
	s.config.Now = func() time.Time { return s.at(80) }
	s.resolve("delays", 0, 2, 100, 2)
	s.expect(s.pass(s.verifier()), nil, "1 cancelled, replaced or left out")
}

// So has what others name: it is not missing, although the replacement was in vain.
func TestNamedAndDeliveredWhereItWasAllowed(t *testing.T) {
	s := newFakeGroup(t)
	s.config.Routes[0].Allow = []string{"orders"}
	first := s.request(0, "trace=1", "delay-until="+millis(s.at(10)), "delay-target-topic=bills.de")
	s.write(s.billed(first))
	s.write(s.condemned(s.ask(11, 20, "delay-replace=0-0-"+millis(s.at(10))), "too_late"))
	s.config.Now = func() time.Time { return s.at(80) }
	s.resolve("delays", 0, 2, 100, 2)
	s.expect(s.pass(s.verifier()), nil, "all is well")
}

// billed is what becomes of a request for bills.de that is due at minute 10.
func (s *fakeGroup) billed(q *kgo.Record) *kgo.Record {
	r := s.delivered(q, 10)
	r.Topic = "bills.de"
	return r
}

// What two groups deliver to one target looks doubled, and the report names the other group.
func TestTwoGroupsWithOneTarget(t *testing.T) {
	s := newFakeGroup(t)
	for range 2 {
		s.write(s.delivered(&kgo.Record{Topic: "delays", Offset: 0, Key: []byte("k"), Value: []byte("v"), Headers: headers("trace=1")}, 10))
	}
	s.ask(0, 10)
	s.resolve("delays", 0, 1, 30, 1)
	r := s.pass(s.verifier())
	s.expect(r, map[string]int64{"doubled": 1}, "seen 2 times")
	if len(r.Notes) > 0 {
		t.Errorf("there is no other group, and the notes are %q", r.Notes)
	}
	details, err := s.adm.ListTopics(t.Context(), "delays")
	if err != nil {
		t.Fatal(err)
	}
	id := details["delays"].ID
	for name, metadata := range map[string]string{"others": "dw1 t=" + hex.EncodeToString(id[:4]) + " w=1:1 l=1 c=0:p1", "a-tool": ""} {
		var offsets kadm.Offsets
		offsets.Add(kadm.Offset{Topic: "delays", At: 1, LeaderEpoch: -1, Metadata: metadata})
		if err := s.adm.CommitAllOffsets(t.Context(), name, offsets); err != nil {
			t.Fatal(err)
		}
	}
	s.expect(s.pass(s.verifier()), map[string]int64{"doubled": 1}, "delays has checkpoints of others, too: ")
}

// A delay topic is trimmed: what arrives says by itself that it is early, or has arrived before, though its request is gone.
func TestRequestsThatHaveLeftTheLog(t *testing.T) {
	s := newFakeGroup(t)
	all := s.many(0, 10)
	bad := s.request(1, "delay-target-topic=orders")
	s.write(s.condemned(bad, "no_due"))
	s.ask(11, 200) // pending
	s.cut("delays", 0, 11)
	s.resolve("delays", 0, 12, 30, 11)
	r := s.pass(s.verifier())
	s.expect(r, nil, "11 arrived of requests outside of the window")
	s.write(all[3])
	s.write(s.condemned(bad, "no_due"))
	v := s.verifier()
	s.expect(s.pass(v), map[string]int64{"doubled": 2}, "delays/0@3: seen again in orders; it has left the delay topic")
	s.expect(s.pass(v), map[string]int64{"doubled": 2}, "delays/0@10: seen again in delays.dead")
	early := s.delivered(&kgo.Record{Topic: "delays", Offset: 7, Key: []byte("l")}, 8)
	set(early, "delay-due", millis(s.at(40)))
	s.write(early)
	s.expect(s.pass(v), map[string]int64{"doubled": 3, "early": 1}, "delays/0@7: written at")
	s.config.AtLeastOnce = true
	s.expect(s.pass(s.verifier()), map[string]int64{"early": 1}, "3 arrived again")

	s.config.AtLeastOnce = false
	s.cut("delays", 0, 12)
	s.resolve("delays", 0, 12, 200, 12)
	s.expect(s.pass(s.verifier()), map[string]int64{"doubled": 3, "early": 1}, "delay delays: no requests; what lay there is gone")
}

// Where no request is left from which on targets are to be read, they are read for an hour, or from when was asked for.
func TestRequestsThatHaveLeftTheLogLongAgo(t *testing.T) {
	s := newFakeGroup(t)
	s.write(s.many(-300, 3)[1])
	s.cut("delays", 0, 3)
	s.resolve("delays", 0, 3, 0, 3)
	r := s.pass(s.verifier())
	s.expect(r, nil, "delay delays: no requests; what lay there is gone")
	s.expect(r, nil, "\nall is well: the window is empty, and what lay there is gone\n")
	s.config.From = s.at(-301)
	s.expect(s.pass(s.verifier()), map[string]int64{"doubled": 1}, "delays/0@1: seen again")
}

// A record that is passed on with its headers into another target of the route looks doubled: as by a route of another configuration that has another
// prefix and emits nothing, for which they are headers of its users.
func TestWhatIsPassedOnWithItsHeaders(t *testing.T) {
	s := newFakeGroup(t)
	q := s.ask(0, 10)
	s.ask(1, 200, "delay-target-topic=bills.de") // so that it is read
	passed := s.write(s.delivered(q, 10))
	passed.Topic, passed.Timestamp = "bills.de", s.at(15)
	s.write(passed)
	s.resolve("delays", 0, 2, 30, 1)
	s.expect(s.pass(s.verifier()), map[string]int64{"doubled": 1, "altered": 1}, "seen 2 times, first at ")
}

// A route with another prefix that emits nothing delivers what was delivered before, with the headers of then: that is no second delivery of the first request, in
// whatever order topics are read. One more than was asked for is.
func TestWhatARouteThatSaysNothingDeliversAgain(t *testing.T) {
	for _, target := range []string{"orders", "bills.de"} {
		for _, order := range []string{"read at once", "the request first", "the delivery first"} {
			t.Run(target+", "+order, func(t *testing.T) {
				t.Parallel()
				s := newFakeGroup(t)
				s.config.Routes[1] = check.Route{Topic: "reminders", Allow: []string{"orders", "bills.*"}, Prefix: "x-wheel-", Emit: "none"}
				first := s.write(s.delivered(s.ask(0, 10), 10))
				s.resolve("delays", 0, 1, 30, 1)
				again := *first
				again.Topic, again.Partition, again.Timestamp = "reminders", 0, s.at(10.5)
				again.Headers = slices.Concat(first.Headers, headers("x-wheel-until="+millis(s.at(12)), "x-wheel-target-topic="+target))
				twice := *first
				twice.Topic, twice.Timestamp = target, s.at(12)
				v := s.verifier()
				switch order {
				case "read at once":
					s.write(&again)
					s.write(&twice)
				case "the request first":
					s.write(&again)
					s.expect(s.pass(v), nil, "1 delivered")
					s.write(&twice)
				case "the delivery first":
					s.pass(v)
					asked := false
					v.config.Progress = func(int64, int64) { // all requests were read
						if !asked && v.requests.every((*part).done) {
							asked = true
							s.write(&again)
							s.write(&twice)
						}
					}
					s.expect(s.pass(v), nil, "1 delivered")
					if !asked {
						t.Fatal("nothing was written meanwhile")
					}
				}
				s.resolve("reminders", 0, 1, 30, 1)
				s.expect(s.pass(v), nil, "cannot tell of 1: headers.emit is none")
				s.expect(s.pass(v), nil, "1 of others in these topics")
				s.write(&twice)
				want := map[string]int64{"doubled": 1}
				if target != "orders" {
					want["altered"] = 1
				}
				s.expect(s.pass(v), want, "seen 2 times")
			})
		}
	}
}

// A coordinator that is not there yet, as on a cluster that has never had a group, or after a broker was lost, is waited for.
func TestCoordinatorIsWaitedFor(t *testing.T) {
	s := newFakeGroup(t)
	s.many(0, 3)
	s.resolve("delays", 0, 3, 30, 3)
	fault := s.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.FindCoordinator}, Err: kerr.CoordinatorNotAvailable, Count: 3})
	s.expect(s.pass(s.verifier()), nil, "3 delivered")
	if n := fault.Hits(); n != 3 {
		t.Errorf("it was refused %d times only", n)
	}
}

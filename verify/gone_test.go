package verify

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The older part of a target is gone: of what was delivered before the first record that is left nothing can be told, of all else it can.
func TestTargetIsCut(t *testing.T) {
	s := newFakeGroup(t)
	arrived := s.many(0, 20, 3, 15)
	s.resolve("delays", 0, 20, 30, 20)
	s.cut("orders", arrived[8].Partition, arrived[8].Offset)
	r := s.pass(s.verifier())
	s.expect(r, map[string]int64{"missing": 1}, "delays/0@15: due")
	// Eight that came and one that did not, and two whose time is within the slack of the first that is left.
	if r.Counts.Untold < 9 || r.Counts.Untold > 11 {
		t.Errorf("cannot tell of %d", r.Counts.Untold)
	}
	s.expect(r, map[string]int64{"missing": 1}, "target orders: from "+s.at(10).UTC().Format("2006-01-02T15:04"))
	// Nothing is left at all.
	s.cut("orders", arrived[8].Partition, 18)
	s.expect(s.pass(s.verifier()), nil, "cannot tell of 20: the older part of their target is gone")
}

// What is due shortly after the first record that is left of a cut topic may have been there before it.
func TestSlackOfWhatIsCut(t *testing.T) {
	s := newFakeGroup(t)
	arrived := s.many(0, 20, 10, 15)
	s.resolve("delays", 0, 20, 30, 20)
	s.cut("orders", arrived[9].Partition, arrived[9].Offset)
	s.expect(s.pass(s.verifier()), map[string]int64{"missing": 1}, "cannot tell of 10: the older part of their target is gone")

	s = newFakeGroup(t)
	first := s.write(s.condemned(s.request(0, "delay-target-topic=orders"), "no_due"))
	s.write(s.condemned(s.request(20, "delay-target-topic=orders"), "no_due"))
	s.ask(10, 21)
	s.ask(10, 30)
	s.resolve("delays", 0, 4, 40, 4)
	s.cut("delays.dead", first.Partition, first.Offset+1)
	s.expect(s.pass(s.verifier()), map[string]int64{"missing": 1}, "cannot tell of 2: the older part of a dead letter topic is gone")
}

// A target that is cut below what is asked for holds all of it.
func TestTargetIsCutBelowTheWindow(t *testing.T) {
	s := newFakeGroup(t)
	for _, minute := range []float64{-300, -200} {
		s.write(&kgo.Record{Topic: "orders", Timestamp: s.at(minute)})
	}
	s.many(0, 3)
	s.resolve("delays", 0, 3, 30, 3)
	s.cut("orders", 0, 1)
	s.expect(s.pass(s.verifier()), nil, "target orders: whole")
}

// The older part of the delay topic is gone: its requests are not judged, and where they arrived is no stray.
func TestDelayTopicIsCut(t *testing.T) {
	s := newFakeGroup(t)
	s.many(0, 10)
	s.resolve("delays", 0, 10, 30, 10)
	s.cut("delays", 0, 6)
	r := s.pass(s.verifier())
	s.expect(r, nil, "what lay before is gone")
	if r.Counts.Requested != 4 || r.Counts.Elsewhere != 6 {
		t.Errorf("%+v", r.Counts)
	}
	s.expect(r, nil, "\nall is well\n")
	s.config.From = s.at(-10) // what was asked for is not there
	s.expect(s.pass(s.verifier()), nil, "\nall is well, as far as it can be told: the older part of the window is gone from delays\n")
	s.config.From = s.at(7)
	s.expect(s.pass(s.verifier()), nil, "\nall is well: the window is empty, nothing was requested in it\n")
	s.config.From = time.Time{}
	// What was pending is gone with it.
	s.resolve("delays", 0, 10, 2.5, 3)
	s.expect(s.pass(s.verifier()), map[string]int64{"cut": 1}, "the log begins at 6, and what is pending began at 3")
	s.resolve("delays", 0, 100, 30, 100)
	s.expect(s.pass(s.verifier()), map[string]int64{"cut": 1}, "the cluster has lost records")
}

// A delay topic is whole from where on none of its partitions lacks its older part.
func TestPartitionsAreCut(t *testing.T) {
	s := newFakeGroup(t)
	ask := func(partition int32, minutes ...float64) {
		for _, minute := range minutes {
			s.write(&kgo.Record{Topic: "delays", Partition: partition, Timestamp: s.at(minute), Headers: headers("delay-until="+millis(s.at(200)), "delay-target-topic=orders")})
		}
	}
	since := func(want float64, cut bool) {
		t.Helper()
		if w := s.pass(s.verifier()).Windows[0]; w.Since != s.at(want).UnixMilli() || w.Cut != cut {
			t.Errorf("whole since %d, and cut: %v; wanted %d, %v", w.Since, w.Cut, s.at(want).UnixMilli(), cut)
		}
	}
	ask(0, 1, 4, 7)
	ask(1, 2, 5, 9)
	since(1, false)
	s.cut("delays", 0, 1)
	since(4, true)
	s.cut("delays", 1, 2)
	since(9, true)
	s.cut("delays", 0, 3) // it has nothing
	since(9, true)
	s.cut("delays", 1, 3)
	if w := s.pass(s.verifier()).Windows[0]; w.Since != 0 || !w.Cut {
		t.Errorf("%+v, when nothing is left", w)
	}
}

// The older part of a dead letter topic is gone: what was delivered nowhere may have been there.
func TestDeadLettersAreCut(t *testing.T) {
	s := newFakeGroup(t)
	s.many(0, 5, 1)
	q := s.request(0, "delay-target-topic=orders")
	at := s.write(s.condemned(q, "no_due"))
	s.resolve("delays", 0, 6, 30, 6)
	s.cut("delays.dead", 0, at.Offset+1)
	s.expect(s.pass(s.verifier()), nil, "cannot tell of 2: the older part of a dead letter topic is gone")
	late := s.ask(10, 30)
	s.write(s.condemned(s.request(20, "delay-target-topic=orders"), "no_due"))
	s.resolve("delays", 0, 8, 40, 8)
	s.expect(s.pass(s.verifier()), map[string]int64{"missing": 1}, fmt.Sprintf("delays/0@%d: due", late.Offset))
}

// What is refused when it is read is dead-lettered long before it is due: whether it was cannot be told where the older part of the dead letter topic is gone.
func TestDeadLettersOfWhatWasRefusedAreCut(t *testing.T) {
	for name, refuse := range map[string]func(s *fakeGroup) *kgo.Record{
		"headers that cannot be understood": func(s *fakeGroup) *kgo.Record {
			return s.condemned(s.request(0, "delay-until="+millis(s.at(30)), "delay-target-topic=a b"), "invalid_target")
		},
		"a duplicate": func(s *fakeGroup) *kgo.Record {
			s.write(s.delivered(s.ask(0, 30, "delay-id=a"), 30))
			return s.condemned(s.ask(0, 35, "delay-id=a"), "duplicate_id")
		},
		"a replacement of a handle, in vain": func(s *fakeGroup) *kgo.Record {
			s.write(s.delivered(s.ask(0, 0.1), 0.1))
			return s.condemned(s.ask(1, 35, "delay-replace=0-0-"+millis(s.at(0.1))), "too_late")
		},
		"a replacement of an id, in vain": func(s *fakeGroup) *kgo.Record {
			s.write(s.delivered(s.ask(0, 0.1, "delay-id=a"), 0.1))
			return s.condemned(s.ask(1, 35, "delay-replace=a"), "too_late")
		},
		"a replacement in another partition": func(s *fakeGroup) *kgo.Record {
			return s.condemned(s.ask(0, 35, "delay-replace=1-0-"+millis(s.at(100))), "wrong_partition")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFakeGroup(t)
			first := s.write(refuse(s))
			lost := s.ask(10, 36)
			s.write(s.condemned(s.request(15, "delay-target-topic=orders"), "no_due"))
			s.resolve("delays", 0, lost.Offset+2, 40, lost.Offset+2)
			s.expect(s.pass(s.verifier()), map[string]int64{"missing": 1}, fmt.Sprintf("MISSING: 1\n  delays/0@%d: ", lost.Offset))
			s.cut("delays.dead", 0, first.Offset+1)
			s.expect(s.pass(s.verifier()), map[string]int64{"missing": 1}, fmt.Sprintf("MISSING: 1\n  delays/0@%d: ", lost.Offset))
		})
	}
}

// A target that has got more partitions is cut as a whole, where it may have had fewer of them when a record was delivered.
func TestTargetThatWasSmallerIsCut(t *testing.T) {
	s := newFakeGroup(t)
	ask := func(n int, due float64) *kgo.Record {
		return s.write(&kgo.Record{Topic: "delays", Key: fmt.Append(nil, n), Timestamp: s.at(0), Headers: headers("delay-until="+millis(s.at(due)), "delay-target-topic=orders")})
	}
	for n := range 10 {
		s.write(s.delivered(ask(n, 5), 5))
	}
	for partition := range int32(2) {
		s.cut("orders", partition, -1)
		s.write(&kgo.Record{Topic: "orders", Partition: partition, Timestamp: s.at(6), Headers: headers("delay-source=delays/0/1", "delay-due="+millis(s.at(6)))})
	}
	if _, err := s.adm.UpdatePartitions(t.Context(), 7, "orders"); err != nil {
		t.Fatal(err)
	}
	lost := ask(0, 20)
	s.resolve("delays", 0, 11, 40, 11)
	r := s.pass(s.verifier())
	for _, f := range r.Faults {
		if f.Kind == "missing" && (f.Count != 1 || f.First[0].Offset != lost.Offset) {
			t.Errorf("%+v", f)
		}
	}
	if r.Counts.Missing != 1 || r.Counts.Untold != 9 {
		t.Errorf("%+v", r.Counts)
	}
}

// A compacted target, one that is gone, and routes that emit nothing hide what arrives.
func TestHidden(t *testing.T) {
	s := newFakeGroup(t)
	s.many(0, 3, 1)
	s.resolve("delays", 0, 3, 30, 3)
	compact := "compact"
	if _, err := s.adm.AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "cleanup.policy", Value: &compact}}, "orders"); err != nil {
		t.Fatal(err)
	}
	s.expect(s.pass(s.verifier()), nil, "cannot tell of 1: their target is compacted")
	s.config.Routes[0].Emit = "none"
	s.expect(s.pass(s.verifier()), nil, "cannot tell of 1: headers.emit is none")
	s.config.Routes[0].Emit = "source"
	if _, err := s.adm.DeleteTopics(t.Context(), "orders"); err != nil {
		t.Fatal(err)
	}
	s.expect(s.pass(s.verifier()), nil, "cannot tell of 3: their target does not exist")
}

// forbid refuses to let a topic be read until that is allowed.
func (s *fakeGroup) forbid(topic string, allowed *atomic.Bool) {
	s.fake.ControlKey(int16(kmsg.Fetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		s.fake.KeepControl()
		r := req.(*kmsg.FetchRequest)
		resp := r.ResponseKind().(*kmsg.FetchResponse)
		id := s.fake.TopicInfo(topic).TopicID
		for _, asked := range r.Topics {
			if asked.Topic != topic && asked.TopicID != id || allowed.Load() {
				continue
			}
			refused := kmsg.NewFetchResponseTopic()
			refused.Topic, refused.TopicID = asked.Topic, asked.TopicID
			for _, p := range asked.Partitions {
				answer := kmsg.NewFetchResponseTopicPartition()
				answer.Partition, answer.ErrorCode = p.Partition, kerr.TopicAuthorizationFailed.Code
				refused.Partitions = append(refused.Partitions, answer)
			}
			resp.Topics = append(resp.Topics, refused)
		}
		return resp, nil, len(resp.Topics) > 0
	})
}

// A target that may be described and not be read hides what arrives there, as long as it may not be read.
func TestTargetThatMayNotBeRead(t *testing.T) {
	s := newFakeGroup(t)
	s.ask(0, 1)
	late := s.ask(0, 30)
	s.write(s.condemned(s.request(0, "delay-target-topic=orders"), "no_due"))
	s.write(s.delivered(late, 30))
	s.resolve("delays", 0, 3, 2, 1)
	var allowed atomic.Bool
	s.forbid("orders", &allowed)
	v := s.verifier()
	r := s.pass(v)
	s.expect(r, map[string]int64{"overdue": 1}, "cannot tell of 1: their target does not exist, or may not be looked at")
	if !slices.Equal(r.Denied, []string{"orders"}) || r.Counts.DeadLettered != 1 {
		t.Errorf("denied %v, %+v", r.Denied, r.Counts)
	}
	allowed.Store(true)
	s.resolve("delays", 0, 3, 31, 3)
	r = s.pass(v)
	s.expect(r, nil, "target orders: whole")
	if len(r.Denied) > 0 || r.Counts.Delivered != 1 {
		t.Errorf("denied %v, %+v", r.Denied, r.Counts)
	}
}

// A dead letter topic that may not be read is not said to be missing.
func TestDeadLettersThatMayNotBeRead(t *testing.T) {
	s := newFakeGroup(t)
	s.write(s.condemned(s.request(0, "delay-target-topic=orders"), "no_due"))
	s.forbid("delays.dead", new(atomic.Bool))
	if got := s.pass(s.verifier()).Notes; !slices.Contains(got, "delays.dead may not be looked at, so what lies there is not known") ||
		slices.Contains(got, "the dead letter topic delays.dead does not exist") {
		t.Errorf("notes %q", got)
	}
}

// A target that a request names, that no route allows and that is not there, is nothing to look at: that a right to it is missing, as it is to all that does not
// exist where rights are given by name, does not matter.
func TestAbsentTargetThatNoRouteAllows(t *testing.T) {
	s := newFakeGroup(t)
	s.config.Routes[0].Allow = append(s.config.Routes[0].Allow, "allowed-*")
	q := s.request(0, "delay-until="+millis(s.at(1)), "delay-target-topic=ordesr")
	s.write(s.condemned(q, "target_not_allowed"))
	s.request(0, "delay-until="+millis(s.at(100)), "delay-target-topic=allowed-1")
	s.resolve("delays", 0, 2, 30, 1)
	s.fake.ControlKey(int16(kmsg.Metadata), func(req kmsg.Request) (kmsg.Response, error, bool) {
		s.fake.KeepControl()
		r := req.(*kmsg.MetadataRequest)
		resp := r.ResponseKind().(*kmsg.MetadataResponse)
		for _, asked := range r.Topics {
			if name := *asked.Topic; name != "ordesr" && name != "allowed-1" {
				return nil, nil, false
			}
			refused := kmsg.NewMetadataResponseTopic()
			refused.Topic, refused.ErrorCode = asked.Topic, kerr.TopicAuthorizationFailed.Code
			resp.Topics = append(resp.Topics, refused)
		}
		return resp, nil, len(resp.Topics) > 0
	})
	r := s.pass(s.verifier())
	if s.expect(r, nil, "1 dead-lettered"); !slices.Equal(r.Denied, []string{"allowed-1"}) {
		t.Errorf("denied %v", r.Denied)
	}
}

// What a request names as its target may be longer than any topic's name, and longer than what brokers can be asked for: Kafka hangs up then.
func TestTargetThatIsNoName(t *testing.T) {
	s := newFakeGroup(t)
	s.config.Routes[0].Allow = append(s.config.Routes[0].Allow, "allowed-*")
	longest := "allowed-" + strings.Repeat("x", 241)
	for name, code := range map[string]string{longest: "unknown_target", longest + "x": "invalid_target", "allowed-" + strings.Repeat("x", 1<<15): "invalid_target"} {
		s.write(s.condemned(s.request(0, "delay-until="+millis(s.at(1)), "delay-target-topic="+name), code))
	}
	s.resolve("delays", 0, 3, 30, 3)
	var asked []string
	s.fake.ControlKey(int16(kmsg.Metadata), func(req kmsg.Request) (kmsg.Response, error, bool) {
		s.fake.KeepControl()
		for _, topic := range req.(*kmsg.MetadataRequest).Topics {
			if strings.HasPrefix(*topic.Topic, "allowed-") {
				asked = append(asked, *topic.Topic)
			}
		}
		return nil, nil, false
	})
	s.expect(s.pass(s.verifier()), nil, "3 dead-lettered")
	if !slices.Equal(asked, []string{longest}) {
		t.Errorf("asked for %d names", len(asked))
	}
}

// A target that is made anew between two passes is read from its new beginning, and what lay there before is gone.
func TestTargetIsMadeAnew(t *testing.T) {
	s := newFakeGroup(t)
	s.many(0, 3)
	unread := s.ask(0, 10)
	later := s.ask(0, 40)
	s.resolve("delays", 0, 5, 5, 3)
	v := s.verifier()
	s.expect(s.pass(v), map[string]int64{"overdue": 2}, "target orders: whole")
	s.write(s.delivered(unread, 10))
	if _, err := s.adm.DeleteTopics(t.Context(), "orders"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.adm.CreateTopics(t.Context(), 4, 1, nil, "orders"); err != nil {
		t.Fatal(err)
	}
	<-time.After(2 * metadataAge)
	fresh := s.client(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	r := s.delivered(later, 40)
	r.Partition = int32(kgo.StickyKeyPartitioner(nil).ForTopic("").Partition(r, 4))
	if err := fresh.ProduceSync(t.Context(), r).FirstErr(); err != nil {
		t.Fatal(err)
	}
	s.resolve("delays", 0, 5, 50, 5)
	s.expect(s.pass(v), nil, "cannot tell of 1: the older part of their target is gone")
	again := *r
	if err := fresh.ProduceSync(t.Context(), &again).FirstErr(); err != nil {
		t.Fatal(err)
	}
	s.expect(s.pass(v), map[string]int64{"doubled": 1}, "seen 2 times")
}

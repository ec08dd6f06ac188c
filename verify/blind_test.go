package verify

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A delay topic that is not there says nothing of the others: those are judged, and it is said that it cannot be told of all. When it is made it is read.
func TestOneOfTheDelayTopicsIsMissing(t *testing.T) {
	s := newFakeGroup(t)
	s.config.Routes[1].Topic, s.config.Routes[1].DeadLetter = "later", "reminders.dead"
	s.many(0, 3, 1)
	s.resolve("delays", 0, 3, 30, 3)
	v := s.verifier()
	r := s.pass(v)
	s.expect(r, map[string]int64{"missing": 1}, "delays/0@1: due")
	s.expect(r, map[string]int64{"missing": 1}, "note: the delay topic later does not exist\n")
	if !slices.Equal(r.Blind, []string{"the delay topic later does not exist"}) || len(r.Windows) != 4 {
		t.Errorf("%q, %v", r.Blind, r.Windows)
	}
	s.write(&kgo.Record{Topic: "orders", Value: []byte("tick"), Timestamp: s.at(10), Headers: headers("delay-due="+millis(s.at(10)), "delay-source=later/0/7")})
	bad := &kgo.Record{Topic: "later", Offset: 8}
	letter := s.condemned(bad, "no_due")
	letter.Topic = "reminders.dead"
	s.write(letter)
	s.expect(s.pass(v), map[string]int64{"missing": 1}, "2 of others in these topics")
	if _, err := s.adm.CreateTopic(t.Context(), 1, 1, nil, "later"); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * metadataAge) // it is asked for only then
	if _, err := v.Pass(t.Context()); !errors.Is(err, ErrAnew) {
		t.Errorf("what has arrived of it before was passed over: %v", err)
	}
	if r := s.pass(s.verifier()); len(r.Blind) > 0 {
		t.Errorf("it is there: %q", r.Blind)
	}
}

// One that may not be described is no reason to say nothing of the others.
func TestOneOfTheDelayTopicsMayNotBeLookedAt(t *testing.T) {
	s := newFakeGroup(t)
	s.many(0, 3)
	s.resolve("delays", 0, 3, 30, 3)
	s.fake.ControlKey(int16(kmsg.Metadata), func(req kmsg.Request) (kmsg.Response, error, bool) {
		s.fake.KeepControl()
		if !slices.ContainsFunc(req.(*kmsg.MetadataRequest).Topics, func(t kmsg.MetadataRequestTopic) bool { return t.Topic != nil && *t.Topic == "later" }) {
			return nil, nil, false
		}
		resp := req.ResponseKind().(*kmsg.MetadataResponse)
		topic := kmsg.NewMetadataResponseTopic()
		topic.Topic, topic.ErrorCode = kmsg.StringPtr("later"), kerr.TopicAuthorizationFailed.Code
		resp.Topics = append(resp.Topics, topic)
		return resp, nil, true
	})
	s.config.Routes[1].Topic, s.config.Routes[1].DeadLetter = "later", "reminders.dead"
	r := s.pass(s.verifier())
	s.expect(r, nil, "nothing is wrong with what may be looked at")
	if !slices.Equal(r.Denied, []string{"later"}) || r.Counts.Delivered != 3 {
		t.Errorf("%q, %+v", r.Denied, r.Counts)
	}
}

// Of a group that has never had a checkpoint it is not said that all is well, as soon as there are requests.
func TestGroupThatNeverWas(t *testing.T) {
	s := newFakeGroup(t)
	s.config.Group = "mistyped"
	if r := s.pass(s.verifier()); len(r.Blind) > 0 {
		t.Errorf("there are no requests: %q", r.Blind)
	}
	s.ask(0, 200)
	r := s.pass(s.verifier())
	s.expect(r, nil, "nothing is wrong with what could be looked at")
	if len(r.Blind) != 1 || !strings.Contains(r.Blind[0], "the group mistyped has no checkpoint of any of these topics") {
		t.Errorf("%q", r.Blind)
	}
	s.ask(0, 10)
	if r = s.pass(s.verifier()); r.Well() || !r.Doubtful() {
		t.Errorf("what is overdue may be what another group has cancelled: %+v", r)
	}
	s.expect(r, map[string]int64{"overdue": 1}, "\nfaults: 1, if that is the group\n")
	s.resolve("delays", 0, 1, 0, 0)
	s.config.Group = group
	if r := s.pass(s.verifier()); len(r.Blind) > 0 {
		t.Errorf("it has one: %q", r.Blind)
	} else if s.expect(r, map[string]int64{"overdue": 1}, "\nfaults: 1\n"); r.Doubtful() {
		t.Error("it has one")
	}
}

// A group that has given its checkpoints to another one has run: its name is not mistyped.
func TestGroupThatGaveItsCheckpoints(t *testing.T) {
	s := newFakeGroup(t)
	s.ask(0, 200)
	s.resolve("delays", 0, 1, 0, 0)
	s.restate("delays", 0, func(metadata string) string { return metadata + " m=heir" })
	r := s.pass(s.verifier())
	s.expect(r, nil, "nothing is wrong with what could be looked at")
	if len(r.Blind) != 1 || !strings.Contains(r.Blind[0], "has given its checkpoints of these topics to another group") {
		t.Errorf("%q", r.Blind)
	}
}

// What was given up is told, as long as the checkpoint says so.
func TestGivenUp(t *testing.T) {
	s := newFakeGroup(t)
	s.ask(0, 200)
	s.ask(0, 200)
	s.resolve("delays", 0, 2, 0, 1)
	s.cut("delays", 0, 1)
	r := s.pass(s.verifier())
	s.expect(r, nil, "all is well")
	if len(r.Notes) > 0 {
		t.Errorf("%q", r.Notes)
	}
	s.restate("delays", 0, func(metadata string) string { return metadata + " g=1" })
	s.expect(s.pass(s.verifier()), nil, "note: delays/0: the group has given up what was pending below offset 1")
}

// What was dead-lettered for what it cannot have been by what is there now is believed, and it is said of how many that is so, and for what.
func TestBelieved(t *testing.T) {
	s := newFakeGroup(t)
	if _, err := s.adm.CreateTopic(t.Context(), 1, 1, map[string]*string{"max.message.bytes": kadm.StringPtr("5000")}, "bills.small"); err != nil {
		t.Fatal(err)
	}
	for _, code := range []string{"unknown_target", "too_large", "too_large", "rejected"} {
		s.write(s.condemned(s.ask(0, 10), code))
	}
	s.write(s.condemned(s.request(0, "delay-until="+millis(s.at(10)), "delay-target-topic=bills.fr"), "unknown_target"))                                   // it is not there
	s.write(s.condemned(s.request(0, "delay-until="+millis(s.at(10)), "delay-target-topic=secrets"), "target_not_allowed"))                                // it is not allowed
	s.write(s.condemned(s.request(0, "delay-until="+millis(s.at(10)), "delay-target-topic=bills.small"), "too_large"))                                     // it is not
	s.write(s.condemned(s.request(0, "delay-until="+millis(s.at(10)), "delay-target-topic=bills.small", "large="+strings.Repeat("x", 5000)), "too_large")) // it is
	s.write(s.condemned(s.ask(0, 10, "delay-expires="+millis(s.at(5))), "expired"))                                                                        // it had
	s.write(s.condemned(s.ask(0, 10, "delay-id=a"), "duplicate_id"))                                                                                       // of none
	s.write(s.delivered(s.ask(0, 10, "delay-id=b"), 10))
	s.write(s.condemned(s.ask(0, 10, "delay-id=b"), "duplicate_id"))
	s.resolveAll(30)
	v := s.verifier()
	s.pass(v)
	r := s.pass(v)
	s.expect(r, nil, "6 of the dead-lettered could be delivered as things are now: that they could not then is believed of (duplicate_id 1, rejected 1, too_large 3, unknown_target 1)\n")
	if len(r.Believed) != 4 {
		t.Errorf("%v", r.Believed)
	}
}

// What a tool, or a consumer of another kind, has committed is no checkpoint: that is said, and not that the group's name is mistyped.
func TestGroupThatSomethingElseCommittedFor(t *testing.T) {
	s := newFakeGroup(t)
	s.ask(0, 200)
	s.resolve("delays", 0, 1, 0, 0)
	s.restate("delays", 0, func(string) string { return "" })
	r := s.pass(s.verifier())
	s.expect(r, nil, "nothing is wrong with what could be looked at")
	if len(r.Blind) != 1 || !strings.Contains(r.Blind[0], "is no checkpoint that this release reads") || strings.Contains(r.Blind[0], "is this its name") {
		t.Errorf("%q", r.Blind)
	}
}

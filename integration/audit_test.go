package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/bench/check"
	"github.com/duewheel/duewheel/integration/brokers"
	"github.com/duewheel/duewheel/processor"
	"github.com/duewheel/duewheel/topics"
)

// What becomes of requests is told in the audit topic, while replicas are killed inside transactions: of each request one end, and of each
// record of a target where it lies. At least once, what a crash has delivered again is told again, and nothing is left out.
func TestAudit(t *testing.T) {
	for _, guarantee := range []processor.Guarantee{processor.ExactlyOnce, processor.AtLeastOnce} {
		t.Run(string(guarantee), func(t *testing.T) {
			t.Parallel()
			set := answersCancels(setting{seed: newSeed(t)})
			once := guarantee == processor.ExactlyOnce
			if !once {
				answers := set.check
				set.check = func(c *check.Config) { answers(c); c.AllowDoubles = true }
			}
			s := newTenant(t, shared(t), set)
			audit := s.name + ".audit"
			s.create(3, map[string]string{"compression.type": "zstd", "retention.ms": "2592000000"}, audit)
			k := s.newKiller(2, func(c *replicaConfig) { c.AuditTopic, c.Guarantee = audit, guarantee })
			a := s.newAsker()
			stop := a.keepAsking(400)
			for k.kills < 3 || (once && k.open == 0 || s.watch.Counts().Requested < 1500) && k.kills < mostKills {
				k.strike()
			}
			stop()
			s.arrive()
			k.terminate()
			report := s.judge()
			told := s.readAudit(audit)
			t.Logf("killed %d times, %d of them inside an open transaction; %d requests, %d cancels; told are %v", k.kills, k.open, report.Requested, report.Cancels, told.events)
			told.compare(s.visible(s.targets[0]), once)
			if once {
				told.answers(a.places)
			}
			for _, event := range []string{"accepted", "delivered", "cancelled", "replaced", "too_late", "unknown", "forwarded", "duplicate", "not_here"} {
				if told.events[event] < 10 {
					t.Errorf("%s was told %d times", event, told.events[event])
				}
			}
		})
	}
}

// audited is what an audit topic tells.
type audited struct {
	t      *testing.T
	events map[string]int
	ends   map[string]int    // by handle: how many of its events are the end of a request
	of     map[string]string // by place in a target: the request that is told to lie there
	told   map[string]bool   // requests that are told to be delivered
	by     map[string]int    // by what has done it: how many events
	passed int               // of what was passed on: how many partitions have to answer
	ended  map[string]bool   // or to have another end, which after a crash one may have that was delivered (at_least_once)
}

func (s *tenant) readAudit(topic string) audited {
	s.t.Helper()
	a := audited{t: s.t, events: map[string]int{}, ends: map[string]int{}, by: map[string]int{}, of: map[string]string{}, told: map[string]bool{}, ended: map[string]bool{}}
	for _, r := range s.visible(topic) {
		var e struct {
			Event, Handle, ID, By, Topic, Group, Code, Target string
			Partition                                         int32 `json:"target_partition"`
			Offset                                            int64 `json:"target_offset"`
		}
		if err := json.Unmarshal(r.Value, &e); err != nil || e.Handle == "" && e.ID == "" || e.Handle != string(r.Key) && e.By != string(r.Key) || e.Topic != s.route.Topic || e.Group != s.name {
			s.t.Fatalf("%s: %s: %v", r.Key, r.Value, err)
		}
		if e.By != "" {
			a.by[e.By]++
		}
		switch a.events[e.Event]++; e.Event {
		case "forwarded":
			if a.passed++; e.Handle == "" {
				a.passed += 2 // with an id to all three others
			}
		case "delivered":
			h, ok := topics.ParseHandle([]byte(e.Handle))
			if !ok {
				s.t.Fatalf("%s is no handle", e.Handle)
			}
			source := fmt.Sprintf("%s/%d/%d", e.Topic, h.Partition, h.Offset)
			a.of[fmt.Sprintf("%s/%d/%d", e.Target, e.Partition, e.Offset)], a.told[source] = source, true
			a.ends[e.Handle]++
		case "cancelled", "replaced", "expired", "dead_lettered", "parked", "duplicate":
			a.ends[e.Handle]++
			if h, ok := topics.ParseHandle([]byte(e.Handle)); ok {
				a.ended[fmt.Sprintf("%s/%d/%d", e.Topic, h.Partition, h.Offset)] = true
			}
		case "too_late":
			if e.Code != "" {
				a.ends[e.Handle]++
			}
		}
	}
	return a
}

// compare looks at the records of a target.
func (a audited) compare(delivered []*kgo.Record, once bool) {
	a.t.Helper()
	faults := 0
	for _, r := range delivered {
		place := fmt.Sprintf("%s/%d/%d", r.Topic, r.Partition, r.Offset)
		told, is := a.of[place]
		if source := value(r, "delay-source"); is && told != source || !is && once || !a.told[source] && (once || !a.ended[source]) {
			if faults++; faults < 5 {
				a.t.Errorf("%s is of %s, and told to be of %q", place, source, told)
			}
		}
	}
	if len(a.of) > len(delivered) || once && len(a.of) != len(delivered) {
		a.t.Errorf("%d records are told to be delivered, and %d are there", len(a.of), len(delivered))
	}
	for handle, n := range a.ends {
		if once && n != 1 {
			a.t.Errorf("%s has %d ends", handle, n)
		}
	}
}

// answers fails unless each cancel has done one thing, what was passed on as many as it was passed on to, and what asks to take another one's
// place one at most. Places are what was written.
func (a audited) answers(places map[string]ask) {
	a.t.Helper()
	faults := 0
	for place, written := range places {
		if n := a.by[place]; written.cancels && n != 1 || n > 1 {
			if faults++; faults < 5 {
				a.t.Errorf("the record at %s (a cancel: %v) has done %d things", place, written.cancels, n)
			}
		}
	}
	answered := 0
	for place, n := range a.by {
		if _, written := places[place]; !written {
			answered += n
		}
	}
	if answered != a.passed || answered == 0 {
		a.t.Errorf("%d answers to what was passed on, want %d", answered, a.passed)
	}
}

// visible are the records of a topic that a reader of committed ones gets.
func (s *tenant) visible(topic string) (rs []*kgo.Record) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	ends, err := s.admin.ListCommittedOffsets(ctx, topic)
	if err != nil {
		s.t.Fatal(err)
	}
	cl, err := kgo.NewClient(append(s.cluster.Opts(brokers.Plain), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords())...)
	if err != nil {
		s.t.Fatal(err)
	}
	defer cl.Close()
	left := map[int32]int64{}
	for partition, end := range ends[topic] {
		if end.Offset > 0 {
			left[partition] = end.Offset
		}
	}
	for len(left) > 0 {
		fs := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			s.t.Fatalf("read %s: left are %v", topic, left)
		}
		fs.EachRecord(func(r *kgo.Record) {
			if r.Offset+1 >= left[r.Partition] {
				delete(left, r.Partition)
			}
			if !r.Attrs.IsControl() {
				rs = append(rs, r)
			}
		})
	}
	return rs
}

package integration

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/bench/check"
	"github.com/duewheel/duewheel/topics"
	"github.com/duewheel/duewheel/verify"
)

// Two groups deliver from one delay topic, each to a target of its own, and one of them from a second topic, too: verify finds nothing wrong with either,
// and then each fault that is made on purpose in what processors have delivered, by the group that it concerns; of a topic that was trimmed, too.
func TestVerifyTwoGroups(t *testing.T) {
	t.Parallel()
	const each = 60
	s := newTenant(t, shared(t), setting{targets: 2, seed: newSeed(t)})
	second := s.name + ".second"
	s.create(2, nil, second)
	s.create(1, nil, second+".dead", s.name+".dead-of-others")
	no := false
	route := func(topic, dead string, allow ...string) topics.Route {
		return topics.Route{Topic: topic, DeadLetter: dead, Allow: allow, MaxDelay: maxDelay, Trim: &no}
	}
	routes := map[string][]topics.Route{
		s.name:             {route(s.name, s.name+".dead", s.targets[0]), route(second, second+".dead", s.targets...)},
		s.name + "-others": {route(s.name, s.name+".dead-of-others", s.targets[1])},
	}
	for group, all := range routes {
		s.start(s.replica(func(c *replicaConfig) {
			c.Group, c.Routes, c.StateDir = group, all, s.dir+"/"+group
		}))
	}
	f := s.newForger()
	for i := range each {
		for _, topic := range []string{s.name, second} {
			for _, target := range s.targets {
				f.write(&kgo.Record{Topic: topic, Partition: int32(i % 2), Value: []byte("v"), Headers: []kgo.RecordHeader{
					{Key: topics.HeaderUntil, Value: fmt.Append(nil, time.Now().Add(time.Duration(i)*time.Millisecond).UnixMilli())}, {Key: topics.HeaderTargetTopic, Value: []byte(target)},
				}})
			}
		}
	}
	verifiers := map[string]func() *verify.Verifier{}
	for group, all := range routes {
		verifiers[group] = func() *verify.Verifier { return s.verifierOf(group, all) }
		want := map[string]verify.Counts{ // what the other group delivers is dead-lettered
			s.name:             {Requested: 4 * each, Delivered: 3 * each, DeadLettered: each, Foreign: each},
			s.name + "-others": {Requested: 2 * each, Delivered: each, DeadLettered: each, Foreign: each},
		}[group]
		eventually(t, func() string {
			r := s.pass(verifiers[group]())
			expectFaults(t, r, nil)
			c := r.Counts
			c.Retried, c.Elsewhere, c.Foreign = 0, 0, min(c.Foreign, want.Foreign) // records of the second topic are of others, too
			if c != want {
				return fmt.Sprintf("%s: %+v, want %+v", group, c, want)
			}
			return ""
		})
	}
	for _, fault := range []struct {
		name   string
		make   func()
		by     string // which group finds it
		want   map[string]int64
		detail string
	}{
		{"doubled byte for byte", func() { f.again(s.targets[0], s.name, nil) }, s.name, map[string]int64{"doubled": 1}, s.name + "/"},
		{"doubled by the other group", func() { f.again(s.targets[1], s.name, nil) }, s.name + "-others", map[string]int64{"doubled": 2}, s.name + "/"}, // and it sees the first one
		{"doubled and altered, on the second route", func() { f.again(s.targets[1], second, func(r *kgo.Record) { r.Value = []byte("w") }) }, s.name,
			map[string]int64{"doubled": 3, "altered": 1}, second + "/"}, // with those before
		{"doubled, and the delay topic is trimmed", func() {
			f.cut(second, 0)
			f.cut(second, 1)
			f.again(s.targets[0], second, nil)
		}, s.name, map[string]int64{"doubled": 4}, "it has left the delay topic"},
	} {
		t.Run(fault.name, func(t *testing.T) {
			fault.make()
			r := s.pass(verifiers[fault.by]())
			expectFaults(t, r, fault.want)
			var b strings.Builder
			if err := r.Write(&b); err != nil || !strings.Contains(b.String(), fault.detail) || !strings.Contains(b.String(), "has checkpoints of "+s.name) {
				t.Errorf("%v; it does not say %q, or nothing of the other group:\n%s", err, fault.detail, b.String())
			}
		})
	}
}

// verifierOf looks at the routes of a group.
func (s *tenant) verifierOf(group string, all []topics.Route) *verify.Verifier {
	s.t.Helper()
	config := verify.Config{Group: group}
	for _, r := range all {
		config.Routes = append(config.Routes, check.Route{Topic: r.Topic, Allow: r.Allow, MaxDelay: r.MaxDelay, DeadLetter: r.DeadLetter})
	}
	v, err := verify.New(config, s.opts()...)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(v.Close)
	return v
}

// again writes a record that was delivered once more, changed or not: the first one in a target that came from a delay topic.
func (f *forger) again(target, from string, change func(*kgo.Record)) {
	f.t.Helper()
	cl, err := kgo.NewClient(append(f.opts(), kgo.ConsumeTopics(target), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))...)
	if err != nil {
		f.t.Fatal(err)
	}
	defer cl.Close()
	for {
		fetched := cl.PollFetches(f.t.Context())
		if err := fetched.Err(); err != nil {
			f.t.Fatal(err)
		}
		for _, r := range fetched.Records() {
			if !strings.HasPrefix(string(topics.Last(r.Headers, topics.HeaderSource)), from+"/") {
				continue
			}
			if change != nil {
				change(r)
			}
			f.write(&kgo.Record{Topic: r.Topic, Partition: r.Partition, Key: r.Key, Value: r.Value, Headers: r.Headers, Timestamp: r.Timestamp})
			return
		}
	}
}

package integration

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/bench/check"
	"github.com/duewheel/duewheel/topics"
)

// What a route says of ids, of replacements that come too late, of spread and of expiry, from its settings to what is delivered and what is dead-lettered. Part
// of it is written before a replica begins, and that is followed by one that has no store, so it is decided by a replay, too.
func TestWhatRoutesSay(t *testing.T) {
	for _, c := range []struct {
		name   string
		route  func(*topics.Route)
		check  func(*check.Route)
		before func(*sayer) // asks, before the first replica begins; what it leaves in between asks when that has ended
		after  func(*sayer) // asks, when all of that has come
		came   []string     // the values of what is delivered, in any order
		dead   []string     // codes of dead letters, and their values
		judge  func(*sayer)
	}{
		{"on_duplicate reject", func(*topics.Route) {}, func(*check.Route) {},
			func(s *sayer) {
				s.ask("first", s.soon, "delay-id", "x")
				s.ask("second", s.soon, "delay-id", "x")
				s.ask("cancelled", s.soon, "delay-id", "y")
				s.ask("", time.Time{}, "delay-cancel", "y")
				s.ask("after the cancel", s.soon, "delay-id", "y")
			},
			func(s *sayer) { s.ask("third", s.past, "delay-id", "x") },
			[]string{"first", "after the cancel", "third"}, []string{"duplicate_id second"}, nil},
		{"on_duplicate ignore", func(r *topics.Route) { r.OnDuplicate = topics.DuplicateIgnored }, func(r *check.Route) { r.OnDuplicate = check.LeaveOut },
			func(s *sayer) {
				s.ask("first", s.soon, "delay-id", "x")
				s.ask("second", s.soon, "delay-id", "x")
				s.ask("cancelled", s.soon, "delay-id", "y")
				s.ask("", time.Time{}, "delay-cancel", "y")
				s.ask("after the cancel", s.soon, "delay-id", "y")
			},
			func(s *sayer) { s.ask("third", s.past, "delay-id", "x") },
			[]string{"first", "after the cancel", "third"}, nil, func(s *sayer) { s.did("ignored", 1) }},
		{"on_duplicate replace", func(r *topics.Route) { r.OnDuplicate = topics.DuplicateReplaces }, func(r *check.Route) { r.OnDuplicate = check.Replace },
			func(s *sayer) {
				s.ask("first", s.soon, "delay-id", "x")
				s.ask("second", s.past, "delay-id", "x")
				s.ask("far", s.soon.Add(time.Hour), "delay-id", "y")
				s.ask("nearer", s.soon, "delay-id", "y")
			},
			func(s *sayer) { s.ask("third", s.past, "delay-id", "x") },
			[]string{"second", "nearer", "third"}, nil, nil},
		{"on_late_replace dead_letter", func(*topics.Route) {}, func(*check.Route) {},
			func(s *sayer) { s.replaced = s.ask("first", s.past); s.inTime(s.ask("taken away", s.soon)) },
			func(s *sayer) {
				s.ask("too late", s.soon, "delay-replace", s.replaced)
				s.ask("of nothing", s.past, "delay-replace", "z")
			},
			[]string{"first", "in time"}, []string{"too_late of nothing", "too_late too late"}, nil},
		{"on_late_replace deliver", func(r *topics.Route) { r.ReplacesLate = true }, func(r *check.Route) { r.ReplacesLate = true },
			func(s *sayer) { s.replaced = s.ask("first", s.past); s.inTime(s.ask("taken away", s.soon)) },
			func(s *sayer) {
				s.ask("too late", s.soon, "delay-replace", s.replaced)
				s.ask("of nothing", s.past, "delay-replace", "z")
			},
			[]string{"first", "in time", "too late", "of nothing"}, nil, nil},
		{"expiry", func(r *topics.Route) { r.ExpireAfter = 30 * time.Minute }, func(r *check.Route) { r.ExpireAfter = 30 * time.Minute },
			func(s *sayer) {
				s.ask("by its header", s.past, "delay-expires", strconv.FormatInt(s.past.Add(time.Second).UnixMilli(), 10))
				s.ask("by its route", s.past.Add(-time.Hour))
				s.ask("just so", s.past)
				s.ask("later", s.soon, "delay-expires", strconv.FormatInt(s.soon.Add(time.Hour).UnixMilli(), 10))
			},
			func(s *sayer) { s.ask("by its route again", s.past.Add(-time.Hour)) },
			[]string{"just so", "later"}, []string{"expired by its header", "expired by its route", "expired by its route again"}, nil},
		{"while no replica runs", func(*topics.Route) {}, func(*check.Route) {},
			func(s *sayer) {
				s.between = func() {
					soon := time.Now().Add(time.Second)
					one, two := s.ask("cancelled by its handle", soon), s.ask("replaced", soon)
					s.ask("cancelled by its id", soon, "delay-id", "x")
					s.ask("stays", soon)
					s.ask("", time.Time{}, "delay-cancel", one)
					s.ask("instead", s.past, "delay-replace", two)
					s.ask("", time.Time{}, "delay-cancel", "x")
					eventually(s.t, func() string { // all of it is overdue when a replica is back
						if left := time.Until(soon); left > 0 {
							return fmt.Sprintf("%v to be over", left)
						}
						return ""
					})
				}
			},
			func(s *sayer) {}, []string{"instead", "stays"}, nil, func(s *sayer) { s.did("cancelled", 2) }},
		{"jitter", func(r *topics.Route) { r.Jitter = 2 * time.Second }, func(r *check.Route) { r.Jitter = 2 * time.Second },
			func(s *sayer) {
				for i := range 40 {
					s.ask(fmt.Sprint(i), s.soon)
				}
				s.ask("", time.Time{}, "delay-cancel", s.ask("cancelled", s.soon)) // by the handle that its producer knows
			},
			func(s *sayer) {}, s40, nil, (*sayer).spread},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := &sayer{tenant: newTenant(t, shared(t), setting{partitions: 1, seed: newSeed(t), route: c.route, check: func(config *check.Config) { c.check(&config.Routes[0]) }})}
			s.past, s.soon = time.Now().Add(-time.Minute), time.Now().Add(3*time.Second)
			c.before(s)
			s.rest()
			if s.between != nil {
				s.between()
			}
			s.p = s.start(s.replica(func(c *replicaConfig) { c.StateDir = filepath.Join(s.dir, "b") }))
			s.arrive()
			c.after(s)
			s.arrive()
			s.p.stop()
			if c.judge != nil {
				c.judge(s)
			}
			s.judge()
			equalSets(t, "delivered", s.values(s.targets[0], ""), c.came)
			equalSets(t, "dead-lettered", s.values(s.route.DeadLetter, "__delay.errors.code"), c.dead)
		})
	}
}

// s40 are the numbers below 40.
var s40 = func() (all []string) {
	for i := range 40 {
		all = append(all, strconv.Itoa(i))
	}
	return all
}()

// sayer asks for one thing after the other.
type sayer struct {
	*tenant
	past, soon time.Time
	end        int64  // of what was asked for
	replaced   string // the handle of what is delivered at once
	p          *running
	between    func()
	first      map[string]int64 // what the first replica counted of what names others
}

// ask writes a request, and returns its handle.
func (s *sayer) ask(value string, due time.Time, headers ...string) string {
	s.t.Helper()
	r := &kgo.Record{Topic: s.route.Topic, Key: []byte("k"), Value: []byte(value)}
	set := func(name, value string) {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: name, Value: []byte(value)})
	}
	for i := 0; i < len(headers); i += 2 {
		set(headers[i], headers[i+1])
	}
	if !due.IsZero() {
		set(topics.HeaderUntil, strconv.FormatInt(due.UnixMilli(), 10))
		set(topics.HeaderTargetTopic, s.targets[0])
	}
	if err := s.client.ProduceSync(s.t.Context(), r).FirstErr(); err != nil {
		s.t.Fatal(err)
	}
	s.end = r.Offset + 1
	return topics.Handle{Partition: r.Partition, Offset: r.Offset, Due: due.UnixMilli()}.String()
}

// inTime replaces what is pending.
func (s *sayer) inTime(handle string) { s.ask("in time", s.soon, "delay-replace", handle) }

// rest has a replica decide all that was asked for, and end.
func (s *sayer) rest() {
	s.t.Helper()
	p := s.start(s.replica())
	s.awaitLive(p, 1)
	eventually(s.t, func() string {
		for _, c := range p.Stats().Partitions {
			if c.Offset < s.end {
				return "a checkpoint that has passed all requests"
			}
		}
		return ""
	})
	p.stop()
	s.first = p.Stats().Cancels
	if !time.Now().Before(s.soon) { // the same comes of it
		s.t.Log("the first replica took until what is pending was due, so the next one has replayed nothing")
	}
}

// did fails unless both replicas together count so many of what names others.
func (s *sayer) did(outcome string, n int64) {
	s.t.Helper()
	if got := s.first[outcome] + s.p.Stats().Cancels[outcome]; got != n {
		s.t.Errorf("%s: %d, want %d", outcome, got, n)
	}
}

// spread fails unless due times lie apart: the watch has compared each with what follows from its place.
func (s *sayer) spread() {
	s.t.Helper()
	dues := map[int64]bool{}
	first, last := int64(1<<62), int64(0)
	for _, r := range s.visible(s.targets[0]) {
		due, _ := strconv.ParseInt(value(r, "delay-due"), 10, 64)
		dues[due], first, last = true, min(first, due), max(last, due)
	}
	soon := s.soon.UnixMilli()
	if len(dues) < 30 || first < soon || last >= soon+2000 || last-first < 1000 {
		s.t.Errorf("%d due times, from %d to %d ms after what was asked for", len(dues), first-soon, last-soon)
	}
	s.did("cancelled", 1)
}

// values are those of the records of a topic, with a header before each unless that is "".
func (s *sayer) values(topic, header string) (all []string) {
	for _, r := range s.visible(topic) {
		v := string(r.Value)
		if header != "" {
			v = value(r, header) + " " + v
		}
		all = append(all, v)
	}
	return all
}

func equalSets(t *testing.T, what string, got, want []string) {
	t.Helper()
	got, want = slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))
	if !slices.Equal(got, want) {
		t.Errorf("%s are %q, want %q", what, got, want)
	}
}

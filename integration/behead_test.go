package integration

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor"
)

// A person deletes the whole log of a delay topic while a replica runs. What the replica holds is delivered, once and in time; what it could not read yet, since it lay behind an
// open transaction, is lost, which is said: the partition stops when nothing is held any more. Who starts the replica anew with accept_loss before that loses nothing else.
func TestLogIsBeheaded(t *testing.T) {
	t.Parallel()
	for name, again := range map[string]bool{"goes on": false, "is started anew": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newTenant(t, shared(t), setting{partitions: 1})
			requests := &delay{t: t, cl: s.client, topic: s.route.Topic, to: s.targets[0]}
			arrivals := s.arrivals()
			p := s.start(s.replica())
			s.awaitLive(p, 1)
			soon, later := time.Now().Add(2*time.Second), time.Now().Add(4*time.Second)
			requests.writeDue(soon, 0, 10)
			requests.writeDue(later, 10, 10)
			s.awaitPending(p, 20)
			s.awaitCheckpoint(20)
			end := s.leaveOpen()
			requests.write(20, 5)
			s.deleteRecords()
			s.awaitSaid(p, "has lost pending records", "what lay from offset 20 on was not read, and is lost", `"ready": true`)
			end()
			if again {
				p.stop()
				p = s.start(s.replica(func(c *replicaConfig) { c.AcceptLoss = true }))
				s.awaitSaid(p, "has lost pending records", `"ready": true`)
			} else {
				s.awaitStoppedBy(p, processor.ErrLogTruncated)
				if len(s.events.from(0, processor.EventStopped)) == 0 {
					t.Error("no event says that the partition is stopped")
				}
				p.stop()
				p = s.start(s.replica(func(c *replicaConfig) { c.AcceptLoss = true }))
				s.awaitLive(p, 1)
			}
			requests.write(25, 5)
			got := arrivals(25)
			for n, came := range got {
				due := map[bool]time.Time{true: soon, false: later}[n < 10]
				if n < 20 && (came.Before(due) || came.Sub(due) > 1500*time.Millisecond) {
					t.Errorf("record %d came %v after it was due", n, came.Sub(due))
				}
				if n >= 20 && n < 25 {
					t.Errorf("record %d was delivered, and was never read", n)
				}
			}
			if len(s.events.from(0, processor.EventCut)) == 0 {
				t.Error("no event says that the log has lost something")
			}
		})
	}
}

// deleteRecords deletes all that is in the delay topic.
func (s *tenant) deleteRecords() {
	s.t.Helper()
	var all kadm.Offsets
	all.AddOffset(s.route.Topic, 0, -1, -1) // up to the high watermark
	got, err := s.admin.DeleteRecords(s.t.Context(), all)
	if err == nil {
		err = got.Error()
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// awaitPending waits until so many records are pending in a processor.
func (s *tenant) awaitPending(p *running, n int64) {
	s.t.Helper()
	eventually(s.t, func() string {
		for _, of := range p.Stats().Partitions {
			if of.Pending == n {
				return ""
			}
		}
		return fmt.Sprintf("%d are not pending: %+v", n, p.Stats().Partitions)
	})
}

// awaitStoppedBy waits until a partition is stopped by an error.
func (s *tenant) awaitStoppedBy(p *running, why error) {
	s.t.Helper()
	eventually(s.t, func() string {
		of := p.Stats().Partitions
		if slices.ContainsFunc(of, func(st processor.PartitionStats) bool {
			return st.Phase == processor.PhaseStopped && strings.Contains(st.Error, why.Error())
		}) {
			return ""
		}
		return fmt.Sprintf("no partition is stopped: %+v", of)
	})
}

// arrivals reads the first target from now on. What it returns waits until so many records have arrived, each with its number as value, and says when each did; one that comes
// again is an error.
func (s *tenant) arrivals() func(n int) map[int]time.Time {
	s.t.Helper()
	cl, err := kgo.NewClient(append(s.opts(), kgo.ConsumeTopics(s.targets[0]), kgo.FetchIsolationLevel(kgo.ReadCommitted()))...)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(cl.Close)
	came, done, enough := map[int]time.Time{}, make(chan struct{}), make(chan int, 1)
	ctx, cancel := context.WithTimeout(s.t.Context(), s.patience)
	go func() {
		defer close(done)
		for n := -1; ctx.Err() == nil && (n < 0 || len(came) < n); {
			select {
			case n = <-enough:
			default:
			}
			soon, end := context.WithTimeout(ctx, 100*time.Millisecond)
			cl.PollFetches(soon).EachRecord(func(r *kgo.Record) {
				number, _ := strconv.Atoi(string(r.Value))
				if _, twice := came[number]; twice {
					s.t.Errorf("record %d was delivered twice", number)
				}
				came[number] = time.Now()
			})
			end()
		}
	}()
	s.t.Cleanup(func() { cancel(); <-done })
	return func(n int) map[int]time.Time {
		s.t.Helper()
		enough <- n
		<-done
		if len(came) < n {
			s.t.Errorf("%d of %d records have arrived", len(came), n)
		}
		return came
	}
}

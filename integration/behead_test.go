package integration

import (
	"context"
	"fmt"
	"path/filepath"
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
			s.deleteRecords(0)
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

// What a log has lost stays with the replica that holds it when another one joins: in its hands the partition would be stopped. When it is delivered, the group shares all out evenly.
func TestBeheadedPartitionStays(t *testing.T) {
	t.Parallel()
	s := newTenant(t, shared(t), setting{partitions: 2})
	arrivals := s.arrivals()
	first := s.start(s.replica(func(c *replicaConfig) { c.Lanes = 1 }))
	s.awaitLive(first, 2)
	cl, err := kgo.NewClient(append(s.opts(), kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	for into := range int32(2) {
		requests := &delay{t: t, cl: cl, topic: s.route.Topic, to: s.targets[0], into: into}
		requests.writeDue(time.Now().Add(30*time.Second), 10*int(into), 10) // that the log is cut is seen within ten
	}
	eventually(t, func() string {
		for _, of := range first.Stats().Partitions {
			if of.Pending != 10 {
				return fmt.Sprintf("%d are pending", of.Pending)
			}
		}
		return ""
	})
	s.deleteRecords(0, 1)
	eventually(t, func() string {
		if n := s.log.count("the log has lost records that this process still holds"); n < 2 {
			return fmt.Sprintf("%d partitions have lost something", n)
		}
		return ""
	})
	second := s.start(s.replica(func(c *replicaConfig) { c.Lanes, c.StateDir = 1, filepath.Join(s.dir, "b") }))
	s.awaitLive(second, 0)
	if n := len(first.Stats().Partitions); n != 2 {
		t.Errorf("it has %d partitions when the other one has joined", n)
	}
	arrivals(20)
	s.awaitLive(second, 1)
	s.awaitLive(first, 1)
	if n := len(s.events.from(0, processor.EventStopped)); n > 0 {
		t.Errorf("%d times a partition is stopped", n)
	}
}

// deleteRecords deletes all that is in some partitions of the delay topic.
func (s *tenant) deleteRecords(partitions ...int32) {
	s.t.Helper()
	var all kadm.Offsets
	for _, p := range partitions {
		all.AddOffset(s.route.Topic, p, -1, -1) // up to the high watermark
	}
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

package restore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/duewheel/duewheel/processor/internal/answers"
	"github.com/duewheel/duewheel/processor/internal/wiretap"
	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/producer"
	"github.com/duewheel/duewheel/state"
)

// brought runs a restore of some partitions to its end and returns what it brings.
func brought(t *testing.T, e *Env, tps ...kafka.TopicPartition) (ps []*Partition, lost error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	s := New(e, &wg)
	s.Start(ctx, stay{}, tps, 0)
	for len(s.m) > 0 {
		select {
		case r := <-s.Restored:
			if r.LostMembership != nil {
				return ps, r.LostMembership
			}
			s.Took(r)
			ps = append(ps, r.Partition)
		case <-ctx.Done():
			t.Fatal("the restore does not end")
		}
	}
	return ps, nil
}

var otherWriter = state.Checkpoint{Writer: "g-other-0", Parsers: []state.ParserEpoch{{Spec: "p1"}}}

// A writer claims a partition on every assignment unless the checkpoint bears its name, before
// its first transaction, and asks for the end of the log after the checkpoint (design rules 2, 9).
func TestRestoreClaims(t *testing.T) {
	mine := otherWriter
	mine.Writer = "g-0@me"
	for _, c := range []struct {
		name  string
		found state.Checkpoint
		want  bool
	}{
		{"nothing committed", state.Checkpoint{Offset: -1}, true},
		{"another's", otherWriter, true},
		{"its own", mine, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			e, w := testCluster(t)
			w.Checkpoints(t, testTopic, c.found, nil)
			for range 2 { // on every assignment
				ps, err := brought(t, e, kafka.TopicPartition{Topic: testTopic, Partition: 0})
				if err != nil || len(ps) != 1 {
					t.Fatalf("%d partitions are brought, %v", len(ps), err)
				}
				seen := w.Take()
				want := []string{"OffsetFetch stable=true", "ListOffsets"}
				if c.want {
					want = append(want, "OffsetCommit")
				}
				equals(t, "requests", slices.Compact(seen), want)
				equal(t, "writer", ps[0].Marks().Committed.Writer, "g-0@me")
				equal(t, "why it is stopped", ps[0].Stopped, nil)
			}
		})
	}
}

// Where the stable fetch is refused for longer than markers may take, the writer that the
// checkpoint names is fenced, with all of its ids; where it is not, none is (design rule 9).
func TestRestoreFences(t *testing.T) {
	for _, c := range []struct {
		name     string
		unstable func(asked time.Duration, fenced bool) bool
		want     bool
	}{
		{"stable", func(time.Duration, bool) bool { return false }, false},
		{"markers on their way", func(asked time.Duration, _ bool) bool { return asked < fencePatience/2 }, false},
		{"an open transaction", func(_ time.Duration, fenced bool) bool { return !fenced }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			e, w := testCluster(t)
			fenced, began := false, time.Now()
			w.Checkpoints(t, testTopic, otherWriter, func() bool { return c.unstable(time.Since(began), fenced) })
			w.Answer(kmsg.InitProducerID, func(req kmsg.Request) (kmsg.Response, error) {
				fenced = fenced || *req.(*kmsg.InitProducerIDRequest).TransactionalID == "g-other-0-1"
				return nil, nil
			})
			ps, err := brought(t, e, kafka.TopicPartition{Topic: testTopic, Partition: 0})
			if err != nil || len(ps) != 1 {
				t.Fatalf("%d partitions are brought, %v", len(ps), err)
			}
			seen := w.Take()
			var want []string
			if c.want {
				for _, id := range producer.IDsOf("g-other-0") {
					want = append(want, "InitProducerID "+id)
				}
			}
			fences := wiretap.Only(seen, "InitProducerID")
			slices.Sort(fences)
			equals(t, "fenced", fences, want)
			if i := slices.Index(seen, "OffsetCommit"); i < 0 || slices.Contains(seen[:i], "OffsetCommit") || len(wiretap.Only(seen[:i], "InitProducerID")) < len(want) {
				t.Errorf("claimed before: %v", seen)
			}
		})
	}
}

// A transaction that neither fencing nor its timeout ends needs a person, who is told what to do;
// when it is gone, the restore goes on by itself.
func TestRestoreTellsOfHangingTransactions(t *testing.T) {
	e, w := testCluster(t)
	var gone atomic.Bool
	w.Checkpoints(t, testTopic, otherWriter, func() bool { return !gone.Load() })
	tp := kafka.TopicPartition{Topic: testTopic, Partition: 0}
	e.Assigned.Remember(e.Lane, tp, nil)
	restored, done := make(chan Restored), make(chan struct{})
	r := &restore{Env: e, to: restored, member: stay{}, began: time.Now().Add(-e.TransactionTimeout - hangsAfter)}
	go func() {
		defer close(done)
		r.run(t.Context(), []kafka.TopicPartition{tp})
	}()
	for why := ""; !strings.Contains(why, ErrHangingTransaction.Error()); {
		why = e.Assigned.All()[0].Reason
	}
	gone.Store(true)
	if got := <-restored; got.Partition == nil || got.TP != tp || !got.Since.Equal(r.began) {
		t.Errorf("brought %+v", got)
	}
	<-done
}

// A claim that is not answered ends the membership: a late copy must find its generation gone.
func TestClaimNotAnswered(t *testing.T) {
	e, w := testCluster(t)
	w.Checkpoints(t, testTopic, otherWriter, nil)
	w.Cut(kmsg.OffsetCommit)
	ps, lost := brought(t, e, kafka.TopicPartition{Topic: testTopic, Partition: 0})
	if !errors.Is(lost, kafka.ErrUnanswered) || len(ps) != 0 {
		t.Errorf("%d partitions are brought, and the membership is lost by %v", len(ps), lost)
	}
	equal(t, "claims sent", len(wiretap.Only(w.Take(), "OffsetCommit")), 1)
}

// A partition that its topic has not got, since that was made anew with fewer, holds up no other; the group is asked to share out what there is.
func TestRestoreOfWhatIsGone(t *testing.T) {
	e, w := testCluster(t)
	w.Checkpoints(t, testTopic, state.Checkpoint{Offset: -1}, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	there, gone := kafka.TopicPartition{Topic: testTopic, Partition: 0}, kafka.TopicPartition{Topic: testTopic, Partition: 99}
	s := New(e, &wg)
	s.Start(ctx, stay{}, []kafka.TopicPartition{there, gone}, 0)
	for asked, brought := false, false; !asked || !brought; {
		select {
		case <-e.Uneven:
			asked = true
		case r := <-s.Restored:
			if brought = r.Partition != nil && r.TP == there; !brought {
				t.Fatalf("%+v is brought", r)
			}
			s.Took(r)
			equal(t, "it goes on for the other one", s.Has(r), true)
		case <-ctx.Done():
			t.Fatalf("asked %v, brought %v", asked, brought)
		}
	}
	for _, p := range e.Assigned.All() {
		if p.Partition == gone.Partition && !strings.Contains(p.Reason, "has fewer partitions") {
			t.Errorf("it says %q", p.Reason)
		}
	}
}

// A claim says what was found, and whose it is now. What the coordinator refuses of one partition alone stops that one, and nothing is known to be pending in it.
func TestClaimSaysWhatWasFound(t *testing.T) {
	e, w := testCluster(t)
	md, err := state.Checkpoint{TopicID: testID.Short(), Offset: 5, LowWater: 2, Writer: "g-other-0"}.Metadata()
	if err != nil {
		t.Fatal(err)
	}
	code := int16(0)
	var sent kmsg.OffsetCommitRequestTopicPartition
	w.Answer(kmsg.OffsetCommit, func(req kmsg.Request) (kmsg.Response, error) {
		sent = req.(*kmsg.OffsetCommitRequest).Topics[0].Partitions[0]
		return answers.Commit(req, code), nil
	})
	r := &restore{Env: e, member: stay{}}
	for _, refusal := range []*kerr.Error{nil, kerr.OffsetMetadataTooLarge} {
		if refusal != nil {
			code = refusal.Code
		}
		ps, err := r.claim(t.Context(), map[kafka.TopicPartition]Found{testTP: {ID: testID, Fetched: kafka.Fetched{Offset: 5, Epoch: 7, Metadata: md}, Bounds: kafka.Bounds{Stable: 9, High: 9}}})
		if err != nil || len(ps) != 1 {
			t.Fatalf("%d partitions are brought, %v", len(ps), err)
		}
		c, err := state.ParseCheckpoint(sent.Offset, sent.LeaderEpoch, *sent.Metadata)
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "O, L, its epoch and its writer", fmt.Sprint(c.Offset, c.LowWater, c.Epoch, c.Writer), fmt.Sprint(5, 2, 7, e.Writer))
		equal(t, "it is opened", ps[0].Partition != nil, refusal == nil)
		equal(t, "it is stopped", errors.Is(ps[0].Stopped, kerr.OffsetMetadataTooLarge), refusal != nil)
	}
}

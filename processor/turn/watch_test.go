package turn

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/pending"
	"github.com/duewheel/duewheel/processor/producer"
	"github.com/duewheel/duewheel/processor/targets"
	"github.com/duewheel/duewheel/topics"
)

// sent is a turn whose records are on their way, one for each topic.
func sent(names ...string) (*Turn, *acks) {
	tn := &Turn{
		Env:      &Env{Quota: &producer.Quota{}, Targets: targets.New(time.Second, time.Second, nil, nil), TurnTimeout: 5 * time.Second, TransactionTimeout: 30 * time.Second},
		Producer: producer.New(producer.Config{}), Renderer: &Renderer{},
	}
	for _, name := range names {
		tn.Targets.Of([]byte(name)).State.Store(&targets.State{Status: targets.Ready, Asked: time.Now()})
		tn.Renderer.Outputs = append(tn.Renderer.Outputs, Output{Record: &kgo.Record{Topic: name}, Item: &pending.Item{}})
	}
	return tn, &acks{left: len(names), done: make(chan struct{}), broke: make(chan struct{})}
}

// A turn waits no longer for what will not come, or not soon: and while a quota keeps it waiting, or all are silent alike, it waits.
func TestHopeless(t *testing.T) {
	for _, c := range []struct {
		name  string
		make  func(tn *Turn, w *acks, watch *watch)
		after time.Duration
		why   string // "": it is waited for
	}{
		{"at once", func(*Turn, *acks, *watch) {}, 0, ""},
		{"refused", func(tn *Turn, w *acks, _ *watch) {
			w.promise(tn.Renderer.Outputs[0].Record, nil)
			w.promise(tn.Renderer.Outputs[1].Record, kerr.NotEnoughReplicas)
		}, 0, "refused"},
		{"refused, and another is waited for", func(tn *Turn, w *acks, _ *watch) { w.promise(tn.Renderer.Outputs[1].Record, kerr.NotEnoughReplicas) }, 0, ""},
		{"in trouble", func(tn *Turn, _ *acks, _ *watch) {
			tn.Targets.Of([]byte("bills")).State.Store(&targets.State{Status: targets.Troubled, Why: "no leader", Asked: time.Now()})
		}, slow, "no leader"},
		{"in trouble for a moment", func(tn *Turn, _ *acks, _ *watch) {
			tn.Targets.Of([]byte("bills")).State.Store(&targets.State{Status: targets.Troubled, Why: "no leader", Asked: time.Now()})
		}, slow - time.Millisecond, ""},
		{"answered in vain", func(_ *Turn, _ *acks, watch *watch) { watch.answers = -inVain }, slow, "answered and not acknowledged"},
		{"answered not as often", func(_ *Turn, _ *acks, watch *watch) { watch.answers = 1 - inVain }, slow, ""},
		{"silent beside another", func(tn *Turn, w *acks, _ *watch) { w.promise(tn.Renderer.Outputs[0].Record, nil) }, silence, "nothing acknowledged for 1s"},
		{"silent beside another for a moment", func(tn *Turn, w *acks, _ *watch) { w.promise(tn.Renderer.Outputs[0].Record, nil) }, silence - time.Millisecond, ""},
		{"all are silent", func(*Turn, *acks, *watch) {}, 5*time.Second - time.Millisecond, ""},
		{"all are silent for the time of a turn", func(*Turn, *acks, *watch) {}, 5 * time.Second, "nothing acknowledged for 5s"},
		{"silent under a quota", func(tn *Turn, w *acks, _ *watch) {
			w.promise(tn.Renderer.Outputs[0].Record, nil)
			tn.Quota.OnBrokerThrottle(kgo.BrokerMetadata{}, time.Second, true)
		}, silence, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tn, w := sent("orders", "bills")
				watch := tn.watch(w)
				defer watch.stop()
				c.make(tn, w, watch)
				answers := watch.answers
				watch.look() // which takes in what has moved
				watch.answers = answers
				time.Sleep(c.after)
				err := watch.hopeless()
				if (err == nil) != (c.why == "") || err != nil && !strings.Contains(err.Error(), c.why) {
					t.Errorf("%v, want %q", err, c.why)
				}
			})
		})
	}
}

// What a client says of records that it gives up for another error is no reason: not of their topic, and not of the turn.
func TestFirstErrorCounts(t *testing.T) {
	for range 20 { // maps have no order
		tn, w := sent("orders", "bills", "bills")
		w.promise(tn.Renderer.Outputs[0].Record, kgo.ErrClientClosed)
		w.promise(tn.Renderer.Outputs[1].Record, kgo.ErrClientClosed)
		w.promise(tn.Renderer.Outputs[2].Record, kerr.NotEnoughReplicas)
		if err := tn.failure(w); !errors.Is(err, kerr.NotEnoughReplicas) || tn.Blamed["bills"] == nil || len(tn.Blamed) != 1 {
			t.Fatalf("%v, and blamed are %v", err, tn.Blamed)
		}
	}
}

// Silence is blamed on a target, unless a quota keeps its records waiting, or they were not sent: those of a later stage wait for others.
func TestSilenceIsBlamed(t *testing.T) {
	for name, c := range map[string]struct {
		make func(tn *Turn, w *acks)
		want error
	}{
		"silent":        {func(*Turn, *acks) {}, kafka.ErrUnanswered},
		"under a quota": {func(tn *Turn, _ *acks) { tn.Quota.OnBrokerThrottle(kgo.BrokerMetadata{}, time.Second, true) }, nil},
		"not sent": {func(tn *Turn, _ *acks) {
			o := &tn.Renderer.Outputs[0]
			o.Kind, o.Of, o.Event = OutAudit, &kgo.Record{}, topics.AuditDelivered
		}, nil},
		"sent in a later stage": {func(tn *Turn, w *acks) {
			o := &tn.Renderer.Outputs[0]
			o.Kind, o.Of, o.Event = OutAudit, &kgo.Record{}, topics.AuditDelivered
			w.sends(stageAudit, []rounds{nil, {{{rec: o.Record}}}, nil})
		}, kafka.ErrUnanswered},
	} {
		tn, w := sent("orders")
		c.make(tn, w)
		tn.failure(w)
		equal(t, name, tn.Blamed["orders"], c.want)
	}
}

// When a record has failed nothing of the later stages is sent, nor waited for.
func TestFailureEndsAllStages(t *testing.T) {
	_, w := sent("orders", "audit", "requests", "requests")
	w.promise(&kgo.Record{Topic: "orders"}, kerr.NotEnoughReplicas)
	f := follower{rec: &kgo.Record{}}
	equal(t, "it goes on", w.sends(stageAudit, []rounds{nil, {{f}}, {{f}, {f}}}), false)
	select {
	case <-w.done:
	default:
		t.Errorf("%d records are waited for", w.left)
	}
}

// A partition of the target's number is no more than the target has, whether its producer or the route's partitioner has chosen it.
func TestPartitionsBeginAtZero(t *testing.T) {
	st := &targets.State{Status: targets.Ready, Partitions: 4}
	for _, c := range []struct {
		asked, source int32
		by            topics.Partitioner
		denied        bool
	}{
		{3, 0, topics.PartitionerMurmur2, false}, {4, 0, topics.PartitionerMurmur2, true}, {-1, 3, topics.PartitionerSource, false}, {-1, 4, topics.PartitionerSource, true}, {0, 9, topics.PartitionerSource, false}, {-1, 9, topics.PartitionerMurmur2, false},
	} {
		refusal := deniedBy(&targets.Target{Name: "orders"}, st, &topics.Request{Partition: c.asked}, &topics.Route{Partitioner: c.by}, c.source)
		if (refusal != nil) != c.denied || refusal != nil && refusal.Code != topics.CodeInvalidPartition {
			t.Errorf("%+v: %v", c, refusal)
		}
	}
}

// What is carried on for a target that may not exist waits for the verdict, and not for as long as for one in trouble.
func TestPauseUntilTheVerdict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &Env{RetryBackoff: 10 * time.Second, RetryBackoffMax: time.Hour}
		r := &Renderer{Env: e, state: &targets.State{Status: targets.Troubled}}
		for _, c := range []struct {
			denied  targets.Status
			verdict time.Duration
			most    time.Duration
		}{{0, 20 * time.Second, time.Hour}, {targets.Missing, 20 * time.Second, 20*time.Second + 2*targets.RefreshQuick}, {targets.Missing, -time.Second, e.RetryBackoff}} {
			r.state.Denied, r.state.Verdict = c.denied, time.Now().Add(c.verdict)
			if pause := r.pause(7, 60); pause > c.most+c.most/5 || pause < c.most/2 {
				t.Errorf("%+v: it waits for %v", c, pause)
			}
		}
	})
}

// A record that is refused for its size is too large, and no other.
func TestCodeOfWhatWasRefused(t *testing.T) {
	for err, want := range map[error]topics.Code{kerr.MessageTooLarge: topics.CodeTooLarge, kerr.RecordListTooLarge: topics.CodeTooLarge, kerr.InvalidRecord: topics.CodeRejected} {
		equal(t, err.Error(), refusalOf([]byte("orders"), err).Code, want)
	}
}

// The client counts what stands before a batch: what fits without that and not with it has a client with other bounds.
func TestRoomForTheBatchPrefix(t *testing.T) {
	for size, want := range map[int]int32{1000 - kafka.BatchPrefix: 1000, 1001 - kafka.BatchPrefix: kafka.LargestBatch} {
		tn, _ := sent("orders")
		tn.Producer = producer.New(producer.Config{Bounds: producer.NewBounds(func(string) int32 { return 1000 })})
		tn.Renderer.Outputs[0].Size = size
		if err := tn.makeRoom(t.Context()); err != nil {
			t.Fatal(err)
		}
		equal(t, "the bound of its batches", tn.Producer.Bounds().Least("orders"), want)
		tn.Producer.Close()
	}
}

// What was carried is counted as it was rendered last: a turn that is given up renders it again.
func TestCopiesAreCountedOnce(t *testing.T) {
	tn, _ := sent("requests")
	tn.Targets.Of([]byte("requests")).State.Store(&targets.State{Status: targets.Ready, Partitions: 4, Takes: targets.Limits{MaxBytes: kafka.DefaultMaxBytes}})
	r := &Renderer{Env: tn.Env}
	pt := &Part{TP: kafka.TopicPartition{Topic: "requests", Partition: 3}}
	cs := &Copies{List: []Original{{From: &kgo.Record{Value: []byte("v")}}}}
	for range 2 {
		if err := cs.render(t.Context(), r, pt); err != nil {
			t.Fatal(err)
		}
		equal(t, "copies", cs.Done.Copies, 1)
		equal(t, "bytes", cs.Done.Bytes, int64(r.Outputs[0].Size))
	}
}

package processor

import (
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func testTargets(after time.Duration) *targets {
	return newTargets(&Config{UnknownTargetAfter: after, RetryBackoff: time.Second, Logger: slog.New(slog.DiscardHandler)})
}

// A target is missing only when brokers have answered so for some time without a break; every
// other trouble is the cluster's, and dead-letters nothing.
func TestTargetStatus(t *testing.T) {
	unknown := kadm.TopicDetail{Topic: "orders", Err: kerr.UnknownTopicOrPartition}
	denied := kadm.TopicDetail{Topic: "orders", Err: kerr.TopicAuthorizationFailed}
	leaderless := kadm.TopicDetail{Topic: "orders", Partitions: kadm.PartitionDetails{0: {Leader: 1}, 1: {Leader: -1}}}
	failing := kadm.TopicDetail{Topic: "orders", Partitions: kadm.PartitionDetails{0: {Leader: 1, Err: kerr.LeaderNotAvailable}}}
	well := kadm.TopicDetail{Topic: "orders", Partitions: kadm.PartitionDetails{0: {Leader: 1}, 1: {Leader: 2, Err: kerr.ReplicaNotAvailable}}}
	type step struct {
		after  time.Duration
		answer kadm.TopicDetail
		want   targetStatus
	}
	for _, c := range []struct {
		name  string
		steps []step
	}{
		{"it is there", []step{{0, well, targetReady}}},
		{"missing after consistent answers", []step{{0, unknown, targetTroubled}, {4 * time.Second, unknown, targetTroubled}, {time.Second, unknown, targetMissing}}},
		{"seen in between", []step{{0, unknown, targetTroubled}, {4 * time.Second, well, targetReady}, {4 * time.Second, unknown, targetTroubled}}},
		{"another error in between", []step{{0, unknown, targetTroubled}, {4 * time.Second, denied, targetTroubled}, {4 * time.Second, unknown, targetTroubled}}},
		{"made after all", []step{{0, unknown, targetTroubled}, {6 * time.Second, unknown, targetMissing}, {time.Second, well, targetReady}}},
		{"no leader for long", []step{{0, leaderless, targetTroubled}, {time.Hour, leaderless, targetTroubled}, {time.Second, well, targetReady}}},
		{"a partition that fails", []step{{0, failing, targetTroubled}, {time.Hour, failing, targetTroubled}}},
		{"forbidden for long", []step{{0, denied, targetTroubled}, {time.Hour, denied, targetTroubled}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ts, st := testTargets(5*time.Second), unknownTarget
				for i, s := range c.steps {
					time.Sleep(s.after)
					if st = ts.look(t.Context(), nil, st, s.answer); st.status != s.want {
						t.Errorf("step %d: %v (%s), want %v", i, st.status, st.why, s.want)
					}
				}
			})
		})
	}
}

// One turn that fails may be an accident. After the second in a row records are carried on, until
// the target is well; a delivery in between is one.
func TestTargetFailures(t *testing.T) {
	ts := testTargets(time.Second)
	o := ts.of([]byte("orders"))
	o.state.Store(&targetState{status: targetReady})
	ts.failed("orders", kerr.NotLeaderForPartition)
	equal(t, "status after one failure", o.state.Load().status, targetReady)
	o.succeeded()
	ts.failed("orders", kerr.NotLeaderForPartition)
	equal(t, "status after one more", o.state.Load().status, targetReady)
	ts.failed("orders", errors.New("again"))
	equal(t, "status after two in a row", o.state.Load().status, targetTroubled)
	equal(t, "why", o.state.Load().why, "again")
	if !o.state.Load().probeAt.After(time.Now()) {
		t.Error("it is looked at again at once")
	}
	o.succeeded() // a turn that began before
	equal(t, "status", o.state.Load().status, targetTroubled)
}

// Against a broker: what a topic takes is known, one without a leader is in trouble and comes
// back, one that is deleted is missing after some time, and a broker that does not answer
// changes nothing.
func TestTargetsOfACluster(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(3, "orders"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.RequestRetries(0), kgo.MetadataMinAge(10*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	adm := kadm.NewClient(cl)
	if _, err := adm.CreateTopic(t.Context(), 1, 1, map[string]*string{"max.message.bytes": kmsg.StringPtr("5000"), "cleanup.policy": kmsg.StringPtr("compact")}, "small"); err != nil {
		t.Fatal(err)
	}
	var leaderless, silent atomic.Bool
	c.ControlKey(int16(kmsg.Metadata), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		if silent.Load() {
			return nil, errors.New("silent"), true
		}
		if !leaderless.Load() {
			return nil, nil, false
		}
		resp := kreq.ResponseKind().(*kmsg.MetadataResponse)
		for _, name := range []string{"orders", "small"} {
			topic := kmsg.NewMetadataResponseTopic()
			topic.Topic = kmsg.StringPtr(name)
			p := kmsg.NewMetadataResponseTopicPartition()
			p.Leader, p.ErrorCode = -1, kerr.LeaderNotAvailable.Code
			topic.Partitions = append(topic.Partitions, p)
			resp.Topics = append(resp.Topics, topic)
		}
		return resp, nil, true
	})
	ts := testTargets(20 * time.Millisecond)
	orders, small := ts.of([]byte("orders")), ts.of([]byte("small"))
	look := func(want targetStatus) { // until then; metadata is cached for 10 ms
		t.Helper()
		for began := time.Now(); ; {
			ts.refresh(t.Context(), adm, []*target{orders, small})
			st := orders.state.Load()
			if st.status == want {
				return
			}
			if time.Since(began) > 5*time.Second {
				t.Fatalf("orders are %v (%s), want %v", st.status, st.why, want)
			}
		}
	}
	equal(t, "status before the first look", orders.state.Load().status, targetUnknown)
	look(targetReady)
	equal(t, "partitions", orders.state.Load().partitions, 3)
	if st := small.state.Load(); st.status != targetReady || st.maxBytes != 5000 || !st.compacted {
		t.Errorf("small is %+v", st)
	}
	equal(t, "largest batch", ts.maxBatchBytes("small"), 5000)
	leaderless.Store(true)
	look(targetTroubled)
	for began := time.Now(); time.Since(began) < 50*time.Millisecond; { // longer than it takes to be missing
		look(targetTroubled)
	}
	silent.Store(true)
	ts.refresh(t.Context(), adm, []*target{orders})
	equal(t, "status while no broker answers", orders.state.Load().status, targetTroubled)
	silent.Store(false)
	leaderless.Store(false)
	look(targetReady)
	if err := c.DeleteTopic("orders"); err != nil {
		t.Fatal(err)
	}
	look(targetTroubled)
	look(targetMissing)
	if err := c.CreateTopic("orders", 1, nil); err != nil {
		t.Fatal(err)
	}
	look(targetReady)
	equal(t, "partitions", orders.state.Load().partitions, 1)
}

// A turn waits a moment for the first look at a target, and not for ever.
func TestTargetAwait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := testTargets(time.Second)
		o := ts.of([]byte("orders"))
		began := time.Now()
		equal(t, "status", ts.await(t.Context(), o, lookupWait).status, targetUnknown)
		if waited := time.Since(began); waited < lookupWait || waited > 2*lookupWait {
			t.Errorf("it waited %v", waited)
		}
		go func() {
			time.Sleep(lookupWait / 2)
			o.state.Store(&targetState{status: targetReady})
		}()
		equal(t, "status", ts.await(t.Context(), o, lookupWait).status, targetReady)
	})
}

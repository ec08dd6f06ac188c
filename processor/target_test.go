package processor

import (
	"errors"
	"log/slog"
	"maps"
	"slices"
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
	return newTargets(after, 10*after, slog.New(slog.DiscardHandler))
}

// wellTopic is what brokers say of a topic with nothing wrong.
func wellTopic() kadm.TopicDetail {
	return kadm.TopicDetail{Topic: "orders", Partitions: kadm.PartitionDetails{
		0: {Leader: 1, Replicas: []int32{1, 2, 3}, ISR: []int32{1, 2}}, 1: {Leader: 2, Replicas: []int32{2}, ISR: []int32{2}, Err: kerr.ReplicaNotAvailable},
	}}
}

// A target is missing or forbidden only when brokers have answered so for some time without a
// break; every other trouble is the cluster's, and dead-letters nothing.
func TestTargetStatus(t *testing.T) {
	unknown := kadm.TopicDetail{Topic: "orders", Err: kerr.UnknownTopicOrPartition}
	denied := kadm.TopicDetail{Topic: "orders", Err: kerr.TopicAuthorizationFailed}
	leaderless := kadm.TopicDetail{Topic: "orders", Partitions: kadm.PartitionDetails{0: {Leader: 1}, 1: {Leader: -1}}}
	failing := kadm.TopicDetail{Topic: "orders", Partitions: kadm.PartitionDetails{0: {Leader: 1, Err: kerr.LeaderNotAvailable}}}
	well, below, readOnly := wellTopic(), wellTopic(), wellTopic()
	below.Partitions[0] = kadm.PartitionDetail{Leader: 1, Replicas: []int32{1, 2, 3}, ISR: []int32{1}}
	readOnly.AuthorizedOperations = []kadm.ACLOperation{kmsg.ACLOperationDescribe, kmsg.ACLOperationRead}
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
		{"too few replicas in sync", []step{{0, well, targetReady}, {time.Second, below, targetTroubled}, {time.Hour, below, targetTroubled}, {time.Second, well, targetReady}}},
		{"forbidden for long", []step{{0, denied, targetTroubled}, {49 * time.Second, denied, targetTroubled}, {time.Second, denied, targetForbidden}, {time.Hour, well, targetReady}}},
		{"only reading is allowed", []step{{0, readOnly, targetTroubled}, {50 * time.Second, readOnly, targetForbidden}}},
		{"allowed in between", []step{{0, denied, targetTroubled}, {40 * time.Second, well, targetReady}, {time.Second, denied, targetTroubled}, {40 * time.Second, denied, targetTroubled}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ts, st := testTargets(5*time.Second), unknownTarget
				for i, s := range c.steps {
					time.Sleep(s.after)
					if st = ts.look(st, s.answer, topicLimits{minISR: 2}, time.Now()); st.status != s.want {
						t.Errorf("step %d: %v (%s), want %v", i, st.status, st.why, s.want)
					}
				}
			})
		})
	}
}

// A target that has made a turn fail is not well because it looks well: it is left alone for a
// while, longer each time, and then tried. What metadata shows to be wrong needs no such pause.
func TestTargetOnTrial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := testTargets(5 * time.Second)
		o := ts.of([]byte("orders"))
		look := func(d kadm.TopicDetail) *targetState {
			st := ts.look(o.state.Load(), d, defaultLimits, time.Now())
			o.state.Store(st)
			return st
		}
		leaderless := kadm.TopicDetail{Topic: "orders", Partitions: kadm.PartitionDetails{0: {Leader: -1}}}
		try := func() {
			n := *o.state.Load()
			n.status = targetOnTrial // as when its leaders have answered
			o.state.Store(&n)
		}
		look(wellTopic())
		var pauses []time.Duration
		for range 9 {
			ts.failed("orders", kerr.NotEnoughReplicas, nil)
			ts.failed("orders", kerr.NotEnoughReplicas, nil) // another turn that began before
			began := time.Now()
			for !look(wellTopic()).toTry(time.Now()) {
				equal(t, "status", o.state.Load().status, targetTroubled)
				if time.Since(began) > time.Minute {
					t.Fatal("it is not tried")
				}
				time.Sleep(time.Second)
			}
			pauses = append(pauses, time.Since(began))
			try()
		}
		s := time.Second
		equals(t, "pauses", pauses, []time.Duration{s, 2 * s, 4 * s, 8 * s, 16 * s, 30 * s, 30 * s, 30 * s, 40 * s})
		equal(t, "status when it looks well on trial", look(wellTopic()).status, targetOnTrial)
		o.passed()
		equal(t, "status when it has passed", look(wellTopic()).status, targetReady)
		o.succeeded()
		ts.failed("orders", kerr.NotEnoughReplicas, nil)
		equal(t, "failures when it fails again at once", o.state.Load().failures, 10)
		equal(t, "to be tried although a partition has no leader", look(leaderless).toTry(time.Now().Add(time.Hour)), false)
		equal(t, "to be tried as soon as it has", look(wellTopic()).toTry(time.Now()), true)
		try()
		o.passed()
		time.Sleep(time.Hour)
		o.succeeded()
		equal(t, "failures when it has been well for long", o.state.Load().failures, 0)
	})
}

// The longer a target on trial may keep others waiting, the more rarely it is tried.
func TestTryPause(t *testing.T) {
	for failures := range 40 {
		if pause, patience := tryPause(failures), tryPatienceAfter(failures); pause < 100*patience && failures > 4 || pause > 10*time.Minute {
			t.Errorf("after %d failures it is tried every %v for %v", failures, pause, patience)
		}
	}
	equal(t, "the longest patience", tryPatienceAfter(1000), 3200*time.Millisecond)
}

// A target that its leaders forbid is forbidden at last, however well metadata calls it, and is
// still tried.
func TestTargetForbiddenByLeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := testTargets(time.Second)
		o := ts.of([]byte("orders"))
		o.state.Store(ts.look(unknownTarget, wellTopic(), defaultLimits, time.Now()))
		for range 5 {
			ts.failed("orders", kerr.TopicAuthorizationFailed, nil)
			time.Sleep(3 * time.Second)
			n := ts.look(o.state.Load(), wellTopic(), defaultLimits, time.Now())
			n.status = targetOnTrial
			o.state.Store(n)
		}
		ts.failed("orders", kerr.TopicAuthorizationFailed, nil)
		st := ts.look(o.state.Load(), wellTopic(), defaultLimits, time.Now())
		equal(t, "status", st.status, targetForbidden)
		equal(t, "to be tried", st.toTry(time.Now().Add(time.Minute)), true)
	})
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
			ts.refresh(t.Context(), cl, []*target{orders, small})
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
	if st := small.state.Load(); st.status != targetReady || st.takes.maxBytes != 5000 || !st.takes.compacted {
		t.Errorf("small is %+v", st)
	}
	equal(t, "largest batch", ts.maxBatchBytes("small"), 5000)
	leaderless.Store(true)
	look(targetTroubled)
	for began := time.Now(); time.Since(began) < 50*time.Millisecond; { // longer than it takes to be missing
		look(targetTroubled)
	}
	silent.Store(true)
	ts.refresh(t.Context(), cl, []*target{orders})
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

// Producers may invent names of targets without end: those that nobody asks for any more are
// forgotten, unless the configuration names them or something was delivered to them.
func TestIdleTargetsAreForgotten(t *testing.T) {
	ts := testTargets(time.Second)
	ts.keep("requests.dead", true)
	for _, name := range []string{"invented", "used", "delivered"} {
		ts.of([]byte(name))
	}
	ts.of([]byte("delivered")).stats.delivered.Add(1)
	for range targetIdle + 1 {
		ts.of([]byte("used"))
		ts.forgetIdle(slices.Collect(maps.Values(ts.m)))
	}
	equals(t, "targets", slices.Sorted(maps.Keys(ts.m)), []string{"delivered", "requests.dead", "used"})
}

package targets

import (
	"bytes"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/duewheel/duewheel/processor/kafka"
)

func testTable(after time.Duration) *Table {
	return New(after, 10*after, unseen, slog.New(slog.DiscardHandler))
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
		want   Status
	}
	for _, c := range []struct {
		name  string
		steps []step
	}{
		{"it is there", []step{{0, well, Ready}}},
		{"missing after consistent answers", []step{{0, unknown, Troubled}, {4 * time.Second, unknown, Troubled}, {time.Second, unknown, Missing}}},
		{"seen in between", []step{{0, unknown, Troubled}, {4 * time.Second, well, Ready}, {4 * time.Second, unknown, Troubled}}},
		{"another error in between", []step{{0, unknown, Troubled}, {4 * time.Second, denied, Troubled}, {4 * time.Second, unknown, Troubled}}},
		{"made after all", []step{{0, unknown, Troubled}, {6 * time.Second, unknown, Missing}, {time.Second, well, Ready}}},
		{"no leader for long", []step{{0, leaderless, Troubled}, {time.Hour, leaderless, Troubled}, {time.Second, well, Ready}}},
		{"a partition that fails", []step{{0, failing, Troubled}, {time.Hour, failing, Troubled}}},
		{"too few replicas in sync", []step{{0, well, Ready}, {time.Second, below, Troubled}, {time.Hour, below, Troubled}, {time.Second, well, Ready}}},
		{"forbidden for long", []step{{0, denied, Troubled}, {49 * time.Second, denied, Troubled}, {time.Second, denied, Forbidden}, {time.Hour, well, Ready}}},
		{"only reading is allowed", []step{{0, readOnly, Troubled}, {50 * time.Second, readOnly, Forbidden}}},
		{"allowed in between", []step{{0, denied, Troubled}, {40 * time.Second, well, Ready}, {time.Second, denied, Troubled}, {40 * time.Second, denied, Troubled}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ts, st := testTable(5*time.Second), notLooked
				for i, s := range c.steps {
					time.Sleep(s.after)
					if st = ts.look(st, s.answer, Limits{minISR: 2}, time.Now()); st.Status != s.want {
						t.Errorf("step %d: %v (%s), want %v", i, st.Status, st.Why, s.want)
					}
				}
			})
		})
	}
}

// Where a partition of a topic has no leader, the others take records; what is refused by any other answer concerns all of them.
func TestAgainstAPartition(t *testing.T) {
	leaderless, readOnly := wellTopic(), wellTopic()
	leaderless.Partitions[1] = kadm.PartitionDetail{Leader: -1}
	readOnly.AuthorizedOperations = []kadm.ACLOperation{kmsg.ACLOperationDescribe, kmsg.ACLOperationRead}
	const noLeader, forbidden = "a partition has no leader", "writing to it is forbidden (TOPIC_AUTHORIZATION_FAILED)"
	for _, test := range []struct {
		name   string
		answer kadm.TopicDetail
		fails  error
		want   [2]string // of partitions 0 and 1
	}{
		{"not looked up", kadm.TopicDetail{}, nil, [2]string{}},
		{"well", wellTopic(), nil, [2]string{}},
		{"without a leader of partition 1", leaderless, nil, [2]string{"", noLeader}},
		{"read only", readOnly, nil, [2]string{forbidden, forbidden}},
		{"not to be described", kadm.TopicDetail{Err: kerr.LeaderNotAvailable}, nil, [2]string{kerr.LeaderNotAvailable.Error(), kerr.LeaderNotAvailable.Error()}},
		{"refusing", wellTopic(), kerr.InvalidRecord, [2]string{kerr.InvalidRecord.Error(), kerr.InvalidRecord.Error()}},
	} {
		ts := testTable(time.Second)
		o := ts.Of([]byte("orders"))
		if test.name != "not looked up" {
			o.State.Store(ts.look(notLooked, test.answer, defaultLimits, time.Now()))
		}
		if test.fails != nil {
			ts.Failed("orders", test.fails, nil)
		}
		st := o.State.Load()
		equal(t, test.name, [2]string{st.Against(0), st.Against(1)}, test.want)
	}
}

// A topic that nothing gets past takes what goes to a partition while another one has no leader, until a turn has failed of it for another
// reason: one that was written to although metadata is well of it might fail each time.
func TestTakesForAPartition(t *testing.T) {
	leaderless := wellTopic()
	leaderless.Partitions[1] = kadm.PartitionDetail{Leader: -1}
	ts := testTable(time.Second)
	ts.Keep("delays", true)
	o := ts.Of([]byte("delays"))
	takes := func() [2]bool { st := o.State.Load(); return [2]bool{st.TakesFor(0), st.TakesFor(1)} }
	equal(t, "takes, not looked up", takes(), [2]bool{})
	o.State.Store(ts.look(notLooked, leaderless, defaultLimits, time.Now()))
	equal(t, "takes", takes(), [2]bool{true, false})
	ts.Failed("delays", kerr.RequestTimedOut, nil)
	equal(t, "takes when a turn has failed", takes(), [2]bool{})
	o.State.Store(ts.look(o.State.Load(), leaderless, defaultLimits, time.Now()))
	equal(t, "takes when it is looked at again", takes(), [2]bool{})
}

// So it does when turns have failed because they went to the partition that has no leader: but for a few alone, and for nothing else.
func TestTakesForAPartitionBesideALost(t *testing.T) {
	leaderless := wellTopic()
	leaderless.Partitions[1] = kadm.PartitionDetail{Leader: -1}
	for _, test := range []struct {
		name  string
		fails []error
		want  bool
	}{
		{"once", []error{kerr.LeaderNotAvailable}, true},
		{"at each of its leaders", []error{kafka.ErrUnanswered, kerr.NotLeaderForPartition, kerr.LeaderNotAvailable}, true},
		{"for something else as well", []error{kerr.RequestTimedOut, kerr.LeaderNotAvailable}, false},
		{"and then for something else", []error{kerr.LeaderNotAvailable, kerr.RequestTimedOut}, false},
		{"again and again", slices.Repeat([]error{kerr.LeaderNotAvailable}, unledMost+1), false},
	} {
		ts := testTable(time.Second)
		ts.Keep("delays", true)
		o := ts.Of([]byte("delays"))
		o.State.Store(ts.look(notLooked, wellTopic(), defaultLimits, time.Now()))
		for _, err := range test.fails {
			ts.Failed("delays", err, nil)
			o.State.Store(ts.look(o.State.Load(), leaderless, defaultLimits, time.Now()))
		}
		st := o.State.Load()
		equal(t, test.name, [2]bool{st.TakesFor(0), st.TakesFor(1)}, [2]bool{test.want, false})
	}
}

// What is wrong with a target is said when it is found, and not by each trial that finds the same.
func TestTroubleIsToldOnce(t *testing.T) {
	var log bytes.Buffer
	ts := New(time.Second, time.Second, unseen, slog.New(slog.NewTextHandler(&log, nil)))
	o := ts.Of([]byte("orders"))
	for i, test := range []struct {
		fails error
		ago   time.Duration // that it was told before
		tells bool
	}{
		{kerr.InvalidRecord, 0, true}, {kerr.InvalidRecord, 0, false}, {kerr.NotLeaderForPartition, 0, true}, {kerr.NotLeaderForPartition, 0, false},
		{kerr.NotLeaderForPartition, tellAgain, true}, {kerr.NotLeaderForPartition, tellAgain - time.Second, false},
	} {
		again := *o.State.Load()
		again.Status, again.told.at = OnTrial, again.told.at.Add(-test.ago)
		o.State.Store(&again)
		log.Reset()
		ts.Failed("orders", test.fails, nil)
		if told := strings.Contains(log.String(), "target is in trouble"); told != test.tells {
			t.Errorf("failure %d, %v: told %v, want %v", i, test.fails, told, test.tells)
		}
	}
}

// What metadata shows to be wrong is said like what a turn has met, once; of names that nothing has, and when it is well again, it is not.
func TestTroubleThatMetadataShowsIsTold(t *testing.T) {
	var log bytes.Buffer
	ts := New(time.Second, time.Second, unseen, slog.New(slog.NewTextHandler(&log, nil)))
	o := ts.Of([]byte("orders"))
	leaderless := kadm.TopicDetail{Topic: "orders", Partitions: kadm.PartitionDetails{0: {Leader: -1}}}
	forbidden := kadm.TopicDetail{Topic: "orders", Err: kerr.TopicAuthorizationFailed}
	for i, test := range []struct {
		shows kadm.TopicDetail
		tells bool
	}{
		{wellTopic(), false}, {leaderless, true}, {leaderless, false}, {wellTopic(), false}, {leaderless, false}, {wellTopic(), false}, {forbidden, true},
		{wellTopic(), false}, {kadm.TopicDetail{Topic: "orders", Err: kerr.UnknownTopicOrPartition}, false},
	} {
		log.Reset()
		old := o.State.Load()
		ts.replace(o, old, ts.look(old, test.shows, defaultLimits, time.Now()))
		if told := strings.Contains(log.String(), "level=WARN msg=\"target is in trouble"); told != test.tells {
			t.Errorf("look %d: told %v, want %v: %s", i, told, test.tells, log.String())
		}
	}
}

// A target that has made a turn fail is not well because it looks well: it is left alone for a
// while, longer each time, and then tried. What metadata shows to be wrong needs no such pause.
func TestTargetOnTrial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := testTable(5 * time.Second)
		o := ts.Of([]byte("orders"))
		look := func(d kadm.TopicDetail) *State {
			st := ts.look(o.State.Load(), d, defaultLimits, time.Now())
			o.State.Store(st)
			return st
		}
		leaderless := kadm.TopicDetail{Topic: "orders", Partitions: kadm.PartitionDetails{0: {Leader: -1}}}
		try := func() {
			n := *o.State.Load()
			n.Status = OnTrial // as when its leaders have answered
			o.State.Store(&n)
		}
		look(wellTopic())
		var pauses []time.Duration
		for range 9 {
			ts.Failed("orders", kerr.NotEnoughReplicas, nil)
			ts.Failed("orders", kerr.NotEnoughReplicas, nil) // another turn that began before
			began := time.Now()
			for !look(wellTopic()).toTry(time.Now()) {
				equal(t, "status", o.State.Load().Status, Troubled)
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
		equal(t, "status when it looks well on trial", look(wellTopic()).Status, OnTrial)
		o.Passed()
		equal(t, "status when it has passed", look(wellTopic()).Status, Ready)
		o.Succeeded()
		ts.Failed("orders", kerr.NotEnoughReplicas, nil)
		equal(t, "failures when it fails again at once", o.State.Load().Failures, 10)
		equal(t, "to be tried although a partition has no leader", look(leaderless).toTry(time.Now().Add(time.Hour)), false)
		equal(t, "to be tried as soon as it has", look(wellTopic()).toTry(time.Now()), true)
		try()
		o.Passed()
		time.Sleep(time.Hour)
		o.Succeeded()
		equal(t, "failures when it has been well for long", o.State.Load().Failures, 0)
	})
}

// The longer a target on trial may keep others waiting, the more rarely it is tried.
func TestTryPause(t *testing.T) {
	for failures := range 40 {
		if pause, patience := pauseAfter(failures), PatienceAfter(failures); pause < 100*patience && failures > 4 || pause > 10*time.Minute {
			t.Errorf("after %d failures it is tried every %v for %v", failures, pause, patience)
		}
	}
	equal(t, "the longest patience", PatienceAfter(1000), 3200*time.Millisecond)
}

// A target that its leaders forbid is forbidden at last, however well metadata calls it, and is
// still tried.
func TestTargetForbiddenByLeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := testTable(time.Second)
		o := ts.Of([]byte("orders"))
		o.State.Store(ts.look(notLooked, wellTopic(), defaultLimits, time.Now()))
		for range 5 {
			ts.Failed("orders", kerr.TopicAuthorizationFailed, nil)
			time.Sleep(3 * time.Second)
			n := ts.look(o.State.Load(), wellTopic(), defaultLimits, time.Now())
			n.Status = OnTrial
			o.State.Store(n)
		}
		ts.Failed("orders", kerr.TopicAuthorizationFailed, nil)
		st := ts.look(o.State.Load(), wellTopic(), defaultLimits, time.Now())
		equal(t, "status", st.Status, Forbidden)
		equal(t, "to be tried", st.toTry(time.Now().Add(time.Minute)), true)
	})
}

// testCluster is a broker with a topic of three partitions, and a client.
func testCluster(t *testing.T) (*kfake.Cluster, *kgo.Client) {
	t.Helper()
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
	return c, cl
}

// Against a broker: what a topic takes is known, one without a leader is in trouble and comes
// back, one that is deleted is missing after some time, and a broker that does not answer
// changes nothing.
func TestTargetsOfACluster(t *testing.T) {
	c, cl := testCluster(t)
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
	ts := testTable(20 * time.Millisecond)
	orders, small := ts.Of([]byte("orders")), ts.Of([]byte("small"))
	look := func(want Status) { // until then; metadata is cached for 10 ms
		t.Helper()
		for began := time.Now(); ; {
			ts.refresh(t.Context(), cl, []*Target{orders, small})
			st := orders.State.Load()
			if st.Status == want {
				return
			}
			if time.Since(began) > 5*time.Second {
				t.Fatalf("orders are %v (%s), want %v", st.Status, st.Why, want)
			}
		}
	}
	equal(t, "status before the first look", orders.State.Load().Status, Unknown)
	look(Ready)
	equal(t, "partitions", orders.State.Load().Partitions, 3)
	if st := small.State.Load(); st.Status != Ready || st.Takes.MaxBytes != 5000 || !st.Takes.Compacted {
		t.Errorf("small is %+v", st)
	}
	equal(t, "largest batch", ts.MaxBatchBytes("small"), 5000)
	leaderless.Store(true)
	look(Troubled)
	for began := time.Now(); time.Since(began) < 50*time.Millisecond; { // longer than it takes to be missing
		look(Troubled)
	}
	silent.Store(true)
	ts.refresh(t.Context(), cl, []*Target{orders})
	equal(t, "status while no broker answers", orders.State.Load().Status, Troubled)
	silent.Store(false)
	leaderless.Store(false)
	look(Ready)
	if err := c.DeleteTopic("orders"); err != nil {
		t.Fatal(err)
	}
	look(Troubled)
	look(Missing)
	if err := c.CreateTopic("orders", 1, nil); err != nil {
		t.Fatal(err)
	}
	look(Ready)
	equal(t, "partitions", orders.State.Load().Partitions, 1)
}

// A turn waits a moment for the first look at a target, and not for ever.
func TestTargetAwait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const lookupWait = 300 * time.Millisecond
		ts := testTable(time.Second)
		o := ts.Of([]byte("orders"))
		began := time.Now()
		equal(t, "status", ts.Await(t.Context(), o, lookupWait).Status, Unknown)
		if waited := time.Since(began); waited < lookupWait || waited > 2*lookupWait {
			t.Errorf("it waited %v", waited)
		}
		go func() {
			time.Sleep(lookupWait / 2)
			o.State.Store(&State{Status: Ready})
		}()
		equal(t, "status", ts.Await(t.Context(), o, lookupWait).Status, Ready)
	})
}

// Producers may invent names of targets without end: those that no request names any more are
// forgotten, unless the configuration names them or something was delivered to them. That counts no
// more for topics that were deleted long ago, of which some clusters have ever more.
func TestIdleTargetsAreForgotten(t *testing.T) {
	ts := testTable(time.Second)
	ts.Keep("requests.dead", true)
	for _, name := range []string{"invented", "used"} {
		ts.Of([]byte(name))
	}
	for name, s := range map[string]State{
		"delivered":      {Status: Ready},
		"deleted":        {Status: Missing, deniedSince: time.Now().Add(-goneFor + time.Minute)},
		"deleted before": {Status: Missing, deniedSince: time.Now().Add(-goneFor)},
		"forbidden":      {Status: Forbidden, deniedSince: time.Now().Add(-goneFor)},
	} {
		ts.Of([]byte(name)).State.Store(&s)
		ts.Of([]byte(name)).Counts.Delivered.Add(1)
	}
	for range idleLooks + 1 {
		ts.Of([]byte("used"))
		ts.forgetIdle(slices.Collect(maps.Values(ts.m)))
	}
	equals(t, "targets", slices.Sorted(maps.Keys(ts.m)), []string{"deleted", "delivered", "forbidden", "requests.dead", "used"})
}

// A topic that nothing gets past is tried again soon, although it has failed often; another one is not.
func TestOnlyWayOutIsTriedSoon(t *testing.T) {
	var log bytes.Buffer
	ts := New(5*time.Second, 5*time.Second, unseen, slog.New(slog.NewTextHandler(&log, nil)))
	ts.Keep("dead", true)
	for name, most := range map[string]time.Duration{"dead": onlyPause, "orders": pauseMost} {
		log.Reset()
		target := ts.Of([]byte(name))
		target.State.Store(&State{Status: Ready, Failures: 5})
		ts.Failed(name, kerr.NotLeaderForPartition, nil)
		if in := time.Until(target.State.Load().tryAt); in > most || in < most-time.Second {
			t.Errorf("%s is tried again in %v, want %v", name, in, most)
		}
		if carries := strings.Contains(log.String(), "carried on"); carries != (name == "orders") {
			t.Errorf("of %s is told %s", name, log.String())
		}
	}
}

// A target is not tried before it has taken the end of the transaction that it made fail: another
// one would be kept waiting.
func TestTargetThatKeepsAnID(t *testing.T) {
	_, cl := testCluster(t)
	ts := testTable(5 * time.Second)
	for _, c := range []struct {
		name string
		busy bool
		want Status
		why  string
	}{{"it keeps it", true, Troubled, "too large" + awaitsEnd}, {"it has taken it", false, OnTrial, "too large"}} {
		o := ts.Of([]byte("orders"))
		o.State.Store(&State{Status: Troubled, Why: "too large", Failures: 1, well: true, Partitions: 3, keeps: kept(c.busy)})
		for range 2 {
			ts.askLeaders(t.Context(), cl, []*Target{o})
		}
		equal(t, c.name, o.State.Load().Status, c.want)
		equal(t, c.name+": it says", o.State.Load().Why, c.why)
	}
}

// kept is an id that a target keeps busy, or not.
type kept bool

func (k kept) Still() bool { return bool(k) }

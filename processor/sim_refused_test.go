//go:build synctests

package processor

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/wait"
)

// refusals are what brokers may go on answering to one kind of request for long, the likeliest first.
// What the client itself asks again at once is left out: FENCED_LEADER_EPOCH of fetches, UNKNOWN_MEMBER_ID
// of joins, REBALANCE_IN_PROGRESS of SyncGroup.
var refusals = []struct {
	key   kmsg.Key
	topic string
	top   bool
	errs  []*kerr.Error
}{
	{kmsg.Fetch, simTopic, false, []*kerr.Error{kerr.TopicAuthorizationFailed, kerr.OffsetOutOfRange, kerr.UnknownTopicID, kerr.UnknownTopicOrPartition,
		kerr.InconsistentTopicID, kerr.NotLeaderForPartition, kerr.UnknownLeaderEpoch, kerr.KafkaStorageError, kerr.CorruptMessage, kerr.UnknownServerError,
		kerr.OffsetNotAvailable}},
	{kmsg.Metadata, simTopic, false, []*kerr.Error{kerr.TopicAuthorizationFailed, kerr.LeaderNotAvailable, kerr.UnknownTopicOrPartition}},
	{kmsg.Metadata, "orders", false, []*kerr.Error{kerr.TopicAuthorizationFailed}},
	{kmsg.ListOffsets, simTopic, false, []*kerr.Error{kerr.TopicAuthorizationFailed, kerr.NotLeaderForPartition, kerr.UnknownTopicOrPartition, kerr.UnknownServerError}},
	{kmsg.OffsetFetch, "", true, []*kerr.Error{kerr.GroupAuthorizationFailed, kerr.NotCoordinator, kerr.CoordinatorLoadInProgress}},
	{kmsg.OffsetCommit, "", false, []*kerr.Error{kerr.GroupAuthorizationFailed, kerr.NotCoordinator, kerr.CoordinatorLoadInProgress, kerr.IllegalGeneration,
		kerr.UnknownMemberID, kerr.RebalanceInProgress, kerr.RequestTimedOut, kerr.UnknownTopicOrPartition, kerr.OffsetMetadataTooLarge, kerr.UnknownServerError}},
	{kmsg.TxnOffsetCommit, "", false, []*kerr.Error{kerr.ProducerFenced, kerr.GroupAuthorizationFailed, kerr.ConcurrentTransactions, kerr.NotCoordinator,
		kerr.CoordinatorLoadInProgress, kerr.IllegalGeneration, kerr.RequestTimedOut, kerr.UnknownTopicOrPartition, kerr.UnknownServerError}},
	{kmsg.EndTxn, "", true, []*kerr.Error{kerr.UnknownServerError, kerr.ConcurrentTransactions, kerr.NotCoordinator, kerr.CoordinatorNotAvailable}},
	{kmsg.InitProducerID, "", true, []*kerr.Error{kerr.TransactionalIDAuthorizationFailed, kerr.ConcurrentTransactions, kerr.NotCoordinator}},
	{kmsg.FindCoordinator, "", false, []*kerr.Error{kerr.GroupAuthorizationFailed, kerr.CoordinatorNotAvailable}},
	{kmsg.JoinGroup, "", true, []*kerr.Error{kerr.GroupAuthorizationFailed, kerr.NotCoordinator, kerr.GroupMaxSizeReached}},
	{kmsg.SyncGroup, "", true, []*kerr.Error{kerr.GroupAuthorizationFailed, kerr.NotCoordinator}},
	{kmsg.Heartbeat, "", true, []*kerr.Error{kerr.UnknownMemberID, kerr.RebalanceInProgress, kerr.NotCoordinator}},
	{kmsg.DescribeConfigs, "", false, []*kerr.Error{kerr.TopicAuthorizationFailed, kerr.UnknownServerError}},
	{kmsg.ApiVersions, "", true, []*kerr.Error{kerr.UnknownServerError}},
}

// However long brokers go on refusing one kind of request, they are not asked much more often than in
// good times, the log stays readable, and all is well soon after they have stopped refusing.
func TestSimEachRefusal(t *testing.T) {
	for _, r := range refusals {
		for i, e := range r.errs {
			for _, guarantee := range []Guarantee{ExactlyOnce, AtLeastOnce} {
				if guarantee == AtLeastOnce && r.key != kmsg.OffsetCommit || testing.Short() && i > 0 {
					continue
				}
				name := fmt.Sprintf("%s/%s/%s", strings.TrimSpace(r.key.Name()+" "+r.topic), e.Message, guarantee)
				t.Run(name, func(t *testing.T) {
					scenario(t, worldConfig{guarantee: guarantee, partitions: 2, tune: func(c *Config) { c.Standbys = 1 }}, func(w *world) {
						refusedForAMinute(w, kfake.Fault{Keys: []kmsg.Key{r.key}, Topic: r.topic, Err: e, TopLevel: r.top, Count: -1, When: ofProcesses})
					})
				})
			}
		}
	}
}

// Without the right to read the delay topic, what was read before is delivered when it is due, and
// everything else soon after the right is given back. The cause is named.
func TestSimReadRightTaken(t *testing.T) {
	guarantees(t, worldConfig{}, func(w *world) {
		a := w.live("a")
		for i := range 20 {
			w.send(request(fmt.Sprint(i), in(time.Duration(5+i)*time.Second)))
		}
		w.until("accepted", func() bool { return a.p.Stats().Partitions[0].Pending == 20 })
		asked, lines := a.requests(), a.lines.Load()
		right := w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: simTopic, Err: kerr.TopicAuthorizationFailed, Count: -1, When: ofProcesses})
		w.send(request("unread", in(time.Second)))
		w.within(26*time.Second, "what was read is delivered", func() bool { return w.watch.Counts().Delivered == 20 })
		if late := w.watch.Report().Lateness.Quantile(1); late > 50*time.Millisecond {
			t.Errorf("%v late", late)
		}
		if ok, why := a.p.Ready(); ok || !strings.Contains(why[0].Error, "cannot be read") {
			t.Errorf("ready %v: %+v", ok, why)
		}
		if n := a.requests()[kmsg.Fetch] - asked[kmsg.Fetch]; right.Hits() < 3 || n > 60 {
			t.Errorf("%d fetches, %d refused", n, right.Hits())
		}
		if n := a.lines.Load() - lines; n > 3 {
			t.Errorf("%d lines in the log", n)
		}
		right.Remove()
		w.within(wait.MostRest+time.Second, "the rest is delivered", func() bool { return w.outstanding() == 0 })
		w.within(time.Second, "ready again", func() bool { ok, _ := a.p.Ready(); return ok })
		w.finish()
	})
}

// While the delay topic refuses what is written to it, because a right is missing or because it is compacted, a record that has to be dead-lettered and
// whose end that topic must tell waits, and what comes behind it in its partition. Other partitions go on, brokers are not asked at full speed, nothing
// is written in vain again and again, and the cause is named.
func TestSimResolveRefused(t *testing.T) {
	for _, e := range []*kerr.Error{kerr.TopicAuthorizationFailed, kerr.InvalidRecord} {
		t.Run(e.Message, func(t *testing.T) {
			guarantees(t, worldConfig{partitions: 2}, func(w *world) { resolveRefused(w, e) })
		})
	}
}

func resolveRefused(w *world, e *kerr.Error) {
	refused, other := forTarget("forbidden", "refused", in(time.Hour)), request("elsewhere", in(time.Second))
	other.Partition = 1
	w.send(request("pending", in(2*time.Minute)), refused, other)
	fault := w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: simTopic, Err: e, Count: -1})
	a := w.start("a", nil)
	w.within(10*time.Second, "the other partition goes on", func() bool { return w.watch.Counts().Delivered == 1 })
	time.Sleep(30 * time.Second)
	if ok, why := a.p.Ready(); ok || !strings.Contains(why[0].Error, e.Message) {
		w.t.Errorf("ready %v: %+v", ok, why)
	}
	if n := a.requests()[kmsg.Produce]; fault.Hits() < 3 || n > 100 {
		w.t.Errorf("%d produce requests, %d refused", n, fault.Hits())
	}
	if n := a.lines.Load(); n > mostLines {
		w.t.Errorf("%d lines in the log", n)
	}
	fault.Remove()
	w.within(5*time.Second, "ready again", func() bool { ok, _ := a.p.Ready(); return ok && w.watch.Counts().DeadLettered > 0 })
	w.finish()
}

// ofProcesses leaves out what the checker fetches.
func ofProcesses(req kmsg.Request) bool {
	f, ok := req.(*kmsg.FetchRequest)
	return !ok || f.MaxWaitMillis == int32(kafka.FetchMaxWait.Milliseconds()) || ofCarriers(req)
}

// refusedForAMinute lets one process run into a fault, and another one start while it lasts.
func refusedForAMinute(w *world, f kfake.Fault) {
	w.t.Helper()
	a := w.start("a", nil)
	w.until("live", func() bool { return a.live(2) })
	w.send(request("before", time.Now())) // its producer has all that it needs
	time.Sleep(3 * time.Second)
	asked, lines := a.requests(), a.lines.Load()
	fault := w.cluster.Fault(f)
	var b *process
	for i := range 240 {
		if i == 120 {
			b = w.start("b", nil)
		}
		rec := request(fmt.Sprint(i), in(time.Duration(w.rng.IntN(3000))*time.Millisecond))
		rec.Partition = int32(i % 2)
		w.client.Produce(context.Background(), rec, nil)
		time.Sleep(250 * time.Millisecond)
		if total(a.requests(), asked) > 3*mostRequests {
			break // it is said below
		}
	}
	if fault.Hits() == 0 {
		w.t.Errorf("nothing was refused")
	}
	most := int64(mostLines)
	if w.cfg.guarantee == AtLeastOnce || f.Keys[0] == kmsg.TxnOffsetCommit && f.Err != kerr.ProducerFenced { // which takes nothing away
		most = 20
	}
	a.moderate(asked, lines, most)
	if b != nil {
		b.moderate(nil, 0, most)
	}
	fault.Remove()
	if w.t.Failed() {
		return
	}
	soon := wait.MostRest + 5*time.Second
	if f.Topic == "orders" { // what was carried on waits for a quarter as long again, and a fifth of that
		soon += 20 * time.Second
	}
	w.within(soon, "all has arrived", func() bool { return w.watch.Counts().Outstanding == 0 })
	if n := w.watch.Counts().Requested; n < 100 {
		w.t.Errorf("only %d requests were taken in: %+v", n, w.watch.Counts())
	}
	w.clean()
}

// In good times it is some 1,400 requests a minute under this load.
const (
	mostRequests = 3600
	mostLines    = 130
)

// moderate checks what a process has asked and said within a minute, since it had asked and said this.
func (p *process) moderate(asked map[kmsg.Key]int, lines, most int64) {
	p.w.t.Helper()
	sum := total(p.requests(), asked)
	said := p.lines.Load() - lines
	p.w.t.Logf("%s has sent %d requests, written %d lines and dialled %d times in a second", p.name, sum, said, p.worst("dials"))
	if n := p.worst("dials"); n > p.mostDials() {
		p.w.t.Errorf("%s: %d dials in a second, at most %d are expected", p.name, n, p.mostDials())
	}
	if sum > mostRequests || said > most {
		p.w.t.Errorf("%s: %d requests, at most %d are expected; %d lines, at most %d; by kind: %v", p.name, sum, mostRequests, said, most, p.requests())
	}
}

// total is how many requests there are more than there were.
func total(now, before map[kmsg.Key]int) (sum int) {
	for k, n := range now {
		sum += n - before[k]
	}
	return sum
}

// A process that has nothing of one of its delay topics, since brokers do not show it, says so: it has no partitions of it that could be in trouble.
func TestSimHiddenTopic(t *testing.T) {
	scenario(t, worldConfig{fixed: true}, func(w *world) {
		h := w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata}, Topic: simTopic, Err: kerr.TopicAuthorizationFailed, Count: -1, When: ofProcesses})
		a := w.start("a", nil)
		hidden := func() bool {
			some := 0
			for _, topic := range a.p.Stats().Topics {
				if topic.Hidden != "" {
					some++
				}
				if is := strings.Contains(topic.Hidden, kerr.TopicAuthorizationFailed.Message); is != (topic.Topic == simTopic && some > 0) {
					t.Errorf("%s: %q", topic.Topic, topic.Hidden)
				}
			}
			return some > 0
		}
		w.within(30*time.Second, "it says so", hidden)
		h.Remove()
		w.within(30*time.Second, "it does not say so any more", func() bool { return !hidden() })
	})
}

//go:build synctests

package processor

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/duewheel/duewheel/processor/targets"
	"github.com/duewheel/duewheel/topics"
)

// addressed makes a request ask for another target.
func addressed(target string, r *kgo.Record) *kgo.Record {
	for i := range r.Headers {
		if r.Headers[i].Key == topics.HeaderTargetTopic {
			r.Headers[i].Value = []byte(target)
		}
	}
	return r
}

// A target whose leaders refuse what is produced, with metadata well, holds up no other one: neither by
// its first refusal for long, nor by being tried again, nor by the transactional id that it keeps
// busy. What was asked of it arrives when it takes records again.
func TestSimTargetInTrouble(t *testing.T) {
	for _, g := range []Guarantee{ExactlyOnce, AtLeastOnce} {
		for _, e := range []*kerr.Error{kerr.NotEnoughReplicas, kerr.NotEnoughReplicasAfterAppend, kerr.NotLeaderForPartition, kerr.KafkaStorageError, kerr.RequestTimedOut} {
			t.Run(string(g)+" "+e.Message, func(t *testing.T) {
				scenario(t, worldConfig{guarantee: g}, func(w *world) {
					a := w.live("a")
					hits, mend := w.unwilling("bills", e)
					unready := 0
					for i := range 600 {
						w.send(request(fmt.Sprint("k", i), in(50*time.Millisecond)))
						if i%10 == 0 {
							w.send(addressed("bills", request(fmt.Sprint("b", i), in(50*time.Millisecond))))
						}
						time.Sleep(200 * time.Millisecond)
						if ok, _ := a.p.Ready(); !ok {
							unready++
						}
					}
					// Some eight trials fall into this time, each with a record of the other target, which waits for 100 ms and an answer.
					l := w.watch.Report().ByTarget["orders"]
					if p95, p99, most := l.Quantile(.95), l.Quantile(.99), l.Quantile(1); p95 > 20*time.Millisecond || p99 > 120*time.Millisecond || most > 1500*time.Millisecond {
						t.Errorf("records of the other target are late: p95 %v, p99 %v, at most %v", p95, p99, most)
					}
					if unready > 0 {
						t.Errorf("not ready %d times", unready)
					}
					if n := hits(); n < 4 || n > 100 {
						t.Errorf("%d requests refused", n)
					}
					mend()
					w.within(90*time.Second, "all arrive", func() bool { return w.outstanding() <= 0 })
					if n := w.watch.Counts().Doubled; n > 8 || n > 0 && g == ExactlyOnce {
						t.Errorf("%d doubled", n)
					}
					w.finish()
				})
			})
		}
	}
}

// A process that dies while a target keeps one of its ids busy has left another one open: its
// successor ends that, and does not wait for the target.
func TestSimFenceBesideBusyID(t *testing.T) {
	scenario(t, worldConfig{}, func(w *world) {
		a := w.live("a")
		_, mend := w.unwilling("bills", kerr.NotEnoughReplicas)
		w.send(addressed("bills", request("b", in(0))))
		w.until("the target is in trouble", func() bool { return a.p.Stats().Retried > 0 })
		killed := a.killAt(kmsg.TxnOffsetCommit, true)
		w.send(request("k", in(0)))
		w.hit(killed)
		b := w.start("b", nil)
		w.within(soonEnough, "delivered by b", func() bool { return w.watch.Counts().Delivered == 1 })
		if n := b.p.counters.fenced.Load(); n != 1 {
			t.Errorf("b has fenced %d writers", n)
		}
		mend()
		w.finish()
	})
}

// A target that stays away costs a bounded number of records and requests, and what waits for it
// arrives within the longest pause when it is back.
func TestSimRetriesBackOff(t *testing.T) {
	scenario(t, worldConfig{retries: 45, tune: func(c *Config) { c.RetryBackoff, c.HeartbeatInterval = time.Second, 600*time.Millisecond }}, func(w *world) {
		w.unread("gone")
		a := w.live("a")
		mend := w.leaderless("gone")
		for i := range 20 {
			w.send(addressed("gone", request(fmt.Sprint(i), in(time.Second))))
		}
		var asked atomic.Int64
		for _, key := range []kmsg.Key{kmsg.Metadata, kmsg.DescribeConfigs, kmsg.ListOffsets, kmsg.InitProducerID} {
			a.link.on(rule{key: key, count: -1, call: func() { asked.Add(1) }})
		}
		began := w.cluster.PartitionInfo(simTopic, 0).HighWatermark
		time.Sleep(time.Hour)
		if n := w.cluster.PartitionInfo(simTopic, 0).HighWatermark - began; n < 500 || n > 1500 {
			t.Errorf("%d records were written to the delay topic for 20 requests", n)
		}
		if n := asked.Load(); n < 1000 || n > 8000 {
			t.Errorf("%d requests looked at topics", n)
		}
		mend()
		w.within(6*time.Minute, "all delivered", func() bool { return a.deliveredTo("gone") == 20 })
	})
}

// A target that forbids us is tried for a while, and then its records are dead-lettered, as long as
// it does. Whether the brokers say so when asked, or only when something is produced, is the same.
func TestSimForbiddenTarget(t *testing.T) {
	for _, how := range []kmsg.Key{kmsg.Metadata, kmsg.Produce} {
		t.Run(how.Name(), func(t *testing.T) {
			scenario(t, worldConfig{tune: func(c *Config) { c.ForbiddenTargetAfter = time.Minute }}, func(w *world) {
				w.unread("gone")
				a := w.live("a")
				h := w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{how}, Topic: "gone", Err: kerr.TopicAuthorizationFailed, Count: -1})
				w.send(addressed("gone", request("b", in(0))), request("k", in(0)))
				w.within(2*time.Second, "the other arrives", func() bool { return w.watch.Counts().Delivered == 1 })
				time.Sleep(50 * time.Second)
				equal(t, "dead letters before its time", w.watch.Counts().DeadLettered, 0)
				w.within(time.Minute, "dead-lettered", func() bool { return w.watch.Counts().DeadLettered == 1 })
				w.until("counted", func() bool { return a.deadLettered(string(topics.CodeForbiddenTarget)) == 1 })
				h.Remove()
				w.send(addressed("gone", request("later", in(time.Minute))))
				w.within(3*time.Minute, "delivered", func() bool { return a.deliveredTo("gone") == 1 })
			})
		})
	}
}

// unread makes a target that the checker does not read, so that it may be as wrong as one likes.
func (w *world) unread(target string) {
	w.t.Helper()
	if err := w.cluster.CreateTopic(target, 1, nil); err != nil {
		w.fail("create %s: %v", target, err)
	}
}

// deliveredTo is how many records a process has delivered to a target.
func (p *process) deliveredTo(target string) int64 {
	for _, s := range p.p.Stats().Targets {
		if s.Target == target {
			return s.Delivered
		}
	}
	return 0
}

// A request for a partition that has just been added is not a wrong one: the brokers are asked again.
func TestSimPartitionsAddedToTarget(t *testing.T) {
	scenario(t, worldConfig{}, func(w *world) {
		a := w.live("a")
		w.send(request("k", in(0)))
		w.within(time.Second, "delivered", func() bool { return w.outstanding() == 0 })
		time.Sleep(11 * time.Second) // looked at, and not again for ten
		if _, err := kadm.NewClient(w.client).UpdatePartitions(context.Background(), 5, "orders"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		partition := func(r *kgo.Record, n string) *kgo.Record {
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: topics.HeaderTargetPartition, Value: []byte(n)})
			return r
		}
		w.send(partition(request("new", in(10*time.Millisecond)), "4"))
		w.within(10*time.Second, "delivered", func() bool { return a.deliveredTo("orders") == 2 })
		equal(t, "turns that a client has refused which did not know the new partition", w.lines("turn given up"), 0)
		equal(t, "records in the new partition", w.cluster.PartitionInfo("orders", 4).HighWatermark > 0, true)
		equal(t, "dead letters", w.watch.Counts().DeadLettered, 0)
		w.send(partition(request("none", in(10*time.Millisecond)), "5"))
		w.within(10*time.Second, "dead-lettered", func() bool { return w.watch.Counts().DeadLettered == 1 })
		w.until("counted", func() bool { return a.deadLettered(string(topics.CodeInvalidPartition)) == 1 })
	})
}

// A request for a target that is known to be missing is dead-lettered after one more look, whatever
// sets the timestamps of the delay topic: its brokers write a retry later than they were asked.
func TestSimMissingTargetByBrokersTime(t *testing.T) {
	for _, kind := range []string{"CreateTime", "LogAppendTime"} {
		t.Run(kind, func(t *testing.T) {
			guarantees(t, worldConfig{}, func(w *world) {
				if kind == "LogAppendTime" {
					w.appendTimes(simTopic)
				}
				a := w.live("a")
				a.link.on(rule{key: kmsg.Produce, count: -1, call: func() { time.Sleep(50 * time.Millisecond) }}) // brokers write later than they answer
				w.send(request("first", in(0)))
				for n := range 10 {
					w.send(addressed("gone", request(fmt.Sprint(n), in(time.Second))))
					w.within(12*time.Second, "dead-lettered", func() bool { return w.watch.Counts().DeadLettered == int64(n+1) })
					time.Sleep(time.Duration(n) * time.Second)
				}
				w.finish()
				equal(t, "lines that name the first", w.lines("example=requests/0@1: "), 1)
				if n := w.watch.Counts().Retried; n < 5 || n > 30 {
					t.Errorf("%d retries", n)
				}
			})
		})
	}
}

// Where brokers are far away a target that is well again passes its first trial, although its producer
// has to find and reach it first.
func TestSimTrialFarAway(t *testing.T) {
	guarantees(t, worldConfig{late: time.Hour, latency: 60 * time.Millisecond}, func(w *world) {
		a := w.live("a")
		for range 10 {
			_, mend := w.unwilling("bills", kerr.NotEnoughReplicas)
			w.send(addressed("bills", request("b", in(0))))
			bills := a.p.targets.Of([]byte("bills"))
			w.within(10*time.Second, "it fails", func() bool { return bills.State.Load().Failures > 0 })
			mend()
			failures := bills.State.Load().Failures
			w.within(10*time.Second, "it is well", func() bool {
				st := bills.State.Load()
				failures = max(failures, st.Failures)
				return st.Status == targets.Ready
			})
			if failures > 2 {
				t.Errorf("%d failures", failures)
			}
			w.within(10*time.Second, "delivered", func() bool { return w.outstanding() == 0 })
		}
		w.finish()
	})
}

// A target on trial has not passed it when the record that it was to be tried with went elsewhere.
func TestSimTrialWithoutRecord(t *testing.T) {
	guarantees(t, worldConfig{late: time.Hour, billBytes: 500}, func(w *world) {
		a := w.live("a")
		_, mend := w.unwilling("bills", kerr.NotEnoughReplicas)
		w.send(addressed("bills", request("b", in(0))))
		bills := a.p.targets.Of([]byte("bills"))
		w.within(10*time.Second, "it looks well", func() bool { return bills.State.Load().Status == targets.OnTrial })
		large := addressed("bills", request("too large", in(0)))
		large.Value = incompressible(1000)
		w.send(large, request("k", in(0)))
		w.within(time.Second, "one is dead-lettered, the other delivered", func() bool { c := w.watch.Counts(); return c.DeadLettered+c.Delivered == 2 })
		for range 200 {
			if bills.State.Load().Status == targets.Ready {
				w.fail("it is taken to be ready, and takes nothing")
			}
			time.Sleep(time.Millisecond)
		}
		mend()
		w.within(time.Minute, "all arrive", func() bool { return w.outstanding() == 0 })
		w.clean()
		a.kill()
	})
}

// Whether the brokers were asked for a target before an attempt or after it does not depend on the clock of
// the machine: one that is behind does not keep records from being dead-lettered, and one that is ahead
// has none dead-lettered for what was found long before.
func TestSimMissingTargetByWrongClock(t *testing.T) {
	for _, off := range []time.Duration{time.Hour, -time.Hour} { // of the brokers' clock, which counts
		t.Run(off.String(), func(t *testing.T) {
			scenario(t, worldConfig{late: 10 * time.Hour, skew: 2 * time.Hour}, func(w *world) {
				w.setClock(0, off)
				a := w.live("a")
				w.send(addressed("gone", request("k", in(off))))
				w.within(15*time.Second, "dead-lettered", func() bool { return a.deadLettered(string(topics.CodeUnknownTarget)) == 1 })
				time.Sleep(10 * time.Minute) // it is looked at every half a minute now
				w.unread("gone")
				w.send(addressed("gone", request("k", in(off))))
				w.within(15*time.Second, "delivered", func() bool { return a.deliveredTo("gone") == 1 })
				a.kill()
			})
		})
	}
}

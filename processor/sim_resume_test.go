//go:build synctests

package processor

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// holdTurn sends a request that is due now and holds its turn at the decision.
func (w *world) holdTurn(p *process, key string) (release func()) {
	w.t.Helper()
	ch := make(chan struct{})
	held := p.link.on(rule{key: kmsg.EndTxn, wait: ch})
	w.send(request(key, in(0)))
	w.hit(held)
	return func() { close(ch) }
}

// committed waits until the checkpoint says that everything below an offset was accepted.
func (w *world) committed(offset int64) {
	w.t.Helper()
	w.within(10*time.Second, fmt.Sprintf("committed up to %d", offset), func() bool {
		c, _ := w.checkpoint(0)
		return c.Offset >= offset
	})
}

// again kills a process and has another go on with what is left of its disk: all, or nothing.
func (w *world) again(p *process, keep bool) *process {
	disk := p.kill()
	if !keep {
		disk = nil
	}
	return w.start(p.name, disk)
}

// disks are what a crash leaves.
func disks(t *testing.T, cfg worldConfig, run func(w *world, keep bool)) {
	for _, keep := range []bool{true, false} {
		t.Run(fmt.Sprintf("disk kept %v", keep), func(t *testing.T) {
			scenario(t, cfg, func(w *world) { run(w, keep) })
		})
	}
}

// Design rule 2: nothing is delivered in a catch-up. A record that is read later may be due
// before one that was read already, and the watermark would leave it behind.
func TestSimNoDeliveryInCatchUp(t *testing.T) {
	scenario(t, worldConfig{}, func(w *world) {
		a := w.live("a")
		for range 3 { // more than fits into a fetch
			large := request("large", in(6*time.Second))
			large.Value = make([]byte, 900<<10)
			for i := range large.Value { // and does not compress
				large.Value[i] = byte(w.rng.Uint32())
			}
			w.send(large)
		}
		w.send(request("read last, due first", in(5*time.Second)))
		w.committed(4)
		a.kill()
		time.Sleep(7 * time.Second)
		b := w.start("b", nil)
		n := 0
		w.hit(b.link.on(rule{key: kmsg.Fetch, after: true, match: func(kmsg.Request) bool { n++; return n == 2 }, call: func() { time.Sleep(3 * time.Second) }}))
		w.until("live", func() bool { return b.live(1) })
		w.until("delivered", func() bool { return w.outstanding() == 0 })
		w.finish()
	})
}

// Design rule 3: what arrives while a turn is in flight is judged by that turn's watermark, is on
// the list of what is resolved when O passes, and never in the store.
func TestSimLateWhileTurnInFlight(t *testing.T) {
	disks(t, worldConfig{flush: true, tune: func(c *Config) { c.NearWindow = 500 * time.Millisecond }}, func(w *world, keep bool) {
		a := w.live("a")
		release := w.holdTurn(a, "k")
		w.send(request("late", in(-5*time.Second)))
		w.send(request("far", in(8*time.Second)), request("later", in(-6*time.Second)))
		time.Sleep(500 * time.Millisecond)
		release()
		w.until("the late ones are delivered", func() bool { return w.watch.Counts().Delivered == 3 })
		w.committed(4)
		w.again(a, keep)
		w.finish()
	})
}

// The same when the turn does not happen after all: what was judged late by it must not be
// resolved by a checkpoint of another.
func TestSimLateWhileTurnFails(t *testing.T) {
	disks(t, worldConfig{flush: true}, func(w *world, keep bool) {
		a := w.live("a")
		killed := a.killAt(kmsg.EndTxn, false)
		ch := make(chan struct{})
		held := a.link.on(rule{key: kmsg.Produce, wait: ch})
		w.send(request("k", in(0)))
		w.hit(held)
		w.send(request("late", in(-5*time.Second)), request("k", in(0)))
		time.Sleep(500 * time.Millisecond)
		close(ch)
		w.hit(killed)
		w.again(a, keep)
		w.finish()
	})
}

// Design rule 3: a transaction whose O stops short of what was accepted leaves W as it was.
func TestSimCappedListKeepsWatermark(t *testing.T) {
	for kill := 1; kill <= 3; kill++ {
		t.Run(fmt.Sprintf("killed after turn %d", kill), func(t *testing.T) {
			scenario(t, worldConfig{tune: func(c *Config) { c.BatchRecords = 2 }}, func(w *world) {
				a := w.live("a")
				release := w.holdTurn(a, "k")
				for i := range 3 {
					w.send(request(fmt.Sprint(i), in(-time.Duration(5-i)*time.Second)))
				}
				w.send(request("pending", in(0)), request("late", in(-9*time.Second)), request("pending", in(0)))
				time.Sleep(100 * time.Millisecond)
				n := 0
				killed := a.link.on(rule{key: kmsg.EndTxn, after: true, match: func(kmsg.Request) bool { n++; return n == kill }, call: func() { a.kill() }})
				release()
				w.hit(killed)
				w.start("b", nil)
				w.finish()
			})
		})
	}
}

// Design rule 5: the store's deletions come after the commit. Records that were loaded from the
// store are in it still when the turn that they were in did not happen.
func TestSimStoreDeletesAfterCommit(t *testing.T) {
	scenario(t, worldConfig{flush: true, tune: func(c *Config) { c.NearWindow = 500 * time.Millisecond }}, func(w *world) {
		a := w.live("a")
		for i := range 20 {
			w.send(request(fmt.Sprint(i), in(12*time.Second)))
		}
		w.committed(20)
		time.Sleep(6 * time.Second) // until the store knows
		a = w.again(a, true)
		w.until("live", func() bool { return a.live(1) })
		killed := a.killAt(kmsg.EndTxn, false)
		w.hit(killed)
		w.again(a, true)
		w.finish()
	})
}

// Design rule 5: the store's resume stays below what only memory holds, the turn in flight
// included, although its records do not count as pending any more.
func TestSimResumeRemembersTurnInFlight(t *testing.T) {
	scenario(t, worldConfig{flush: true, tune: func(c *Config) { c.NearWindow = 2 * time.Second }}, func(w *world) {
		a := w.live("a")
		w.send(request("near", in(1500*time.Millisecond)))
		w.committed(1)
		ch := make(chan struct{})
		held := a.link.on(rule{key: kmsg.EndTxn, wait: ch})
		w.hit(held)
		for i := range 2000 { // beyond the first stretch of log
			w.client.Produce(context.Background(), request(fmt.Sprint(i), in(20*time.Second)), nil)
		}
		w.client.Flush(context.Background())
		w.until("accepted", func() bool { return a.p.Stats().Topics[0].Accepted == 2001 })
		w.again(a, true)
		w.finish()
	})
}

// Design rule 5: and below late arrivals, refused ones and what is near.
func TestSimResumeRemembersMemory(t *testing.T) {
	scenario(t, worldConfig{flush: true, tune: func(c *Config) { c.NearWindow = 2 * time.Second }}, func(w *world) {
		a := w.live("a")
		release := w.holdTurn(a, "k")
		refused := request("refused", in(4*time.Second))
		refused.Headers[2].Value = []byte("forbidden")
		w.send(request("late", in(-time.Second)), refused, request("near", in(1900*time.Millisecond)))
		for i := range 2000 {
			w.client.Produce(context.Background(), request(fmt.Sprint(i), in(20*time.Second)), nil)
		}
		w.client.Flush(context.Background())
		w.until("accepted", func() bool { return a.p.Stats().Topics[0].Accepted == 2004 })
		a = w.again(a, true)
		release()
		w.finish()
	})
}

// The low water lies at or below every pending record: a replay from there misses none.
func TestSimLowWaterBelowPending(t *testing.T) {
	scenario(t, worldConfig{}, func(w *world) {
		a := w.live("a")
		w.send(request("first of the log", in(5*time.Second)))
		w.committed(1)
		a = w.again(a, false)
		w.until("live", func() bool { return a.live(1) })
		for i := range 2000 { // the next stretch of log
			w.client.Produce(context.Background(), request(fmt.Sprint(i), in(0)), nil)
		}
		w.client.Flush(context.Background())
		w.arrived()
		w.send(request("last", in(5*time.Second)))
		w.committed(w.cluster.PartitionInfo(simTopic, 0).HighWatermark)
		w.again(a, false)
		w.finish()
	})
}

// Design rule 1: a new owner whose clock is behind W goes by W, as long as W is not further ahead of
// the brokers' time than a clock may be. It neither stalls nor calls early what a clock of the group
// has passed.
func TestSimClockBehindWatermark(t *testing.T) {
	const ahead = 900 * time.Millisecond
	scenario(t, worldConfig{skew: ahead}, func(w *world) {
		a := w.startAt("a", ahead)
		w.until("live", func() bool { return a.live(1) })
		due := in(3 * time.Second)
		w.send(request("k", due))
		w.until("delivered by the clock that is ahead", func() bool { return w.outstanding() == 0 })
		if early := time.Until(due); early < ahead*3/4 {
			t.Errorf("delivered %v early by a clock that is %v ahead", early, ahead)
		}
		a.shut()
		b := w.startAt("b", -ahead)
		w.within(time.Until(due), "live before the brokers' clocks have passed W", func() bool { return b.live(1) })
		w.send(request("late", due.Add(-time.Millisecond)), request("k", due))
		w.within(time.Until(due)+ahead/2, "delivered by W", func() bool { return w.outstanding() == 0 })
		w.send(request("pending", in(2*time.Second)))
		w.finish()
	})
}

// A wall clock that jumps ahead and back delivers nothing early; one that is set back only delays.
func TestSimClockSteps(t *testing.T) {
	scenario(t, worldConfig{}, func(w *world) {
		a := w.live("a")
		for i := range 40 {
			w.send(request("k", in(time.Duration(i)*500*time.Millisecond)))
		}
		for _, by := range []time.Duration{time.Hour, -30 * time.Second, 10 * time.Second, -time.Second} {
			a.skew.Store(int64(by))
			time.Sleep(4 * time.Second)
			a.skew.Store(0)
			time.Sleep(time.Second)
			w.inspect()
		}
		w.finish()
	})
}

// Design rule 2: a catch-up ends where the log ends, not at its last record: logs end in the
// markers of transactions, and in what those have aborted.
func TestSimCatchUpEndsInMarkers(t *testing.T) {
	for _, commit := range []bool{true, false} {
		t.Run(fmt.Sprintf("committed %v", commit), func(t *testing.T) {
			scenario(t, worldConfig{}, func(w *world) {
				a := w.live("a")
				w.send(request("k", in(8*time.Second)))
				w.transaction(request("user", in(8*time.Second)))(commit)
				a.kill()
				b := w.start("b", nil)
				w.within(soonEnough, "live", func() bool { return b.live(1) })
				w.finish()
			})
		})
	}
}

// Design rule 2: where records of ours may lie at or above O, a catch-up reads to the high
// watermark. Below it, a resolve record says that what would be pending was refused.
func TestSimCatchUpReadsOwnRecords(t *testing.T) {
	disks(t, worldConfig{flush: true}, func(w *world, keep bool) {
		a := w.live("a")
		refused := request("refused", in(4*time.Second))
		refused.Headers[2].Value = []byte("forbidden")
		w.send(request("keeps the low water down", in(40*time.Second)))
		// The open transaction holds the last stable offset below the resolve record.
		end := w.transaction(request("user", in(time.Second)))
		refused.Partition = 0
		w.send(refused)
		time.Sleep(time.Second)
		if n := w.watch.Counts().DeadLettered; n != 0 {
			t.Fatalf("%d dead-lettered from above the last stable offset", n)
		}
		end(true)
		w.until("refused", func() bool { return w.watch.Counts().DeadLettered == 1 })
		w.again(a, keep)
		w.finish()
	})
}

// The same while another producer's transaction is open since before the resolve record was written.
func TestSimCatchUpWaitsForOwnRecords(t *testing.T) {
	disks(t, worldConfig{flush: true}, func(w *world, keep bool) {
		a := w.live("a")
		refused := request("refused", in(4*time.Second))
		refused.Headers[2].Value = []byte("forbidden")
		ch := make(chan struct{})
		held := a.link.on(rule{key: kmsg.TxnOffsetCommit, wait: ch})
		w.send(request("keeps the low water down", in(40*time.Second)), refused)
		w.hit(held)
		end := w.transaction(request("user", in(time.Second)))
		close(ch)
		w.until("refused", func() bool { c, _ := w.checkpoint(0); return c.Offset == 2 })
		if c, _ := w.checkpoint(0); !c.Appended {
			t.Errorf("the checkpoint does not tell of the resolve record: %+v", c)
		}
		b := w.again(a, keep)
		time.Sleep(10 * time.Second) // past the due time of what was refused
		if b.live(1) {
			t.Error("live before the resolve record could be read")
		}
		end(true)
		w.finish()
	})
}

// transaction sends requests in a transaction that stays open until it is told how to end.
func (w *world) transaction(rs ...*kgo.Record) (end func(commit bool)) {
	w.t.Helper()
	ctx := context.Background()
	w.users++
	cl, err := kgo.NewClient(append(w.outside, kgo.TransactionalID(fmt.Sprint("user-", w.users)), kgo.TransactionTimeout(time.Minute), kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if err != nil {
		w.fail("%v", err)
	}
	if err := cl.BeginTransaction(); err != nil {
		w.fail("%v", err)
	}
	if err := cl.ProduceSync(ctx, rs...).FirstErr(); err != nil {
		w.fail("%v", err)
	}
	return func(commit bool) {
		w.t.Helper()
		if err := cl.EndTransaction(ctx, kgo.TransactionEndTry(commit)); err != nil {
			w.fail("%v", err)
		}
		cl.Close()
	}
}

// In at_least_once a record that was refused is done with when both its dead letter and what says
// so in the log are acknowledged, whichever comes first.
func TestSimDeadLetterAndResolveRecord(t *testing.T) {
	scenario(t, worldConfig{guarantee: AtLeastOnce}, func(w *world) {
		a := w.live("a")
		w.send(request("makes the dead-letter topic known", in(0)))
		mend := w.leaderless(simTopic + ".dead")
		refused := request("refused", in(10*time.Second))
		refused.Headers[2].Value = []byte("forbidden")
		w.send(refused)
		time.Sleep(3 * time.Second)
		mend()
		w.until("dead-lettered", func() bool { return w.outstanding() == 0 })
		a.shut()
		w.finish()
	})
}

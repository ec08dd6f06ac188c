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

// soonEnough is after what time a dead process's partitions must deliver again: well before its
// transaction times out.
const soonEnough = session + 8*time.Second

// live starts a process and has it live with every partition.
func (w *world) live(name string) *process {
	w.t.Helper()
	p := w.start(name, nil)
	w.until(name+" is live", func() bool { return p.live(int(w.cfg.partitions)) })
	return p
}

// killAt kills a process when it sends, or when the broker has carried out, a kind of request.
func (p *process) killAt(key kmsg.Key, after bool) <-chan struct{} {
	return p.link.on(rule{key: key, after: after, call: func() { p.kill() }})
}

// Design rule 9: a checkpoint names its writer before the writer's first transaction, so that
// the next owner can end what it left open; and an unstable checkpoint is fenced. Without
// either, everything waits for the transaction to time out.
func TestSimClaimAndFence(t *testing.T) {
	scenario(t, worldConfig{}, func(w *world) {
		w.live("z").shut() // leaves a checkpoint of its own
		a := w.live("a")
		killed := a.killAt(kmsg.TxnOffsetCommit, true)
		w.send(request("k", in(0)))
		w.hit(killed)
		b := w.start("b", nil)
		w.within(soonEnough, "delivered by b", func() bool { return w.outstanding() == 0 })
		if n := b.p.counters.fenced.Load(); n != 1 {
			t.Errorf("b has fenced %d writers", n)
		}
		w.finish()
	})
}

// Design rule 9: a claim is made on every assignment. A process that had the partition before
// must not think that its old claim still stands.
func TestSimClaimEveryTime(t *testing.T) {
	scenario(t, worldConfig{}, func(w *world) {
		a := w.live("a")
		b := w.start("b", nil)
		thaw := a.link.freeze()
		w.until("b has it", func() bool { return b.live(1) })
		thaw()
		w.until("a has lost it", func() bool { return a.live(0) && a.joined() })
		time.Sleep(2 * session) // and has joined again
		b.shut()
		w.until("a has it again", func() bool { return a.live(1) })
		killed := a.killAt(kmsg.TxnOffsetCommit, true)
		w.send(request("k", in(0)))
		w.hit(killed)
		w.start("c", nil)
		w.within(soonEnough, "delivered by c", func() bool { return w.outstanding() == 0 })
		w.finish()
	})
}

// Design rule 9: offsets go before records, so that an open transaction always shows on its
// partitions. Otherwise readers of the target would wait for the dead one's transaction.
func TestSimOffsetsBeforeRecords(t *testing.T) {
	scenario(t, worldConfig{}, func(w *world) {
		a := w.live("a")
		killed := a.killAt(kmsg.Produce, true)
		w.send(request("k", in(0)))
		w.hit(killed)
		w.start("b", nil)
		w.within(soonEnough, "delivered by b", func() bool { return w.outstanding() == 0 })
		w.finish()
	})
}

// Design rule 9: where a checkpoint is stable no writer is fenced; its writer may be alive and busy
// with other partitions.
func TestSimNoFenceWhenStable(t *testing.T) {
	scenario(t, worldConfig{partitions: 2}, func(w *world) {
		a := w.live("a")
		busy := func() {
			for range 100 {
				for i := range 2 {
					r := request(fmt.Sprint(i), in(0))
					r.Partition = int32(i)
					w.client.Produce(context.Background(), r, nil)
				}
				time.Sleep(20 * time.Millisecond)
			}
		}
		w.wg.Go(busy)
		b := w.start("b", nil)
		w.until("both have one", func() bool { return a.live(1) && b.live(1) })
		time.Sleep(2 * time.Second)
		if n := b.p.counters.fenced.Load(); n != 0 {
			t.Errorf("b has fenced %d writers", n)
		}
		if n := a.p.Stats().Transactions["unknown"]; n != 0 {
			t.Errorf("%d turns of a have an unknown outcome", n)
		}
		w.finish()
	})
}

// Design rule 9: the checkpoint that counts is the stable one. An owner that reads past an open
// transaction delivers what that will have delivered, when the zombie wakes up and ends it.
func TestSimStableRead(t *testing.T) {
	scenario(t, worldConfig{}, func(w *world) {
		a := w.live("a")
		b := w.start("b", nil)
		time.Sleep(session)
		var thaw func()
		frozen := a.link.on(rule{key: kmsg.EndTxn, call: func() { thaw = a.link.freeze() }})
		w.send(request("k", in(0)))
		w.hit(frozen)
		w.within(soonEnough, "delivered by b", func() bool { return b.live(1) && w.outstanding() == 0 })
		thaw()
		time.Sleep(10 * time.Second)
		w.finish()
	})
}

// A revocation waits for the turn in flight, so that the next owner finds a
// decided checkpoint and has no writer to fence.
func TestSimRevocationWaitsForTurn(t *testing.T) {
	scenario(t, worldConfig{partitions: 2}, func(w *world) {
		a := w.live("a")
		release := make(chan struct{})
		held := a.link.on(rule{key: kmsg.EndTxn, wait: release})
		both := []*kgo.Record{request("k", in(500*time.Millisecond)), request("k", in(500*time.Millisecond))}
		both[1].Partition = 1
		w.send(both...)
		w.hit(held)
		b := w.start("b", nil)
		time.AfterFunc(1500*time.Millisecond, func() { close(release) })
		w.until("both have one", func() bool { return a.live(1) && b.live(1) })
		if n := b.p.counters.fenced.Load(); n != 0 {
			t.Errorf("b has fenced %d writers", n)
		}
		w.finish()
	})
}

// Design rule 6: nothing is committed for a partition that was given up. The one that has it now
// is the writer that its checkpoint names, whatever the former owner still does.
func TestSimNoCommitForRevoked(t *testing.T) {
	scenario(t, worldConfig{partitions: 2}, func(w *world) {
		a := w.live("a")
		for i := range 20 {
			r := request(fmt.Sprint(i), in(time.Duration(i)*time.Second))
			r.Partition = int32(i % 2)
			w.send(r)
		}
		b := w.start("b", nil)
		w.until("both have one", func() bool { return a.live(1) && b.live(1) })
		owner := map[int32]string{}
		for _, p := range []*process{a, b} {
			for _, s := range p.p.Stats().Partitions {
				owner[s.Partition] = p.p.lanes[0].writer
			}
		}
		for range 200 {
			time.Sleep(100 * time.Millisecond)
			w.inspect()
			for partition, writer := range owner {
				if c, _ := w.checkpoint(partition); c.Writer != writer {
					w.fail("checkpoint of %d is by %s, and its owner is %s", partition, c.Writer, writer)
				}
			}
		}
		w.finish()
	})
}

// Design rule 6: no plain commit names a partition that is in an undecided transaction.
func TestSimNoPlainCommitBesideTransaction(t *testing.T) {
	scenario(t, worldConfig{}, func(w *world) {
		a := w.live("a")
		release := make(chan struct{})
		held := a.link.on(rule{key: kmsg.Produce, wait: release})
		w.send(request("k", in(0)))
		w.hit(held)
		plain := a.link.on(rule{key: kmsg.OffsetCommit, count: -1})
		for i := range 30 { // O could move on
			w.send(request(fmt.Sprint(i), in(time.Minute)))
			time.Sleep(100 * time.Millisecond)
		}
		select {
		case <-plain:
			t.Error("a plain commit beside the transaction")
		default:
		}
		close(release)
		w.finish()
	})
}

// Design rule 7: a plain commit is sent once. When it is not answered, the stay in the group ends,
// so that a copy that arrives late finds its generation gone and takes nothing back.
func TestSimPlainCommitOnce(t *testing.T) {
	for _, how := range []string{"answer lost", "late"} {
		t.Run(how, func(t *testing.T) {
			scenario(t, worldConfig{}, func(w *world) {
				a := w.live("a")
				release := make(chan struct{})
				var members []string
				r := rule{key: kmsg.OffsetCommit, after: true, cut: true}
				if how == "late" {
					r = rule{key: kmsg.OffsetCommit, wait: release}
				}
				r.match = func(q kmsg.Request) bool {
					members = append(members, q.(*kmsg.OffsetCommitRequest).MemberID)
					return true
				}
				first := a.link.on(r)
				w.send(request("k", in(20*time.Second)))
				w.hit(first)
				second := a.link.on(rule{key: kmsg.OffsetCommit, match: func(q kmsg.Request) bool {
					members = append(members, q.(*kmsg.OffsetCommitRequest).MemberID)
					return true
				}})
				w.send(request("moves O on", in(20*time.Second)))
				w.hit(second)
				w.until("live again", func() bool { return a.live(1) })
				w.send(request("now", in(0)))
				w.until("delivered", func() bool { return w.watch.Counts().Delivered == 1 })
				w.inspect()
				close(release)
				time.Sleep(5 * time.Second)
				w.inspect()
				if members[0] == members[1] {
					t.Errorf("the commit was sent again by the same member")
				}
				w.finish()
			})
		})
	}
}

// Design rule 7: an EndTxn that was not answered has an unknown outcome, and may have committed.
func TestSimUnknownIsNotAbort(t *testing.T) {
	for _, carriedOut := range []bool{true, false} {
		t.Run(fmt.Sprintf("carried out %v", carriedOut), func(t *testing.T) {
			scenario(t, worldConfig{}, func(w *world) {
				a := w.live("a")
				cut := a.link.on(rule{key: kmsg.EndTxn, after: carriedOut, cut: true, count: -1})
				w.send(request("k", in(0)), request("k", in(time.Second)))
				w.hit(cut)
				w.until("given up", func() bool { return a.p.Stats().Transactions["unknown"] > 0 })
				a.link.clear()
				w.finish()
			})
		})
	}
}

// A turn that is known to have been refused is repeated as it was, by the same member: partitions
// that stay do not pay for a rebalance (design rule 7).
func TestSimRefusedTurnIsRepeated(t *testing.T) {
	scenario(t, worldConfig{}, func(w *world) {
		a := w.live("a")
		h := w.refuse(kmsg.TxnOffsetCommit, 3)
		w.send(request("k", in(0)))
		w.within(time.Second, "delivered", func() bool { return w.outstanding() == 0 })
		if h.Hits() != 3 || !a.live(1) {
			t.Errorf("%d turns refused, live %v", h.Hits(), a.live(1))
		}
		if n := a.told(EventAborted); n != 3 {
			t.Errorf("%d turns were given up", n)
		}
		w.finish()
	})
}

// Two lanes of a process share a store, and a partition moves between them: what the former one
// still writes must not reach it (design rule 5).
func TestSimOldHandleWritesNothing(t *testing.T) {
	scenario(t, worldConfig{tune: func(c *Config) { c.Lanes, c.NearWindow = 2, 500*time.Millisecond }}, func(w *world) {
		a := w.live("a")
		for i := range 60 {
			w.client.Produce(context.Background(), request(fmt.Sprint(i), in(time.Duration(5000+i*200)*time.Millisecond)), func(*kgo.Record, error) {})
			time.Sleep(50 * time.Millisecond)
			if i%15 == 14 {
				w.expel() // the member that has it
				w.until("live again", func() bool { return a.live(1) })
			}
		}
		w.finish()
	})
}

package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/duewheel/duewheel/bench/child"
	"github.com/duewheel/duewheel/integration/load"
	"github.com/duewheel/duewheel/processor"
)

// A replica is killed while most of what it has is pending and far, and the others go on with what their standbys hold; so they do
// when one of them has lost its store meanwhile. The classic protocol gives each partition to the replica that is warm; the broker
// knows nothing of that, so there every replica keeps a standby of everything.
func TestStandbys(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		protocol processor.Protocol
		standbys int
	}{{processor.ProtocolClassic, 1}, {processor.ProtocolConsumer, 2}} {
		t.Run(string(c.protocol), func(t *testing.T) {
			t.Parallel()
			s := newTenant(t, shared(t), setting{partitions: 6, targets: 2, seed: newSeed(t)})
			w := &warmth{tenant: s, standbys: c.standbys, protocol: c.protocol}
			w.watchers = []*running{w.start("a"), w.start("b")}
			w.victim = s.spawn(w.replica("c"))
			w.awaitShares()
			s.load(
				load.Config{Records: 20_000, Rate: 10_000, Due: []load.Due{{Weight: 1, From: 10 * time.Second, To: 25 * time.Second}}},
				load.Config{Records: 1_000, Rate: 500, Due: []load.Due{{Weight: 1, To: 2 * time.Second}}},
			)
			w.kill("with everything", 2)
			w.victim = s.spawn(w.replica("c"))
			w.awaitShares()
			w.watchers[1].stop()
			if err := os.RemoveAll(filepath.Join(s.dir, "b")); err != nil {
				t.Fatal(err)
			}
			w.watchers[1] = w.start("b")
			w.awaitShares()
			w.kill("after a store was wiped", 0)
			s.arrive()
			for _, r := range w.watchers {
				r.stop()
			}
			s.judge()
		})
	}
}

// warmth is a group of three: two replicas that can be looked into, and one that can be killed.
type warmth struct {
	*tenant
	standbys int
	protocol processor.Protocol
	watchers []*running
	victim   *child.Process
}

func (w *warmth) replica(name string) replicaConfig {
	return w.tenant.replica(func(c *replicaConfig) {
		c.Lanes, c.Standbys, c.Protocol, c.StateDir = 1, w.standbys, w.protocol, filepath.Join(w.dir, name)
	})
}

// owned are the partitions that are live at the watchers.
func (w *warmth) owned() map[int32]bool {
	live := map[int32]bool{}
	for _, r := range w.watchers {
		for _, p := range r.Stats().Partitions {
			if p.Phase == processor.PhaseLive {
				live[p.Partition] = true
			}
		}
	}
	return live
}

func (w *warmth) start(name string) *running { return w.tenant.start(w.replica(name)) }

// awaitShares waits until each replica has two partitions, and those of the victim are followed closely by others.
func (w *warmth) awaitShares() {
	w.t.Helper()
	eventually(w.t, func() string {
		live, followed := map[int32]bool{}, map[int32]int{}
		for _, r := range w.watchers {
			stats := r.Stats()
			for _, p := range stats.Partitions {
				live[p.Partition] = p.Phase == processor.PhaseLive
			}
			for _, b := range stats.Standbys {
				if b.Position == b.Offset {
					followed[b.Partition]++
				}
			}
		}
		if len(live) != 4 {
			return fmt.Sprintf("two replicas with 4 partitions, not %v", live)
		}
		for p := range int32(6) {
			if !live[p] && followed[p] != w.standbys {
				return fmt.Sprintf("partition %d followed by %d, not %d", p, w.standbys, followed[p])
			}
		}
		return ""
	})
}

// kill kills the victim, and sees that what it had is taken over warm: by a replica that follows it, or did so until lately and has as much in its store. At
// least so many are taken over from standbys.
func (w *warmth) kill(how string, standbys int64) {
	w.t.Helper()
	before := w.takeovers()
	w.awaitDelivery(w.victim)
	killed, told := time.Now(), w.events.len()
	w.victim.Kill()
	eventually(w.t, func() string {
		if live := w.owned(); len(live) != 6 {
			return fmt.Sprintf("6 partitions live, not %d", len(live))
		}
		return ""
	})
	w.t.Logf("%s: live again %v after the kill", how, time.Since(killed).Round(time.Millisecond))
	if got := w.takeovers() - before; got < standbys {
		w.t.Errorf("%s: %d partitions taken over from standbys, want %d", how, got, standbys)
	}
	taken := map[int32]processor.Event{}
	for _, e := range w.events.from(told, processor.EventRestored) {
		for _, tp := range e.Partitions {
			taken[tp.Partition] = e.Event
		}
	}
	if len(taken) < 2 { // more when a rebalance has moved others besides
		w.t.Errorf("%s: %d partitions are restored, want 2", how, len(taken))
	}
	for p, e := range taken {
		if e.Start <= e.LowWater {
			w.t.Errorf("%s: partition %d is read again from the low water on, %d", how, p, e.LowWater)
		}
	}
}

func (w *warmth) takeovers() (n int64) {
	for _, r := range w.watchers {
		n += r.Stats().Takeovers
	}
	return n
}

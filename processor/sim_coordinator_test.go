//go:build synctests

package processor

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// moveCoordinator makes another broker the coordinator of the group. The one before lives on and
// answers that it is not.
func (w *world) moveCoordinator() {
	before := w.cluster.CoordinatorFor(simGroup)
	for w.cluster.CoordinatorFor(simGroup) == before {
		w.cluster.RehashCoordinators()
	}
	w.note("---- the coordinator moves from broker %d to %d", before, w.cluster.CoordinatorFor(simGroup))
}

// guarantees runs a test for each.
func guarantees(t *testing.T, cfg worldConfig, run func(w *world)) {
	for _, g := range []Guarantee{ExactlyOnce, AtLeastOnce} {
		t.Run(string(g), func(t *testing.T) {
			cfg.guarantee = g
			scenario(t, cfg, run)
		})
	}
}

// A coordinator that has moved while its broker lives is looked up again, whichever request was
// told so: checkpoints go on while nothing is due, and while records are delivered.
func TestSimCoordinatorMoves(t *testing.T) {
	guarantees(t, worldConfig{brokers: 3}, func(w *world) {
		a := w.live("a")
		w.send(request("far", in(24*time.Hour)))
		w.committed(1)
		w.moveCoordinator()
		w.send(request("farther", in(24*time.Hour)))
		w.within(5*time.Second, "the checkpoint moves on", func() bool { c, _ := w.checkpoint(0); return c.Offset == 2 })
		w.moveCoordinator()
		for i := range 20 {
			w.send(request(fmt.Sprint(i), in(0)))
			time.Sleep(100 * time.Millisecond)
		}
		w.within(5*time.Second, "the checkpoint follows what is delivered", func() bool { c, _ := w.checkpoint(0); return c.Offset >= 22 })
		before := w.watch.Counts()
		a.kill()
		w.start("b", nil).until(1)
		time.Sleep(time.Second)
		if n := w.watch.Counts().Doubled - before.Doubled; n != 0 {
			t.Errorf("%d doubled that the checkpoint covers", n)
		}
		if n := before.Delivered; n != 20 {
			t.Errorf("%d of 20 delivered before", n)
		}
	})
}

// What a restore claims is claimed at the coordinator of the day.
func TestSimCoordinatorMovesBeforeClaim(t *testing.T) {
	guarantees(t, worldConfig{brokers: 3, partitions: 4}, func(w *world) {
		a, b := w.start("a", nil), w.start("b", nil)
		w.until("both have two", func() bool { return a.live(2) && b.live(2) })
		w.send(request("far", in(24*time.Hour)))
		w.committed(1)
		w.moveCoordinator()
		time.Sleep(5 * time.Second)
		b.kill()
		w.within(soonEnough, "a has all", func() bool { return a.live(4) })
		if ok, why := a.p.Ready(); !ok {
			t.Errorf("not ready: %+v", why)
		}
	})
}

// The checkpoint that a partition is given up with is written although the coordinator has moved
// since the one before: a rebalance, or an end in good order, doubles nothing.
func TestSimCoordinatorMovesBeforeTheEnd(t *testing.T) {
	scenario(t, worldConfig{brokers: 3, guarantee: AtLeastOnce, tune: func(c *Config) { c.CommitInterval = time.Hour }}, func(w *world) {
		a := w.live("a")
		w.send(request("k", in(0)))
		w.until("delivered", func() bool { return w.outstanding() == 0 })
		w.moveCoordinator()
		h := w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: kerr.CoordinatorLoadInProgress, Count: 3})
		a.shut()
		if h.Hits() != 3 {
			t.Errorf("%d commits met a coordinator that loads", h.Hits())
		}
		if c, _ := w.checkpoint(0); c.Offset != 1 {
			t.Errorf("the last checkpoint is at offset %d", c.Offset)
		}
	})
}

// until waits until a process has n partitions of the delay topic live.
func (p *process) until(n int) *process {
	p.w.t.Helper()
	p.w.until(fmt.Sprintf("%s has %d live", p.name, n), func() bool { return p.live(n) })
	return p
}

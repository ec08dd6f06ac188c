//go:build synctests

package processor

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// retain cuts the log of the delay topic as retention may at any time: up to the low water that is
// committed, of every group that reads it. It returns how many records went.
func (w *world) retain() (went int64) {
	w.t.Helper()
	for partition := range w.cfg.partitions {
		c, ok := w.host.checkpoint(partition)
		if w.rival != nil {
			other, too := w.rival.checkpoint(partition)
			c.LowWater, ok = min(c.LowWater, other.LowWater), ok && too
		}
		// The checker must have seen what goes.
		to := min(c.LowWater, w.watch.Position(simTopic, partition))
		if w.rival != nil {
			to = min(to, w.rival.watch.Position(simTopic, partition))
		}
		info := w.cluster.PartitionInfo(simTopic, partition)
		if !ok || to <= info.LogStartOffset {
			continue
		}
		if err := w.cluster.DeleteRecords(simTopic, partition, to); err != nil {
			w.fail("cut the log at %d: %v", to, err)
		}
		w.note("---- retention cuts %s/%d from %d to %d", simTopic, partition, info.LogStartOffset, to)
		went += to - info.LogStartOffset
	}
	return went
}

// A retention that is longer than the longest delay, on a topic with few records: something is always
// pending, and what is older than that is cut, to the record. That is no loss, not to the process that
// runs nor to one that starts with nothing, and it is one as soon as a pending record is cut off.
func TestSimRetentionCutsUpToL(t *testing.T) {
	for _, guarantee := range []Guarantee{ExactlyOnce, AtLeastOnce} {
		t.Run(string(guarantee), func(t *testing.T) {
			scenario(t, worldConfig{guarantee: guarantee, tune: func(c *Config) { c.NearWindow = 2 * time.Second }}, func(w *world) {
				a := w.live("a")
				var went int64
				for i := range 60 {
					w.send(request(fmt.Sprint(i), in(time.Duration(3+i%7)*time.Second)))
					time.Sleep(500 * time.Millisecond)
					went += w.retain()
				}
				if pending := w.outstanding(); went < 40 || pending == 0 {
					t.Errorf("only %d of 60 requests were cut, of which %d are pending", went, pending)
				}
				for range 3 {
					w.send(request("pending", in(40*time.Second)))
				}
				time.Sleep(21 * time.Second) // it looks at the log every 10 s
				w.retain()
				time.Sleep(11 * time.Second)
				if ready, why := a.p.Ready(); !ready || w.outstanding() != 3 {
					t.Errorf("ready %v: %+v, %d outstanding", ready, why, w.outstanding())
				}
				a.kill()
				b := w.start("b", nil)
				w.within(soonEnough, "live from nothing", func() bool { return b.live(1) })
				w.finish()
			})
		})
	}
}

// What is cut off although it is pending is said at once by the process that still holds it, and
// stops the one that starts with nothing.
func TestSimRetentionCutsAboveL(t *testing.T) {
	scenario(t, worldConfig{}, func(w *world) {
		a := w.live("a")
		w.send(request("delivered", in(0)), request("pending", in(40*time.Second)), request("pending", in(41*time.Second)))
		w.until("delivered", func() bool { return w.outstanding() == 2 })
		w.committed(3)
		if err := w.cluster.DeleteRecords(simTopic, 0, 2); err != nil {
			t.Fatal(err)
		}
		w.within(11*time.Second, "it says so", func() bool { return w.lines("needed from offset 1 on and begins at 2") > 0 })
		a.kill()
		b := w.start("b", nil)
		w.within(soonEnough, "stopped", func() bool {
			return slices.ContainsFunc(b.p.Stats().Partitions, func(s PartitionStats) bool { return s.Phase == PhaseStopped })
		})
		b.kill()
	})
}

// A log of which all is cut may be given to another leader: nothing is taken for lost.
func TestSimEmptiedLogMoves(t *testing.T) {
	guarantees(t, worldConfig{brokers: 2}, func(w *world) {
		a := w.live("a")
		w.send(request("one", in(0)), request("two", in(0)))
		w.within(soonEnough, "delivered", func() bool { return w.outstanding() == 0 })
		w.committed(2)
		if went := w.retain(); went != 2 {
			w.fail("%d records were cut", went)
		}
		w.cluster.ShufflePartitionLeaders()
		time.Sleep(time.Second)
		w.send(request("three", in(0)))
		w.within(soonEnough, "delivered", func() bool { return w.outstanding() == 0 })
		if n := a.told(EventDropped); n > 0 {
			t.Errorf("%d partitions started over", n)
		}
		w.finish()
	})
}

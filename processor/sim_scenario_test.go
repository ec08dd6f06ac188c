//go:build synctests

package processor

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// scenario runs a test in a bubble with a world of its own.
func scenario(t *testing.T, cfg worldConfig, run func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, cfg)
		defer w.close()
		run(w)
	})
}

// What is pending survives a crash, near and far, with and without a disk.
func TestSimDeliverCrashRestart(t *testing.T) {
	for _, guarantee := range []Guarantee{ExactlyOnce, AtLeastOnce} {
		t.Run(string(guarantee), func(t *testing.T) {
			scenario(t, worldConfig{guarantee: guarantee, partitions: 2}, func(w *world) {
				p := w.start("a", nil)
				for i := range 40 {
					r := request(fmt.Sprint(i), in(time.Duration(i)*500*time.Millisecond))
					r.Partition = int32(i % 2)
					w.send(r)
				}
				w.until("live", func() bool { return p.live(2) })
				time.Sleep(4 * time.Second)
				disk := p.kill()
				p = w.start("a", disk)
				time.Sleep(5 * time.Second)
				p.kill()
				w.start("a", nil)
				w.finish()
			})
		})
	}
}

// Records of a turn that is held back are pending all the same: the low water stays below them.
func TestSimHeldTurnKeepsLowWater(t *testing.T) {
	scenario(t, worldConfig{billBytes: 500}, func(w *world) {
		p := w.start("a", nil)
		w.until("live", func() bool { return p.live(1) })
		due := in(4 * time.Second)
		large := addressed("bills", request("too large", due))
		large.Value = incompressible(1000)
		w.send(large, request("waits", due))
		w.until("accepted", func() bool { c, _ := w.checkpoint(0); return c.Offset == 2 })
		mend := w.leaderless(simTopic + ".dead")
		time.Sleep(10 * time.Second)
		if c, _ := w.checkpoint(0); c.LowWater > 0 {
			t.Errorf("low water is %d while record 0 is pending", c.LowWater)
		}
		p.kill()
		mend()
		w.start("a", nil)
		w.finish()
	})
}

// A process that is told to stop ends, although no broker answers.
func TestSimStopWithoutBrokers(t *testing.T) {
	scenario(t, worldConfig{}, func(w *world) {
		p := w.start("a", nil)
		w.until("live", func() bool { return p.live(1) })
		for i := range 20 {
			w.send(request(fmt.Sprint(i), in(time.Duration(i)*100*time.Millisecond)))
		}
		thaw := p.link.freeze()
		began := time.Now()
		p.shut()
		if took := time.Since(began); took > time.Minute {
			t.Errorf("it took %v", took)
		}
		thaw()
		w.start("a", nil)
		w.finish()
	})
}

//go:build synctests

package processor

import (
	"testing"
	"time"
)

// A new replica is not ready before it has what the others give up for it: whoever waits for that before the next one is stopped would stop it too soon.
func TestSimReadyWhenSharedOut(t *testing.T) {
	scenario(t, worldConfig{partitions: 4}, func(w *world) {
		w.live("a")
		w.large(3000, func(int) time.Time { return in(time.Minute) })
		time.Sleep(5 * time.Second)
		b, was := w.start("b", nil), false
		for range 1000 {
			time.Sleep(10 * time.Millisecond)
			if ready, _ := b.p.Ready(); was && !ready {
				t.Fatal("it was ready, and is not any more")
			} else if was = ready; ready && len(b.p.Stats().Partitions) == 0 {
				t.Fatal("it is ready without partitions, and gets some")
			}
		}
		if !was {
			t.Error("it is never ready")
		}
		w.until("all is delivered", func() bool { return w.outstanding() == 0 })
		w.finish()
	})
}

// One that gets no partition, as there are more replicas than that, is ready soon.
func TestSimReadyWithoutPartitions(t *testing.T) {
	scenario(t, worldConfig{partitions: 1}, func(w *world) {
		w.live("a")
		b := w.start("b", nil)
		w.until("b has joined", b.joined)
		w.within(b.p.cfg.sharedOut()+time.Second, "ready", func() bool { ready, _ := b.p.Ready(); return ready })
		w.finish()
	})
}

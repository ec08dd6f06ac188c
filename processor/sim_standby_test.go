//go:build synctests

package processor

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// follows reports whether a process has this many standbys, all of them as far as their owners.
func (p *process) follows(n int) bool {
	caught := 0
	for _, s := range p.p.Stats().Standbys {
		if s.Position == s.Offset {
			caught++
		}
	}
	return caught == n
}

// A standby knows what its owner has accepted and not resolved, and who has it takes over from
// there, not from the low water.
func TestSimStandbyTakesOver(t *testing.T) {
	for _, guarantee := range []Guarantee{ExactlyOnce, AtLeastOnce} {
		t.Run(string(guarantee), func(t *testing.T) {
			scenario(t, worldConfig{guarantee: guarantee, partitions: 2, tune: func(c *Config) { c.Standbys = 1 }}, func(w *world) {
				a, b := w.start("a", nil), w.start("b", nil)
				w.until("shared out", func() bool { return a.live(1) && b.live(1) })
				for i := range 400 {
					r := request(fmt.Sprint(i), in(time.Duration(i)*100*time.Millisecond))
					r.Partition = int32(i % 2)
					w.send(r)
				}
				time.Sleep(5 * time.Second)
				w.within(5*time.Second, "each follows the other", func() bool { return a.follows(1) && b.follows(1) })
				a.kill()
				w.within(session+time.Second, "b has taken over", func() bool { return b.live(2) })
				if n := b.p.counters.warm.Load(); n != 1 {
					t.Errorf("%d partitions were taken over from standbys, want 1", n)
				}
				w.start("c", nil)
				w.finish()
			})
		})
	}
}

// A standby whose disk is gone reads all of it again from the log.
func TestSimStandbyWiped(t *testing.T) {
	scenario(t, worldConfig{partitions: 1, tune: func(c *Config) { c.Standbys = 2 }}, func(w *world) {
		a := w.start("a", nil)
		w.until("live", func() bool { return a.live(1) })
		b, c := w.start("b", nil), w.start("c", nil)
		for i := range 300 {
			w.send(request(fmt.Sprint(i), in(time.Duration(i)*200*time.Millisecond)))
		}
		w.within(20*time.Second, "followed by both", func() bool { return b.follows(1) && c.follows(1) })
		b.kill()
		b = w.start("b", nil)
		w.within(20*time.Second, "followed again", func() bool { return b.follows(1) })
		a.kill()
		w.within(session+time.Second, "taken over", func() bool { return b.live(1) || c.live(1) })
		if n := b.p.counters.warm.Load() + c.p.counters.warm.Load(); n != 1 {
			t.Errorf("%d partitions were taken over from standbys, want 1", n)
		}
		w.finish()
	})
}

// What a standby cannot follow, as its log begins above what is pending, it says once, and not every ten seconds for as long as the owner holds that.
func TestSimStandbyOfALogThatHasLostSomeIsSaidOnce(t *testing.T) {
	scenario(t, worldConfig{late: time.Hour, tune: func(c *Config) { c.AcceptLoss, c.Standbys = true, 1 }}, func(w *world) {
		a := w.live("a")
		for range 5 {
			w.send(request("far", in(4*time.Minute)))
		}
		w.committed(5)
		w.within(soonEnough, "seen", func() bool { return w.watch.Position(simTopic, 0) == 5 })
		w.behead(0, 3)
		w.saysLost()
		b := w.start("b", nil)
		w.within(time.Minute, "it is said", func() bool { return strings.Contains(w.history(), "standby is given up") })
		lines := a.lines.Load() + b.lines.Load()
		time.Sleep(3 * time.Minute)
		if n := a.lines.Load() + b.lines.Load() - lines; n > 3 {
			t.Errorf("%d lines in the log in three minutes", n)
		}
		w.within(2*time.Minute, "it follows", func() bool { return len(b.p.Stats().Standbys)+len(a.p.Stats().Standbys) == 1 })
		w.finish()
		equal(t, "lost", w.watch.Counts().Lost, 0)
	})
}

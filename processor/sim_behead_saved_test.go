//go:build synctests

package processor

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/duewheel/duewheel/processor/local"
)

// What a process holds of what the log has lost is on its disk soon: neither its end nor its crash loses it, nor a turn of unknown outcome, if it comes back to that.
func TestSimBeheadedIsSaved(t *testing.T) {
	for how, do := range map[string]func(w *world, a *process){
		"is killed":       func(w *world, a *process) { w.start("a", a.kill()) },
		"is told to stop": func(w *world, a *process) { w.start("a", a.shut()) },
		"does not know what became of a turn": func(w *world, a *process) {
			a.link.on(rule{key: kmsg.EndTxn, cut: true, after: true})
			w.send(request("now", in(0)))
		},
	} {
		t.Run(how, func(t *testing.T) {
			guarantees(t, worldConfig{late: time.Hour, tune: func(c *Config) { c.AcceptLoss, c.NearWindow = true, 5*time.Minute }}, func(w *world) {
				a := w.live("a")
				for i := range 20 {
					w.send(request(fmt.Sprint(i), in(2*time.Minute)))
				}
				w.committed(20)
				w.within(soonEnough, "seen", func() bool { return w.watch.Position(simTopic, 0) == 20 })
				w.behead(0, 12)
				w.saysLost()
				time.Sleep(local.FlushEvery + time.Second)
				do(w, a)
				w.recovers()
				time.Sleep(2 * time.Minute)
				w.arrived()
				equal(t, "delivered", w.watch.Counts().Delivered >= 20, true)
				w.finish()
				equal(t, "lost", w.watch.Counts().Lost, 0)
			})
		})
	}
}

// That is so also where O had not passed yet what the log lost, and when the log loses more later on.
func TestSimBeheadedIsSavedWhenOHasPassed(t *testing.T) {
	for name, again := range map[string]bool{"once": false, "again": true} {
		t.Run(name, func(t *testing.T) {
			guarantees(t, worldConfig{late: time.Hour, tune: func(c *Config) { c.AcceptLoss, c.CommitInterval = true, 15*time.Second }}, func(w *world) {
				a := w.live("a")
				send := func(n int64) {
					for range n - w.watch.Position(simTopic, 0) {
						w.send(request("far", in(10*time.Minute)))
					}
					w.within(soonEnough, "held", func() bool { s := w.owned(); return s[0].Pending == n && w.watch.Position(simTopic, 0) == n })
				}
				refused := w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit, kmsg.TxnOffsetCommit}, Err: kerr.CoordinatorLoadInProgress, Count: -1})
				send(20)
				w.behead(0, 12)
				w.saysLost()
				time.Sleep(local.FlushEvery + time.Second)
				refused.Remove()
				w.committed(20)
				if again {
					time.Sleep(2 * local.FlushEvery)
					send(40)
					w.within(20*time.Second, "committed", func() bool { c, _ := w.checkpoint(0); return c.Offset == 40 })
					w.behead(0, 40)
				}
				time.Sleep(2 * local.FlushEvery)
				b := w.start("a", a.kill())
				w.recovers()
				time.Sleep(10 * time.Minute)
				w.arrived()
				equal(t, "lost", w.watch.Counts().Lost, 0)
				b.kill()
			})
		})
	}
}

// A process that is killed soon after a partition was read on from where its log begins has on its disk what it held, and that it was read on.
func TestSimBeheadedIsSavedBeforeItIsReadOn(t *testing.T) {
	for _, after := range []time.Duration{0, 700 * milli, 1500 * milli, 3 * time.Second, 8 * time.Second} {
		t.Run(after.String(), func(t *testing.T) {
			guarantees(t, worldConfig{late: time.Hour, tune: func(c *Config) { c.AcceptLoss, c.NearWindow = true, time.Minute }}, func(w *world) {
				a := w.live("a")
				w.send(request("far", in(4*time.Minute)))
				const held = 17
				for range held - 1 { // more than one step saves
					near := request("near", in(40*time.Second))
					near.Value = make([]byte, 400<<10)
					w.send(near)
				}
				w.committed(held)
				ch := make(chan struct{})
				w.hit(a.link.on(rule{key: kmsg.Fetch, wait: ch}))
				w.send(request("unread", in(4*time.Second)), request("unread", in(4*time.Second)))
				w.within(soonEnough, "seen", func() bool { return w.watch.Position(simTopic, 0) == held+2 })
				w.behead(0, held+2)
				close(ch)
				w.within(readOnWithin/2, "it is read on", func() bool { return strings.Contains(w.history(), "going on although") })
				w.send(request("behind", in(0)))
				time.Sleep(after)
				w.start("a", a.kill())
				w.recovers()
				time.Sleep(4 * time.Minute)
				w.arrived()
				equal(t, "lost", w.watch.Counts().Lost, 2)
				w.finish()
				w.accountsForLost()
			})
		})
	}
}

// What is pending when a process is told to stop is in its state directory, also what is due soon, where the topic does not keep its log: that may be cut
// while all are away.
func TestSimStoppedAndThenBeheaded(t *testing.T) {
	guarantees(t, worldConfig{late: time.Hour, tune: func(c *Config) { c.NearWindow = 5 * time.Minute }}, func(w *world) {
		w.set("retention.ms", fmt.Sprint(time.Hour.Milliseconds()))
		a := w.live("a")
		const pending = 20
		for range pending { // more than one step saves
			near := request("near", in(2*time.Minute))
			near.Value = make([]byte, 400<<10)
			w.send(near)
		}
		w.committed(pending)
		w.within(soonEnough, "seen", func() bool { return w.watch.Position(simTopic, 0) == pending })
		w.within(30*time.Second, "it is known what the topic keeps", func() bool { return a.p.counters.topics[simTopic].Keeps.Load() > 0 })
		disk := a.shut()
		w.behead(0, 12)
		w.start("a", disk)
		w.recovers()
		time.Sleep(2 * time.Minute)
		w.finish()
		equal(t, "lost", w.watch.Counts().Lost, 0)
	})
}

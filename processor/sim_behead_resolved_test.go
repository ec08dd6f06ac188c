//go:build synctests

package processor

import (
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// What a resolve record has resolved that lay above O, and was lost, is in the store of a replica that has not read that: it may come again, which the log says, and all else
// comes once.
func TestSimBeheadedWithWhatWasResolved(t *testing.T) {
	scenario(t, worldConfig{late: time.Hour, tune: func(c *Config) { c.AcceptLoss, c.Standbys = true, 1 }}, func(w *world) {
		a := w.live("a")
		b := w.start("b", nil)
		w.send(request("far", in(time.Minute)), request("known", in(0)))
		w.until("it is followed", func() bool { s := b.p.Stats().Standbys; return len(s) == 1 && s[0].Offset >= 2 })
		killed := a.link.on(rule{key: kmsg.EndTxn, after: true, call: func() { a.kill() }})
		w.send(addressed(simTopic+".dead", request("refused", in(50*time.Second))))
		w.hit(killed)
		w.within(soonEnough, "what is resolved can be read", func() bool { return w.watch.Counts().Resolved == 1 })
		end := w.cluster.PartitionInfo(simTopic, 0).HighWatermark
		w.send(request("behind", in(time.Minute)))
		w.behead(0, end)
		w.recovers()
		time.Sleep(time.Minute)
		w.arrived()
		if c := w.watch.Counts(); c.Lost > 0 || c.DeadLettered != 2 {
			t.Errorf("%d lost, %d dead letters", c.Lost, c.DeadLettered)
		}
		if !strings.Contains(w.history(), "may come again") {
			t.Error("the log does not say that it may come again")
		}
		w.finish()
	})
}

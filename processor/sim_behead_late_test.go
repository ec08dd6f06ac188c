//go:build synctests

package processor

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// What is late and waits for its turn, or for another try, is held like all else when the log is cut above the position.
func TestSimBeheadedLate(t *testing.T) {
	for _, guarantee := range []Guarantee{ExactlyOnce, AtLeastOnce} {
		t.Run(fmt.Sprint(guarantee), func(t *testing.T) {
			scenario(t, worldConfig{guarantee: guarantee, late: time.Hour, tune: func(c *Config) { c.AcceptLoss, c.BatchRecords = true, 1 }}, func(w *world) {
				a := w.live("a")
				w.send(request("known", in(0)))
				w.until("the target is known", func() bool { return w.outstanding() == 0 })
				written := make(chan struct{})
				stuck := a.link.on(rule{key: kmsg.Produce, wait: written})
				for i := range 4 {
					w.send(request(fmt.Sprint("late ", i), in(-time.Second)))
				}
				w.hit(stuck)
				of := func() PartitionStats { return a.p.Stats().Partitions[0] }
				w.within(soonEnough, "read", func() bool { return of().Position == w.cluster.PartitionInfo(simTopic, 0).HighWatermark })
				read := make(chan struct{})
				w.hit(a.link.on(rule{key: kmsg.Fetch, wait: read}))
				w.send(request("unread", in(0)))
				end := w.cluster.PartitionInfo(simTopic, 0).HighWatermark
				w.within(soonEnough, "seen", func() bool { return w.watch.Position(simTopic, 0) == end })
				before := w.watch.Counts().Delivered
				w.behead(0, end)
				close(read)
				time.Sleep(time.Second)
				close(written)
				w.within(soonEnough, "what is held is delivered", func() bool { return w.watch.Counts().Delivered == before+4 })
				time.Sleep(10 * time.Second)
				equal(t, "lost", w.watch.Counts().Lost, 1)
				w.saysLost()
				w.finish()
				w.accountsForLost()
			})
		})
	}
}

//go:build synctests

package processor

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/duewheel/duewheel/topics"
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

// A process that is left without a store delivers what its memory holds of a log that has lost it, also where the ids of what the store had are not known any more; it is not read again
// before that, as nothing else has it.
func TestSimBeheadedAsTheStoreFails(t *testing.T) {
	guarantees(t, worldConfig{tune: func(c *Config) { c.NearWindow = time.Minute }}, func(w *world) {
		a := w.live("a")
		for i := range 5 {
			w.send(request(fmt.Sprint(i), in(50*time.Second)))
		}
		far := request("far", in(2*time.Minute))
		far.Headers = append(far.Headers, kgo.RecordHeader{Key: topics.HeaderID, Value: []byte("far")})
		w.send(far)
		w.committed(6)
		w.within(soonEnough, "seen", func() bool { return w.watch.Position(simTopic, 0) == 6 })
		w.behead(0, 3)
		w.saysLost()
		empty := a.fill()
		w.send(request("fills the disk", in(2*time.Minute)))
		w.within(20*time.Second, "it has no store", func() bool { return a.storeless() == 1 })
		time.Sleep(50 * time.Second)
		equal(t, "delivered", w.watch.Counts().Delivered, 5)
		empty()
		w.within(2*time.Minute, "with the store again", func() bool { return a.storeless() == 0 && a.live(1) })
		w.finish()
		w.accountsForLost()
		equal(t, "lost", w.watch.Counts().Lost, 0)
	})
}

//go:build synctests

package processor

import (
	"testing"
	"time"

	"github.com/duewheel/duewheel/processor/producer"
)

// A partition that may have had no leader when a transaction of a writer ended gets its end once more, as soon as that is known: of both producers of a lane,
// while turns go on.
func TestSimEndIsWrittenAgain(t *testing.T) {
	scenario(t, worldConfig{brokers: 2, partitions: 2}, func(w *world) {
		a := w.live("a")
		for range 10 {
			w.send(request("one", in(0)))
			time.Sleep(20 * time.Millisecond)
		}
		w.within(time.Second, "delivered", func() bool { return w.outstanding() == 0 })
		leader := w.cluster.PartitionInfo("orders", 0).Leader
		for _, to := range []int32{1 - leader, leader} { // between two looks
			if err := w.cluster.MoveTopicPartition("orders", 0, to); err != nil {
				t.Fatal(err)
			}
		}
		w.within(15*time.Second, "the end is written again", func() bool {
			for range 30 {
				w.send(request("more", in(0)))
			}
			return w.lines("its end was written to them again") > 0
		})
		for _, id := range producer.IDsOf(a.p.lanes[0].writer) {
			w.within(time.Second, "nothing is owed", func() bool { return !a.p.markers.Owes(id) })
		}
		w.within(10*time.Second, "delivered", func() bool { return w.outstanding() == 0 })
		w.finish()
	})
}

package check

import (
	"math"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Where one route has a partitioner of its own, what others deliver must still be in the partition of its key.
func TestPartitionsOfSeveralRoutes(t *testing.T) {
	w := newWorld()
	w.config.Survey = knows{}
	w.config.Targets = []Target{{Topic: "orders", Partitions: 12}}
	other := w.config.Routes[0]
	other.Topic, other.DeadLetter, other.AnyPartition = "others", "others.dead", true
	w.config.Routes = append(w.config.Routes[:1:1], other)
	c := newChecker(t, w.config)
	for i, topic := range []string{"requests", "others"} {
		c.Window(topic, 1, 0, math.MaxInt64)
		q := w.request("k", "v", "delay-until="+millis(due), "delay-target-topic=orders")
		q.Topic, q.Partition = topic, 1
		d := w.deliver(q, due)
		right := int32(c.targets.java.Partition(&kgo.Record{Key: q.Key}, 12))
		if d.Partition = 11; right == 11 {
			t.Fatal("the key does not serve")
		}
		feed(c, q)
		c.Delivered(d, due)
		if n := c.Report().Count(Altered); n != 1 {
			t.Errorf("after %d routes %d are altered, want 1", i+1, n)
		}
	}
}

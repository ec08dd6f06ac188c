package check

import (
	"fmt"
	"math"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Wherever in its log a target is, what is found there is named, and judged in the order of its log.
func TestOffsetsOfOldTargets(t *testing.T) {
	for _, at := range []int64{0, 7, 1 << 39, 1<<40 - 1, 1 << 40, 5 << 40, math.MaxInt64 - 10} {
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			w := newWorld()
			c := newChecker(t, w.config)
			var all, arrivals []*kgo.Record
			for range 3 {
				q := w.request("k", "v", "delay-until="+millis(due), "delay-target-topic=orders")
				all, arrivals = append(all, q), append(arrivals, w.deliver(q, due))
			}
			for i, r := range []*kgo.Record{arrivals[1], arrivals[0], arrivals[2]} {
				r.Offset = at + int64(i)
			}
			twice := *arrivals[2]
			twice.Offset++
			feed(c, all...)
			feed(c, arrivals[1], arrivals[0], arrivals[2], &twice)
			expectFaults(t, c, map[Kind]int64{Disordered: 1, Doubled: 1}, fmt.Sprintf("first at orders/%[1]d@%[2]d, now at orders/%[1]d@%[3]d", arrivals[2].Partition, at+2, at+3))
		})
	}
}

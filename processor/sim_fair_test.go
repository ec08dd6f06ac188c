//go:build synctests

package processor

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// What is due of one target does not wait for all that is due of another one. What was delivered so is not delivered again by the next owner.
func TestSimTargetsAreFair(t *testing.T) {
	const hot, batch, each = 4000, 20, 100 * time.Millisecond
	guarantees(t, worldConfig{latency: 5 * time.Millisecond, tune: func(c *Config) { c.BatchRecords = batch }}, func(w *world) {
		a := w.live("a")
		due := in(5 * time.Second)
		var all []*kgo.Record
		for i := range hot {
			all = append(all, request(fmt.Sprint("h", i), due))
		}
		w.send(all...)
		all = all[:0]
		for i := range 30 {
			all = append(all, addressed("bills", request(fmt.Sprint("b", i), due.Add(time.Duration(i)*each))))
		}
		w.send(all...)
		time.Sleep(time.Until(due.Add(time.Second)))
		for _, target := range a.p.Stats().Targets {
			switch n := target.Delivered; target.Target {
			case "bills":
				if n < 8 {
					t.Errorf("of 10 records for bills %d are delivered", n)
				}
			case "orders":
				if n == 0 || n >= hot-batch {
					t.Errorf("%d records for orders are delivered: the others have nothing to wait for", n)
				}
			}
		}
		a.kill()
		b := w.live("b")
		w.within(2*time.Minute, "all arrive", func() bool { return w.outstanding() <= 0 })
		w.finish()
		b.kill()
	})
}

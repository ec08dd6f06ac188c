//go:build synctests

package processor

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// What is due of one target does not wait for all that is due of another one, of which memory may hold a part alone. What was delivered so is not
// delivered again by the next owner.
func TestSimTargetsAreFair(t *testing.T) {
	const each = 100 * time.Millisecond
	for _, c := range []struct {
		name             string
		hot, size, batch int
	}{{"in memory", 4000, 0, 20}, {"in the store", 2500, 8 << 10, 8}} {
		t.Run(c.name, func(t *testing.T) {
			guarantees(t, worldConfig{latency: 5 * time.Millisecond, tune: func(cfg *Config) { cfg.BatchRecords = c.batch }}, func(w *world) {
				a := w.live("a")
				due := in(8 * time.Second)
				var all []*kgo.Record
				for i := range c.hot {
					r := request(fmt.Sprint("h", i), due)
					r.Value = append(r.Value, make([]byte, c.size)...)
					all = append(all, r)
				}
				w.send(all...)
				all = all[:0]
				for i := range 30 {
					all = append(all, addressed("bills", request(fmt.Sprint("b", i), due.Add(time.Duration(i)*each))))
				}
				w.send(all...)
				time.Sleep(time.Until(due.Add(-each)))
				held := a.p.Stats().Partitions[0]
				if far := held.Pending > held.Near; far != (c.size > 0) {
					w.t.Errorf("of %d records %d are in memory just before they are due", held.Pending, held.Near)
				}
				time.Sleep(time.Until(due.Add(time.Second)))
				for _, target := range a.p.Stats().Targets {
					switch n := int(target.Delivered); target.Target {
					case "bills":
						if n < 8 {
							w.t.Errorf("of 10 records for bills %d are delivered", n)
						}
					case "orders":
						if n == 0 || n >= c.hot-c.batch {
							w.t.Errorf("%d records for orders are delivered: the others have nothing to wait for", n)
						}
					}
				}
				a.kill()
				b := w.live("b")
				w.within(2*time.Minute, "all arrive", func() bool { return w.outstanding() <= 0 })
				w.finish()
				b.kill()
			})
		})
	}
}

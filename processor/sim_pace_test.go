//go:build synctests

package processor

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// What becomes due within turn_interval goes together, and no record is later for it than by that.
func TestSimTurnInterval(t *testing.T) {
	for _, interval := range []time.Duration{0, 50 * time.Millisecond} {
		t.Run(interval.String(), func(t *testing.T) {
			late := 30*time.Millisecond + interval
			scenario(t, worldConfig{late: late, tune: func(c *Config) { c.TurnInterval = interval }}, func(w *world) {
				a := w.live("a")
				before := a.p.Stats().Transactions["committed"]
				const n = 1000 // in a second
				var all []*kgo.Record
				for i := range n {
					all = append(all, request("r", in(time.Second+time.Duration(i)*time.Millisecond)))
				}
				w.send(all...)
				w.within(2*time.Second+late, "delivered", func() bool { return w.outstanding() == 0 })
				turns := a.p.Stats().Transactions["committed"] - before
				least, most := int64(80), int64(n/2+20) // 2 ms to 10 ms, and checkpoints
				if interval > 0 {
					least, most = 15, 25
				}
				if turns < least || turns > most {
					t.Errorf("%d turns, want %d to %d", turns, least, most)
				}
				w.finish()
			})
		})
	}
}

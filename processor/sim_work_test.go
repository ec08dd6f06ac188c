//go:build synctests

package processor

import (
	"fmt"
	"testing"
	"time"

	"github.com/duewheel/duewheel/processor/histogram"
)

// What keeps a lane is measured, each kind of work by its own name.
func TestSimWorkIsMeasured(t *testing.T) {
	scenario(t, worldConfig{partitions: 3}, func(w *world) {
		p := w.live("a")
		for n := range 10 {
			w.send(request(fmt.Sprint(n), in(time.Duration(n)*10*time.Second)))
		}
		w.finish()
		counted := map[string]int64{}
		for kind, took := range p.p.Stats().Work {
			for _, n := range took.Counts {
				counted[kind] += n
			}
			if longest := took.Longest(); longest > histogram.Bounds[0] && kind != "move" { // which waits for a turn
				w.fail("%s took %g s, where only waiting takes time", kind, longest)
			}
		}
		for _, kind := range []string{"accept", "spill", "load", "live", "turn", "tidy", "move"} {
			if counted[kind] < 3 {
				w.fail("%s was measured %d times", kind, counted[kind])
			}
		}
	})
}

//go:build synctests

package processor

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/topics"
)

// A process that has just started knows none of the targets of what is due. It looks up hundreds
// of them together.
func TestSimManyTargets(t *testing.T) {
	const n = 250 // more than are asked for in one request
	var cfg worldConfig
	for i := range n {
		cfg.more = append(cfg.more, fmt.Sprint("t", i))
	}
	scenario(t, cfg, func(w *world) {
		a := w.live("a")
		due := in(30 * time.Second)
		for i := range n {
			r := request(fmt.Sprint(i), due)
			r.Headers[2] = kgo.RecordHeader{Key: topics.HeaderTargetTopic, Value: []byte(cfg.more[i])}
			w.send(r)
		}
		w.send(request("behind them", due.Add(time.Millisecond)))
		time.Sleep(time.Until(due.Add(-5 * time.Second)))
		a.shut()
		time.Sleep(time.Until(due.Add(-2 * time.Second)))
		b := w.start("b", nil)
		w.until("live", func() bool { return b.live(1) })
		time.Sleep(time.Until(due))
		w.within(250*time.Millisecond, "all arrive", func() bool { return w.outstanding() == 0 })
		if n := b.p.Stats().Retried; n > 0 {
			t.Errorf("%d were carried on", n)
		}
		w.clean()
		b.kill()
	})
}

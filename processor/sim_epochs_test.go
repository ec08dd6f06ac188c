//go:build synctests

package processor

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// While no transactional id becomes free, ids are asked for now and then, and so are checkpoints: by lanes that run, by those that
// start, and by those that take over what others have left in the middle of transactions.
func TestSimEveryIDStaysBusy(t *testing.T) {
	for _, lanes := range []int{1, 2} {
		t.Run(fmt.Sprint(lanes, " lanes"), func(t *testing.T) {
			scenario(t, worldConfig{partitions: 4, tune: func(c *Config) { c.Lanes = lanes }}, func(w *world) {
				a := w.live("a")
				b := w.start("b", nil)
				w.within(soonEnough, "shared out", func() bool { return a.live(2) && b.live(2) })
				for i := range 80 {
					w.send(to(int32(i%4), request(fmt.Sprint(i), in(time.Duration(i)*125*time.Millisecond))))
				}
				time.Sleep(time.Second)
				undecided := a.link.on(rule{key: kmsg.EndTxn, count: -1, wait: make(chan struct{})})
				for range lanes {
					<-undecided
				}
				refusal := w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.InitProducerID}, TopLevel: true, Err: kerr.ConcurrentTransactions, Count: -1})
				a.kill()
				time.Sleep(5 * time.Second) // b fences both of a's lanes in vain
				turns := w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.EndTxn}, TopLevel: true, Err: kerr.UnknownServerError, Count: lanes})
				w.within(5*time.Second, "a turn fails", func() bool { return turns.Hits() > 0 })
				c := w.start("c", nil)
				time.Sleep(12 * time.Second)
				if refusal.Hits() < 50*lanes {
					t.Errorf("%d requests were refused", refusal.Hits())
				}
				for _, p := range []*process{b, c} {
					t.Logf("%s has asked for ids %d times in a second, and for checkpoints %d times", p.name, p.worst(kmsg.InitProducerID.Name()), p.worst(kmsg.OffsetFetch.Name()))
				}
				refusal.Remove()
				turns.Remove()
				w.finish()
			})
		})
	}
}

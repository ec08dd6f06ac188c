//go:build synctests

package processor

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A process that is told to stop ends within its time, whatever brokers do and wherever it stands, and
// leaves nothing behind that the next one could not sort out.
func TestSimStopsInTime(t *testing.T) {
	type scene struct {
		name   string
		frozen []int32    // brokers that do not answer any more
		is     roles      // of the first
		at     []kmsg.Key // as this is sent, else while nothing is on its way
		most   time.Duration
	}
	all := []int32{0, 1, 2}
	one := []int32{1}
	for _, c := range []scene{
		{"brokers are well", nil, roles{}, nil, 100 * time.Millisecond},
		{"no broker answers", all, roles{}, nil, 20 * time.Second},
		{"no broker answers the offsets", all, roles{}, []kmsg.Key{kmsg.TxnOffsetCommit, kmsg.OffsetCommit}, 20 * time.Second},
		{"no broker answers the decision", all, roles{}, []kmsg.Key{kmsg.EndTxn, kmsg.Produce}, 20 * time.Second},
		{"the coordinator of the group", one, roles{group: true}, []kmsg.Key{kmsg.TxnOffsetCommit, kmsg.OffsetCommit}, 12 * time.Second},
		{"the coordinator of transactions", one, roles{writers: true}, []kmsg.Key{kmsg.EndTxn, kmsg.Produce}, 16 * time.Second},
		{"the leader of a target", one, roles{topics: []string{"orders", "bills"}}, []kmsg.Key{kmsg.Produce}, 16 * time.Second},
		{"the leader of the delay topic", one, roles{topics: []string{simTopic}}, []kmsg.Key{kmsg.Produce}, 200 * time.Millisecond},
		{"another broker", one, roles{}, []kmsg.Key{kmsg.Produce}, 200 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			guarantees(t, worldConfig{brokers: 3, partitions: 4}, func(w *world) {
				a, b := w.start("a", nil), w.start("b", nil)
				w.until("live", func() bool { return a.live(2) && b.live(2) })
				is := c.is
				is.writers = is.writers && w.cfg.guarantee == ExactlyOnce
				w.give(1, is)
				var f flow
				f.begin(w, b)
				f.run(4 * time.Second)
				var thaw []func()
				freeze := func() {
					for _, node := range c.frozen {
						thaw = append(thaw, w.freezeBroker(node))
					}
				}
				if c.at == nil {
					freeze()
				} else {
					hit := a.link.on(rule{key: c.at[len(c.at)-1], call: freeze})
					if w.cfg.guarantee == ExactlyOnce {
						a.link.clear()
						hit = a.link.on(rule{key: c.at[0], call: freeze})
					}
					rec := request("last", time.Now())
					for p := range w.cfg.partitions {
						rec.Partition = p
						again := *rec
						w.client.Produce(context.Background(), &again, nil)
					}
					w.hit(hit)
				}
				began := time.Now()
				a.shut()
				took := time.Since(began)
				t.Logf("it took %v", took)
				if took > c.most {
					t.Errorf("it took %v, and %v is the limit", took, c.most)
				}
				for _, thaw := range thaw {
					thaw()
				}
				w.within(20*time.Second, "all is live again", func() bool { return b.live(4) })
				w.finish()
			})
		})
	}
}

// A process that is told to stop while its group rebalances waits for the end of that to say what it has
// delivered: at_least_once delivers nothing twice for it.
func TestSimStopWhileRebalancing(t *testing.T) {
	for _, why := range []*kerr.Error{kerr.RebalanceInProgress, kerr.IllegalGeneration} {
		t.Run(why.Message, func(t *testing.T) {
			scenario(t, worldConfig{guarantee: AtLeastOnce}, func(w *world) {
				a := w.live("a")
				for i := range 60 {
					w.send(request(fmt.Sprint(i), in(0)))
					time.Sleep(7 * time.Millisecond)
				}
				refused := w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: why, Count: -1})
				time.AfterFunc(300*time.Millisecond, refused.Remove)
				began := time.Now()
				a.shut()
				if took := time.Since(began); took > time.Second {
					t.Errorf("it took %v", took)
				}
				if refused.Hits() < 3 {
					t.Errorf("%d commits were refused", refused.Hits())
				}
				w.finish()
				equal(t, "doubled", w.watch.Counts().Doubled, 0)
			})
		})
	}
}

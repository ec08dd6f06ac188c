//go:build synctests

package processor

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kversion"
)

// A broker that refuses connections is dialled a few times a second, whatever is asked of it: as
// leader, and as coordinator of transactions that have to be told of their partitions.
func TestSimDialRefused(t *testing.T) {
	for _, versions := range []*kversion.Versions{nil, kversion.V3_9_0()} {
		t.Run(fmt.Sprint("old transactions ", versions != nil), func(t *testing.T) {
			scenario(t, worldConfig{brokers: 3, partitions: 2, versions: versions}, func(w *world) {
				a := w.live("a")
				for i := range 3 {
					w.give(int32(i), roles{group: true, writers: true, topics: []string{simTopic, "orders", "bills"}})
					time.Sleep(time.Second) // it is found
					mend := a.link.refuse(w.cluster.ListenAddrs()[i])
					before := a.link.dials.Load()
					for k := range 50 {
						w.send(to(int32(k%2), request(fmt.Sprint(k), in(0))))
						time.Sleep(100 * time.Millisecond)
					}
					if n := a.link.dials.Load() - before; n < 5 || n > 200 {
						t.Errorf("%d dials in 5 s", n)
					}
					mend()
					w.within(20*time.Second, "delivered", func() bool { return w.outstanding() == 0 })
				}
				w.finish()
			})
		})
	}
}

// A client that is closed gives up what it waits for at once. That is no silence of its broker: where all brokers answer, none is
// taken for silent, and no connection of another client is cut.
func TestSimBrokersThatAnswer(t *testing.T) {
	scenario(t, worldConfig{partitions: 2, brokers: 3}, func(w *world) {
		for _, name := range []string{"a", "b"} {
			p := w.live(name)
			w.send(request(name, in(0)))
			w.within(soonEnough, "delivered", func() bool { return w.outstanding() == 0 })
			p.shut()
		}
		if strings.Contains(w.history(), "a broker does not answer") {
			w.fail("a healthy broker was taken for a silent one")
		}
		w.start("c", nil)
		w.finish()
	})
}

// A producer of requests that is left when the cluster is gone does not stop the bubble's clock, although its client tries again at
// once, and for ever, to add partitions to its transaction.
func TestSimClusterGone(t *testing.T) {
	scenario(t, worldConfig{partitions: 2, versions: kversion.V3_9_0()}, func(w *world) {
		cl, err := kgo.NewClient(append(w.outside, kgo.TransactionalID("left"), kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
		if err != nil {
			t.Fatal(err)
		}
		if err := cl.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		if err := cl.ProduceSync(context.Background(), to(0, request("k", in(time.Hour)))).FirstErr(); err != nil {
			t.Fatal(err)
		}
		w.wg.Go(func() {
			defer cl.Close()
			<-w.closing
			time.Sleep(time.Second) // the cluster is closed meanwhile
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			if err := cl.ProduceSync(ctx, to(1, request("k", in(time.Hour)))).FirstErr(); err == nil {
				t.Error("produced without a cluster")
			}
		})
	})
}

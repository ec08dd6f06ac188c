//go:build synctests

package processor

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/wait"
)

// overlap is how producers of requests write in transactions that are long and overlap for ever, as
// those of Flink and Kafka Streams do: the last stable offset never reaches the high watermark.
type overlap struct {
	producers int                                            // at least two
	each      time.Duration                                  // how long a transaction is open
	records   int                                            // in each transaction, spread over its time
	aborted   func(n int) bool                               // which of each producer's transactions are aborted; nil: none
	request   func(producer, transaction, n int) *kgo.Record // nil: due in a day
}

// overlap has producers write until stop is called, which waits for their last transactions.
func (w *world) overlap(o overlap) (stop func()) {
	w.t.Helper()
	if o.request == nil {
		o.request = func(producer, transaction, n int) *kgo.Record {
			return request(fmt.Sprintf("overlap %d-%d-%d", producer, transaction, n), in(24*time.Hour))
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	stopped, ended := make(chan struct{}), make(chan struct{})
	w.host.wg.Go(func() {
		defer cancel()
		select {
		case <-w.host.closing: // a test that has failed does not stop them
		case <-ended:
		}
	})
	var wg sync.WaitGroup
	for i := range o.producers {
		wg.Add(1)
		w.host.wg.Go(func() {
			defer wg.Done()
			wait.For(ctx, time.Duration(i)*o.each/time.Duration(o.producers))
			w.overlapping(ctx, o, i, stopped)
		})
	}
	w.host.wg.Go(func() {
		wg.Wait()
		close(ended)
	})
	told := sync.OnceFunc(func() { close(stopped) })
	return func() {
		told()
		<-ended
	}
}

// overlapping writes one transaction after the other.
func (w *world) overlapping(ctx context.Context, o overlap, producer int, stopped <-chan struct{}) {
	id := fmt.Sprintf("requests-%d", producer)
	cl, err := kgo.NewClient(append(w.outside, kgo.TransactionalID(id), kgo.TransactionTimeout(time.Minute), kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if err != nil {
		w.fail("%v", err)
	}
	defer cl.Close()
	for n := 0; ctx.Err() == nil; n++ {
		select {
		case <-stopped:
			return
		default:
		}
		if err := cl.BeginTransaction(); err != nil {
			w.note("%s: %v", id, err)
			return
		}
		for k := range o.records {
			if err := cl.ProduceSync(ctx, w.prefixed(o.request(producer, n, k))).FirstErr(); err != nil {
				w.note("%s: %v", id, err)
			}
			wait.For(ctx, o.each/time.Duration(o.records))
		}
		commit := o.aborted == nil || !o.aborted(n)
		if err := cl.EndTransaction(ctx, kgo.TransactionEndTry(commit)); err != nil {
			w.note("%s: %v", id, err)
		}
	}
}

// unstable looks at the delay topic ten times a second until it is told to end, and then says how
// often it looked and how often there was no open transaction.
func (w *world) unstable() (end func() (looks, stable int)) {
	stop, done := make(chan struct{}), make(chan struct{})
	looks, stable := 0, 0
	w.host.wg.Go(func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			case <-w.host.closing:
				return
			case <-time.After(100 * time.Millisecond):
			}
			looks++
			if info := w.cluster.PartitionInfo(simTopic, 0); info.LastStableOffset == info.HighWatermark {
				stable++
			}
		}
	})
	return func() (int, int) {
		close(stop)
		<-done
		return looks, stable
	}
}

// Design rule 2: a catch-up ends although the last stable offset never reaches the high watermark.
// What records of ours lie above O is waited for, which takes as long as the transactions that were
// open beside them, and nothing that was written later.
func TestSimCatchUpBesideOverlappingTransactions(t *testing.T) {
	const each = 6 * time.Second
	for _, appended := range []string{"", "retry", "resolve"} {
		t.Run("appended "+appended, func(t *testing.T) {
			scenario(t, worldConfig{}, func(w *world) {
				a := w.live("a")
				w.send(request("known", in(0)))
				w.until("targets are known", func() bool { return w.outstanding() == 0 })
				stop := w.overlap(overlap{producers: 2, each: each, records: 6, aborted: func(n int) bool { return n%3 == 2 }})
				time.Sleep(2 * each)
				looks := w.unstable()
				mend := func() {}
				switch appended {
				case "retry":
					mend = w.leaderless("orders")
					time.Sleep(time.Second)
					w.send(request("tried again", in(0)))
				case "resolve":
					w.send(forTarget("forbidden", "refused", in(20*time.Second)))
				}
				w.until("records of ours above O", func() bool { c, _ := w.checkpoint(0); return c.Offset > 12 && (c.Appended || appended == "") })
				a.kill()
				mend()
				b := w.start("b", nil)
				w.within(soonEnough+each, "live", func() bool { return b.live(1) })
				w.send(request("later", in(0)))
				time.Sleep(3 * each)
				n, stable := looks()
				if stable > 0 || n < 100 {
					t.Errorf("no transaction was open %d times of %d", stable, n)
				}
				stop()
				want := map[string]int64{"": 2, "retry": 3, "resolve": 2}[appended]
				if got := w.watch.Counts(); got.Delivered != want {
					t.Errorf("%s", got.Summary())
				}
				w.clean()
				b.kill()
			})
		})
	}
}

// What was aborted is not seen by readers, nor is it waited for, although a transaction is open for
// ever that began before its marker.
func TestSimCatchUpBesideAbortedTransactions(t *testing.T) {
	scenario(t, worldConfig{}, func(w *world) {
		a := w.live("a")
		w.send(request("x", in(0)))
		aborted := w.transaction(request("aborted", in(0)), request("aborted", in(0)))
		open := w.transaction(request("committed", in(0)))
		aborted(false)
		w.until("delivered", func() bool { return w.watch.Counts().Delivered == 1 })
		a.kill()
		b := w.start("b", nil)
		w.within(soonEnough, "live", func() bool { return b.live(1) })
		if info := w.cluster.PartitionInfo(simTopic, 0); info.LastStableOffset != 3 || info.HighWatermark != 5 {
			t.Errorf("last stable offset %d and high watermark %d, want 3 and 5", info.LastStableOffset, info.HighWatermark)
		}
		open(true)
		w.until("what is committed at last is delivered", func() bool { return w.watch.Counts().Delivered == 2 })
		w.finish()
	})
}

package check

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// cluster is a fake cluster with the topics of a world, and a client that writes where it is told.
type cluster struct {
	*testing.T
	fake   *kfake.Cluster
	client *kgo.Client
	addrs  kgo.Opt
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	fake, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(4, "requests", "requests.dead", "orders", "bills.de"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fake.Close)
	c := &cluster{T: t, fake: fake, addrs: kgo.SeedBrokers(fake.ListenAddrs()...)}
	c.client = c.connect()
	return c
}

func (c *cluster) connect(more ...kgo.Opt) *kgo.Client {
	client, err := kgo.NewClient(append(more, c.addrs, kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if err != nil {
		c.Fatal(err)
	}
	c.Cleanup(client.Close)
	return client
}

func (c *cluster) write(records ...*kgo.Record) {
	c.Helper()
	for _, r := range records {
		copied := *r
		if err := c.client.ProduceSync(c.Context(), &copied).FirstErr(); err != nil {
			c.Fatal(err)
		}
		if copied.Offset != r.Offset {
			c.Fatalf("written to offset %d of %s/%d instead of %d", copied.Offset, r.Topic, r.Partition, r.Offset)
		}
	}
}

// transact writes records in a transaction of their own.
func (c *cluster) transact(end kgo.TransactionEndTry, records ...*kgo.Record) {
	c.Helper()
	client := c.connect(kgo.TransactionalID(c.Name()))
	if err := client.BeginTransaction(); err != nil {
		c.Fatal(err)
	}
	for _, r := range records {
		copied := *r
		if err := client.ProduceSync(c.Context(), &copied).FirstErr(); err != nil {
			c.Fatal(err)
		}
	}
	if err := client.EndTransaction(c.Context(), end); err != nil {
		c.Fatal(err)
	}
}

func (c *cluster) watch(w *world) *Watch {
	c.Helper()
	config := w.config
	config.Routes[0].TopicID = [16]byte{} // the cluster tells
	watch, err := Start(c.Context(), config, c.addrs)
	if err != nil {
		c.Fatal(err)
	}
	return watch
}

func (c *cluster) stop(w *Watch) *Report {
	c.Helper()
	ctx, cancel := context.WithTimeout(c.Context(), 20*time.Second)
	defer cancel()
	report, err := w.Stop(ctx)
	if err != nil {
		c.Fatal(err)
	}
	return report
}

// TestWatch finds the fault of each case in a cluster, and reports the request in full.
func TestWatch(t *testing.T) {
	for _, tt := range cases {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c, o := newCluster(t), honest()
			tt.spoil(o)
			watch := c.watch(o.w)
			c.write(o.good, o.bad)
			if strings.Contains(tt.name, "aborted") {
				aborted := *o.good
				c.transact(kgo.TryAbort, &aborted)
			}
			// What is written is placed by the world; a case may have left holes.
			next := make(map[topicPartition]int64)
			for _, r := range o.arrivals {
				key := topicPartition{r.Topic, r.Partition}
				r.Offset = next[key]
				next[key]++
			}
			c.write(o.arrivals...)
			report := c.stop(watch)
			for _, k := range Kinds() {
				if report.Count(k) != tt.want[k] {
					t.Errorf("%s: %d, want %d", k, report.Count(k), tt.want[k])
				}
			}
			for _, f := range report.Found[Missing].First {
				if f.Request == nil || string(f.Request.Value) != "v" {
					t.Error("the missing request is not reported in full")
				}
			}
			if t.Failed() {
				t.Log(report)
			}
		})
	}
}

// TestWatchOrder: order is judged in a cluster, too.
func TestWatchOrder(t *testing.T) {
	c, w := newCluster(t), newWorld()
	var q [2]*kgo.Record
	for i := range q {
		q[i] = w.request("k", "v", "delay-until="+millis(due), "delay-target-topic=orders")
	}
	c.write(q[0], q[1], w.deliver(q[1], due), w.deliver(q[0], due))
	report, err := Read(t.Context(), w.config, c.addrs)
	if err != nil {
		t.Fatal(err)
	}
	if report.Count(Disordered) != 1 || report.Faults != 1 {
		t.Error(report)
	}
}

// TestWait returns when the last outstanding record arrives, and not before; what is in an open transaction has not arrived.
func TestWait(t *testing.T) {
	c, o := newCluster(t), honest()
	watch := c.watch(o.w)
	c.write(o.good, o.bad, o.arrivals[1])

	short, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := watch.Wait(short); !errors.Is(err, ErrWaiting) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Wait = %v, want %v", err, ErrWaiting)
	}
	if n := watch.Counts(); n.Outstanding != 1 || n.Requested != 2 {
		t.Errorf("%s", n.Summary())
	}
	waited := make(chan error, 1)
	go func() { waited <- watch.Wait(t.Context()) }()

	open := c.connect(kgo.TransactionalID("open"))
	if err := open.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	delivery := *o.arrivals[0]
	if err := open.ProduceSync(t.Context(), &delivery).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if n := watch.Counts(); n.Delivered != 0 {
		t.Errorf("an open transaction was seen: %s", n.Summary())
	}
	if err := open.EndTransaction(t.Context(), kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
	if err := <-waited; err != nil {
		t.Error(err)
	}
	if report := c.stop(watch); report.Err() != nil || report.Delivered != 1 {
		t.Error(report)
	}
}

// TestWatchStops: a watch ends whenever it is told to, and what it was waiting for is told.
func TestWatchStops(t *testing.T) {
	c, o := newCluster(t), honest()
	c.write(o.good)
	for range 10 {
		watch := c.watch(o.w)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := watch.Stop(ctx); err == nil {
			t.Error("Stop read to the end of all topics although its context had ended")
		}
		if err := watch.Wait(t.Context()); err == nil {
			t.Error("Wait waited for the good request, and returned without it")
		}
	}
}

// holdFetches holds up whatever is fetched from now on; held tells when there is something.
func (c *cluster) holdFetches() (held <-chan struct{}, resume func()) {
	h, r := make(chan struct{}), make(chan struct{})
	var first sync.Once
	c.fake.ControlKey(int16(kmsg.Fetch), func(kmsg.Request) (kmsg.Response, error, bool) {
		first.Do(func() { close(h) })
		select {
		case <-r:
			c.fake.DropControl()
		default:
			c.fake.SleepControl(func() { <-r })
		}
		return nil, nil, false
	})
	return h, func() { close(r) }
}

// TestVanished: a topic that is deleted is not waited for, if that was to be expected.
func TestVanished(t *testing.T) {
	c, w := newCluster(t), newWorld()
	w.config.Targets[1].MayVanish = true
	watch := c.watch(w)
	held, resume := c.holdFetches()
	<-held
	c.write(w.append(&kgo.Record{Topic: "bills.de", Value: []byte("unread")}))
	ends, err := watch.ends(t.Context())
	if err != nil || ends[topicPartition{"bills.de", 0}] != 1 {
		t.Fatal(ends, err)
	}
	if err := c.fake.DeleteTopic("bills.de"); err != nil {
		t.Fatal(err)
	}
	resume()
	if err := watch.reach(t.Context(), ends); err != nil {
		t.Error(err)
	}
	if report := c.stop(watch); report.Faults != 0 {
		t.Error(report)
	}
}

// TestReadAgain: what a client fetches once more after a failure is not doubled.
func TestReadAgain(t *testing.T) {
	c, o := newCluster(t), honest()
	watch := c.watch(o.w)
	c.write(o.good, o.bad, o.arrivals[0], o.arrivals[1])
	if err := watch.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	again := kgo.Fetches{{Topics: []kgo.FetchTopic{{Topic: "orders", Partitions: []kgo.FetchPartition{{Records: o.arrivals[:1]}}}}}}
	watch.take(again, time.Now())
	if report := c.stop(watch); report.Err() != nil || report.Delivered != 1 {
		t.Error(report)
	}
}

// TestTrimmed: what was trimmed before the watch began is not waited for.
func TestTrimmed(t *testing.T) {
	c, o := newCluster(t), honest()
	c.write(o.good, o.bad)
	if err := c.fake.DeleteRecords("requests", 1, 2); err != nil {
		t.Fatal(err)
	}
	if report := c.stop(c.watch(o.w)); report.Requested != 0 || report.Err() != nil {
		t.Error(report)
	}
}

// TestLostSight: what is trimmed before it was read cannot be judged, and that is said.
func TestLostSight(t *testing.T) {
	c, o := newCluster(t), honest()
	c.write(o.good, o.bad)
	watch := c.watch(o.w)
	if err := watch.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	// The watch is at offset 2. While its next fetch is held up, the topic goes on and is trimmed.
	held, resume := c.holdFetches()
	<-held
	c.write(o.w.request("k", "v"), o.w.request("k", "v"), o.w.request("k", "v"))
	if err := c.fake.DeleteRecords("requests", 1, 4); err != nil {
		t.Fatal(err)
	}
	resume()
	err := watch.until(t.Context(), func() string { return "for the end" })
	if !errors.Is(err, ErrLostSight) {
		t.Errorf("got %v, want %v", err, ErrLostSight)
	}
	<-watch.done
	watch.client.Close()
}

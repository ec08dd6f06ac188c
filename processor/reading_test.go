package processor

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/kafka"
)

// A partition of which nothing was decoded goes on where it was.
func TestCutFetchIsNoError(t *testing.T) {
	l := testLane(t)
	p := livePartition(t, l)
	l.read(t, p, testNow, req(0, ms(1000), "orders"))
	_, l.reading.endPoll = context.WithCancel(t.Context())
	l.acceptAll(t.Context(), kgo.Fetches{{Topics: []kgo.FetchTopic{{Topic: testTopic, Partitions: []kgo.FetchPartition{
		{Partition: testTP.Partition, Err: fmt.Errorf("decompress: %w", kafka.ErrCut)},
	}}}}})
	if l.partitions[testTP] != p || !p.live() {
		t.Error("it starts over")
	}
	equal(t, "pending", p.Pending(), 1)
}

// What brokers refuse is paused before it is asked for again, and was not read.
func TestRefusedFetchIsNotRead(t *testing.T) {
	l := testLane(t)
	p := livePartition(t, l)
	l.balancedAt = time.Now()
	_, l.reading.endPoll = context.WithCancel(t.Context())
	l.acceptAll(t.Context(), kgo.Fetches{{Topics: []kgo.FetchTopic{{Topic: testTopic, Partitions: []kgo.FetchPartition{{Partition: testTP.Partition, Err: kerr.TopicAuthorizationFailed}}}}}})
	equal(t, "it was read", p.readAt.IsZero(), true)
	equal(t, "its reading is looked at again at once", l.balancedAt.IsZero(), true)
}

// Control records are read: they advance the position, and logs end in them.
func TestReaderSeesMarkers(t *testing.T) {
	l, w := testCluster(t)
	cl, err := kgo.NewClient(append(slices.Clone(l.cfg.Client), kgo.TransactionalID("someone"), kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	for _, how := range []kgo.TransactionEndTry{kgo.TryAbort, kgo.TryCommit} {
		if err := cl.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: testTopic}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if err := cl.EndTransaction(t.Context(), how); err != nil {
			t.Fatal(err)
		}
	}
	high := w.C.PartitionInfo(testTopic, 0).HighWatermark
	l.reader.AddConsumePartitions(map[string]map[int32]kgo.Offset{testTopic: {0: kgo.NewOffset().At(0)}})
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	var records, controls []int64
	for last := int64(-1); last < high-1; {
		fs := l.reader.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Fatalf("nothing is read up to %d after %d", high, last)
		}
		fs.EachRecord(func(r *kgo.Record) {
			last = r.Offset
			if r.Attrs.IsControl() {
				controls = append(controls, r.Offset)
			} else {
				records = append(records, r.Offset)
			}
		})
	}
	equals(t, "records", records, []int64{2}) // what was aborted never counts
	if n := len(controls); n == 0 || controls[n-1] != 3 {
		t.Errorf("markers are read at %v, want one at 3", controls)
	}
}

package kafka

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Batches of a thousand times their size are decoded one by one, and nothing is passed over by that: what was aborted does not count, nor end it.
func TestDecodeSome(t *testing.T) {
	const size = 1 << 20
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "t"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.TransactionalID("id"), kgo.ProducerBatchCompression(kgo.ZstdCompression()), kgo.ProducerBatchMaxBytes(2*size))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ctx := t.Context()
	for i, end := range []kgo.TransactionEndTry{kgo.TryAbort, kgo.TryCommit, kgo.TryAbort, kgo.TryCommit} {
		if err := cl.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		for k := range 5 {
			if err := cl.ProduceSync(ctx, &kgo.Record{Topic: "t", Key: fmt.Appendf(nil, "%d/%d", i, k), Value: make([]byte, size)}).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		if err := cl.EndTransaction(ctx, end); err != nil {
			t.Fatal(err)
		}
	}
	tp := TopicPartition{Topic: "t"}
	md, err := kadm.NewClient(cl).Metadata(ctx, "t")
	if err != nil {
		t.Fatal(err)
	}
	leader, err := LeaderOf(ctx, cl, tp)
	if err != nil {
		t.Fatal(err)
	}
	got, parts := 0, 0
	for from := int64(0); from < 24; parts++ {
		answer, err := FetchOnce(ctx, leader, tp, TopicID(md.Topics["t"].ID), from, size)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(answer.RecordBatches); n > size/50 {
			t.Fatalf("%d bytes were fetched, and that is no test", n)
		}
		records, next, err := DecodeSome(tp, from, answer, 2*size)
		if err != nil || next <= from {
			t.Fatalf("from %d on: up to %d, %v", from, next, err)
		}
		inflated := 0
		for _, r := range records {
			if inflated += len(r.Value); !r.Attrs.IsControl() {
				if want := fmt.Sprintf("%d/%d", 1+2*(got/5), got%5); string(r.Key) != want {
					t.Errorf("record %d is %q, want %q", got, r.Key, want)
				}
				got++
			}
		}
		if inflated > 3*size {
			t.Errorf("%d bytes were decompressed at once", inflated)
		}
		from = next
	}
	if got != 10 || parts < 8 {
		t.Errorf("%d records in %d parts", got, parts)
	}
}

// What a quota has left nothing of is asked again.
func TestFetchOnceWaitsForAQuota(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "t"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.DefaultProduceTopic("t"))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if err := cl.ProduceSync(t.Context(), kgo.StringRecord("v")).FirstErr(); err != nil {
		t.Fatal(err)
	}
	leader, err := LeaderOf(t.Context(), cl, TopicPartition{Topic: "t"})
	if err != nil {
		t.Fatal(err)
	}
	throttled := 0
	c.ControlKey(int16(kmsg.Fetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		if f := req.(*kmsg.FetchRequest); f.MinBytes != 0 || f.MaxWaitMillis < 500 { // what lies in tiered storage takes a while
			t.Errorf("it waits for %d bytes, and for %d ms at most", f.MinBytes, f.MaxWaitMillis)
		}
		if throttled++; throttled > 2 {
			return nil, nil, false
		}
		c.KeepControl()
		resp := req.ResponseKind().(*kmsg.FetchResponse)
		resp.ThrottleMillis = 20
		return resp, nil, true
	})
	answer, err := FetchOnce(t.Context(), leader, TopicPartition{Topic: "t"}, TopicID(c.TopicInfo("t").TopicID), 0, 1<<20)
	if err != nil || len(answer.RecordBatches) == 0 || throttled != 3 {
		t.Errorf("asked %d times: %v, %v", throttled, answer, err)
	}
}

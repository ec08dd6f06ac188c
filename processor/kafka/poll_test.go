package kafka

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// What is accepted in one step is bounded in records, and in bytes where they are large.
func TestPollIsBounded(t *testing.T) {
	for _, c := range []struct {
		name        string
		size, n     int
		least, most int // records of a poll
	}{{"small", 10, 3 * pollRecords, pollRecords, pollRecords}, {"large", 256 << 10, 60, 6, 9}, {"too large", 3 << 20, 3, pollFirst, pollFirst}} {
		t.Run(c.name, func(t *testing.T) {
			broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "t"), kfake.BrokerConfigs(map[string]string{"message.max.bytes": "8000000"}))
			if err != nil {
				t.Fatal(err)
			}
			defer broker.Close()
			cl, err := kgo.NewClient(kgo.SeedBrokers(broker.ListenAddrs()...), kgo.DefaultProduceTopic("t"), kgo.ProducerBatchMaxBytes(4<<20))
			if err != nil {
				t.Fatal(err)
			}
			defer cl.Close()
			for range c.n {
				cl.Produce(t.Context(), &kgo.Record{Value: make([]byte, c.size)}, func(_ *kgo.Record, err error) {
					if err != nil {
						t.Error(err)
					}
				})
			}
			if err := cl.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			r, closes, err := NewReader([]kgo.Opt{kgo.SeedBrokers(broker.ListenAddrs()...)}, 64<<20)
			if err != nil {
				t.Fatal(err)
			}
			defer closes()
			r.AddConsumePartitions(map[string]map[int32]kgo.Offset{"t": {0: kgo.NewOffset().At(0)}})
			for deadline := time.Now().Add(10 * time.Second); r.BufferedFetchRecords() < 1; time.Sleep(time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatal("nothing was fetched")
				}
			}
			next, most := int64(0), 0
			for next < int64(c.n) {
				fs := PollSome(t.Context(), r)
				if err := fs.Err(); err != nil {
					t.Fatal(err)
				}
				fs.EachRecord(func(rec *kgo.Record) {
					if rec.Offset != next {
						t.Fatalf("offset %d follows %d", rec.Offset, next-1)
					}
					next++
				})
				if n := fs.NumRecords(); n > c.most {
					t.Errorf("%d records are accepted at once, and %d may be", n, c.most)
				} else {
					most = max(most, n)
				}
			}
			if most < c.least {
				t.Errorf("%d records are accepted at once", most)
			}
			ctx, end := context.WithCancel(t.Context())
			end()
			if fs := PollSome(ctx, r); fs.NumRecords() > 0 {
				t.Errorf("there are %d more", fs.NumRecords())
			}
		})
	}
}

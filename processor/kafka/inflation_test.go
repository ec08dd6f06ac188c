package kafka

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Fetches of batches that are compressed to a hundredth take little memory all the same, and all of their records come, each once and in order.
func TestReaderBoundsWhatIsDecoded(t *testing.T) {
	for _, brokers := range []int{1, 4} {
		t.Run(fmt.Sprint(brokers), func(t *testing.T) { readerBounds(t, brokers) })
	}
}

func readerBounds(t *testing.T, brokers int) {
	const partitions, each, size, fetch = 8, 24, 256 << 10, 512 << 10
	c, err := kfake.NewCluster(kfake.NumBrokers(brokers), kfake.SeedTopics(partitions, "t"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(kgo.ZstdCompression()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ctx := t.Context()
	for i := range each {
		for p := range int32(partitions) { // one batch for each
			if err := cl.ProduceSync(ctx, &kgo.Record{Topic: "t", Partition: p, Key: fmt.Append(nil, i), Value: bytes.Repeat([]byte{byte(i)}, size)}).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
	}
	r, closes, err := NewReader([]kgo.Opt{kgo.SeedBrokers(c.ListenAddrs()...)}, fetch)
	if err != nil {
		t.Fatal(err)
	}
	defer closes()
	from := map[int32]kgo.Offset{}
	for p := range int32(partitions) {
		from[p] = kgo.NewOffset().At(0)
	}
	r.AddConsumePartitions(map[string]map[int32]kgo.Offset{"t": from})
	next, got, most := map[int32]int64{}, 0, int64(0)
	for got < partitions*each {
		fs := r.PollRecords(ctx, 1)
		most = max(most, r.BufferedFetchBytes())
		fs.EachError(func(_ string, p int32, err error) {
			if !IsCut(err) {
				t.Fatalf("partition %d: %v", p, err)
			}
		})
		fs.EachRecord(func(rec *kgo.Record) {
			if rec.Offset != next[rec.Partition] || string(rec.Key) != fmt.Sprint(rec.Offset) || len(rec.Value) != size || rec.Value[size-1] != byte(rec.Offset) {
				t.Fatalf("offset %d of partition %d has key %s; offset %d was expected", rec.Offset, rec.Partition, rec.Key, next[rec.Partition])
			}
			next[rec.Partition]++
			got++
			rec.Recycle()
		})
	}
	// The first fetches of several brokers do not know of each other yet.
	if bound := int64(inflated*fetch*min(brokers, 2) + brokers*size); most > bound || most < size {
		t.Errorf("%d bytes were decoded at once, and %d may be", most, bound)
	}
}

package kafka

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
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
			if !errors.Is(err, ErrCut) {
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

// Fetches are as large as what they took in memory of late suggests, and brokers that have something share that.
func TestFetchesFollowWhatTheyTake(t *testing.T) {
	const fetch = 16 << 20
	x := newInflation(fetch, nil)
	var asked int32
	x.resize = func(f, partition int32) {
		if asked = f; partition != f/2 {
			t.Errorf("%d bytes are asked for, and %d of a partition", f, partition)
		}
	}
	answer := func(node int32, compressed, uncompressed int) {
		meta := kgo.BrokerMetadata{NodeID: node}
		x.OnBrokerRead(meta, int16(kmsg.Metadata), 0, 0, 0, nil) // is none
		x.OnBrokerRead(meta, int16(kmsg.Fetch), 0, 0, 0, nil)
		x.OnFetchBatchRead(meta, "t", 0, kgo.FetchBatchMetrics{NumRecords: 1, CompressedBytes: compressed, UncompressedBytes: uncompressed - decodedBytes})
	}
	for _, step := range []struct {
		name                     string
		nodes                    int32
		compressed, uncompressed int
		want                     int32
	}{
		{"a hundredth", 1, 1000, 100_000, inflated * fetch / 100},
		{"a ten-thousandth", 1, 1000, 10_000_000, leastFetch},
		{"as it is", 1, 1000, 1000, fetch},
		{"as it is, of four brokers", 4, 1000, 1000, fetch / 4},
		{"a hundredth, of four brokers", 4, 1000, 100_000, inflated * fetch / 100 / 4},
		{"as it is, of very many brokers", 100, 1000, 1000, fetch / 100},
	} {
		for range 20 { // it grows by and by
			for node := range step.nodes {
				answer(node, step.compressed, step.uncompressed)
			}
		}
		if asked < step.want*99/100 || asked > step.want {
			t.Errorf("%s: %d bytes are asked for, want %d", step.name, asked, step.want)
		}
	}
	for node := range x.busy {
		x.busy[node] = time.Now().Add(-2 * busyFor)
	}
	answer(1, 1000, 1000)
	if answer(1, 1000, 1000); asked != fetch {
		t.Errorf("%d bytes are asked for when the others have had nothing for long, want %d", asked, fetch)
	}
	x.left = -1
	if _, err := x.Decompress(nil, kgo.CodecZstd); !errors.Is(err, ErrCut) {
		t.Errorf("what is too much is decompressed: %v", err)
	}
}

package kafka

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// What is alone in its batch and large is compressed by gzip, and nothing else is: all clients can read both.
func TestLargeOnly(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "t"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.WithCompressor(LargeOnly()), kgo.ManualFlushing(), kgo.ConsumeTopics("t"))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	got := ""
	for _, batch := range [][]int{{1000}, {largeAlone}, {largeAlone - 100}, {largeAlone, 1}, {1, largeAlone}, {3 * largeAlone}} {
		for _, size := range batch {
			cl.Produce(t.Context(), &kgo.Record{Topic: "t", Value: bytes.Repeat([]byte("a"), size)}, nil)
		}
		if err := cl.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		codecs := map[uint8]bool{}
		for n := 0; n < len(batch); {
			cl.PollFetches(t.Context()).EachRecord(func(r *kgo.Record) {
				if codecs[r.Attrs.CompressionType()] = true; !bytes.Equal(r.Value, bytes.Repeat([]byte("a"), batch[n])) {
					t.Errorf("record %d of %v has %d bytes", n, batch, len(r.Value))
				}
				n++
			})
		}
		got += fmt.Sprint(codecs)
	}
	const none, gzip = "map[0:true]", "map[1:true]"
	if want := none + gzip + none + none + none + gzip; got != want {
		t.Errorf("codecs %s, want %s", got, want)
	}
}

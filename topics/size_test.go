package topics

import (
	"math"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"
)

// TestRecordSizeIsWhatIsWritten encodes the record as clients do.
func TestRecordSizeIsWhatIsWritten(t *testing.T) {
	bytes := rapid.Custom(func(t *rapid.T) []byte {
		n := rapid.SampledFrom([]int{-1, 0, 1, 63, 64, 65, 8191, 8192, 1 << 20}).Draw(t, "length")
		if n < 0 {
			return nil
		}
		return make([]byte, n)
	})
	rapid.Check(t, func(t *rapid.T) {
		r := kmsg.Record{Key: bytes.Draw(t, "key"), Value: bytes.Draw(t, "value")}
		var hs []kgo.RecordHeader
		for range rapid.SampledFrom([]int{0, 1, 63, 64}).Draw(t, "headers") {
			h := kmsg.Header{Key: string(make([]byte, rapid.IntRange(0, 200).Draw(t, "name"))), Value: []byte("x")}
			r.Headers = append(r.Headers, h)
			hs = append(hs, kgo.RecordHeader(h))
		}
		if rapid.Bool().Draw(t, "a header without a value") {
			r.Headers, hs = append(r.Headers, kmsg.Header{Key: "null"}), append(hs, kgo.RecordHeader{Key: "null"})
		}
		body := r.AppendTo(nil)[1:] // the length is zero as yet, one byte
		r.Length = int32(len(body))
		batch := kmsg.RecordBatch{NumRecords: 1, Records: r.AppendTo(nil)}
		if got, want := RecordSize(r.Key, r.Value, hs), len(batch.AppendTo(nil)); got != want {
			t.Fatalf("got %d, want %d", got, want)
		}
		if got := AppendRecord(nil, r.Key, r.Value, hs); !slices.Equal(got, batch.Records) {
			t.Fatalf("the record is written as %x, want %x", got[:min(len(got), 100)], batch.Records[:min(len(batch.Records), 100)])
		}
	})
}

func TestVarintSize(t *testing.T) {
	for n, want := range map[int]int{0: 1, 63: 1, 64: 2, 8191: 2, 8192: 3, math.MaxInt32: 5} {
		if got := varintSize(n); got != want {
			t.Errorf("varintSize(%d) = %d, want %d", n, got, want)
		}
	}
}

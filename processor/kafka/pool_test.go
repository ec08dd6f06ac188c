package kafka

import (
	"encoding/binary"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// A batch gets memory for its records and not for much more, whatever was put back before: a fetch may have tens of thousands of batches
// with one record each.
func TestFetchPoolFitsTheBatch(t *testing.T) {
	var p fetchPool
	for _, n := range []int{0, 1, 2, 3, 4, 5, 511, 512, 513, 100_000} {
		for range 3 {
			s := p.GetRecords(n)
			if len(s) != 0 || cap(s) < n || cap(s) > 2*max(n, 1) {
				t.Fatalf("for %d records: length %d, capacity %d", n, len(s), cap(s))
			}
			p.PutRecords(s[:cap(s)])                 // as it was used
			p.PutRecords(make([]kgo.Record, 0, n+1)) // another's, of any size
		}
	}
	p.PutRecords(nil)
}

// What an unusually large batch took is not kept for ever.
func TestFetchPoolKeepsNoLargeBuffer(t *testing.T) {
	var p fetchPool
	for range 100 { // a pool may drop whatever it likes
		p.PutDecompressBytes(make([]byte, 0, maxPooled+1))
		if got := cap(p.GetDecompressBytes(binary.AppendUvarint(nil, maxPooled), kgo.CodecSnappy)); got > maxPooled {
			t.Fatalf("%d MiB are kept", got>>20)
		}
	}
}

// What a batch is decompressed into holds it, and is not much larger, whatever was put back before: the client clears all of it each time.
func TestFetchPoolFitsWhatIsDecompressed(t *testing.T) {
	var p fetchPool
	for _, n := range []int{0, 1, 64, 79, 80, 81, 96, 97, 1000, 4095, 4096, 4097, 1 << 20, maxPooled - 1, maxPooled} {
		compressed := binary.AppendUvarint(nil, uint64(n))
		for range 3 {
			s := p.GetDecompressBytes(compressed, kgo.CodecSnappy)
			if len(s) != 0 || cap(s) < n || cap(s) > max(n, leastPooled)*5/4 {
				t.Fatalf("for %d bytes: length %d, capacity %d", n, len(s), cap(s))
			}
			p.PutDecompressBytes(s[:cap(s)])                               // as it was used
			for _, other := range []int{n - 1, n, n + 1, n + n/8, 2 * n} { // another's, of any size
				p.PutDecompressBytes(make([]byte, 0, max(other, 0)))
			}
		}
	}
	if got := cap(p.GetDecompressBytes(binary.AppendUvarint(nil, 1<<40), kgo.CodecSnappy)); got != 0 {
		t.Errorf("%d bytes were made for a batch that says it takes a terabyte", got)
	}
	for _, c := range []struct {
		compressed []byte
		codec      kgo.CompressionCodecType
	}{{append([]byte(nil), javaSnappy...), kgo.CodecSnappy}, {make([]byte, 1000), kgo.CodecLz4}, {make([]byte, 4<<20), kgo.CodecZstd}, {nil, kgo.CodecGzip}} {
		if got := cap(p.GetDecompressBytes(c.compressed, c.codec)); got < min(len(c.compressed), maxPooled) || got > max(5*len(c.compressed), leastPooled*5/4) {
			t.Errorf("codec %d, %d bytes: room for %d", c.codec, len(c.compressed), got)
		}
	}
}

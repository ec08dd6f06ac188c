package kafka

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
)

// fetchPool lends the reader the memory that it decodes fetches into. A record is copied out as
// soon as it is accepted, so the same memory serves again at once and the garbage collector has
// nothing to do with it.
//
// Each batch of a fetch takes a slice, and all of them are decoded before the first is accepted. Producers that send
// record by record make tens of thousands of batches in one fetch, so a slice must not be much larger than its batch.
type fetchPool struct {
	records [33]sync.Pool // *[]kgo.Record with a capacity of 1 << i

	// *[]byte by size: what is given back is cleared as a whole, so it must not be much larger than what lay in it.
	bytes [sizes]sync.Pool
}

const (
	// maxPooled is the largest buffer that is kept: a batch of a default broker, decompressed.
	maxPooled = 8 << 20
	// leastPooled is the smallest.
	leastPooled = 5 << 4
	// sizes are how many sizes of buffers there are: four to a power of two, so a quarter of a buffer is too much at most.
	sizes = 4 * (23 - 6)
)

// sizeOf is the number of the least size that holds n bytes, and that size. n is at most maxPooled.
func sizeOf(n int) (number, size int) {
	n = max(n, leastPooled) - 1
	shift := bits.Len(uint(n)) - 3
	top := n >> shift // 4 to 7
	return 4*(shift-4) + top - 4, (top + 1) << shift
}

func (p *fetchPool) GetRecords(n int) []kgo.Record {
	i := bits.Len32(uint32(max(n, 1) - 1))
	if s, ok := p.records[i].Get().(*[]kgo.Record); ok {
		return (*s)[:0]
	}
	return make([]kgo.Record, 0, 1<<i)
}

func (p *fetchPool) PutRecords(s []kgo.Record) {
	if c := cap(s); c > 0 {
		p.records[bits.Len32(uint32(c))-1].Put(&s)
	}
}

func (p *fetchPool) GetDecompressBytes(compressed []byte, codec kgo.CompressionCodecType) []byte {
	n := decompressedBytes(compressed, codec)
	if n > maxPooled {
		return nil // the client looks whether that may be, and makes it
	}
	number, size := sizeOf(n)
	if s, ok := p.bytes[number].Get().(*[]byte); ok {
		return (*s)[:0]
	}
	return make([]byte, 0, size)
}

func (p *fetchPool) PutDecompressBytes(s []byte) {
	if c := cap(s); c >= leastPooled && c <= maxPooled {
		number, size := sizeOf(c)
		if size > c {
			number-- // it holds what that size does
		}
		p.bytes[number].Put(&s)
	}
}

// javaSnappy begins a batch that Java's producer has compressed, block by block.
var javaSnappy = []byte("\x82SNAPPY\x00")

// decompressedBytes is how much a batch takes once it is decompressed: as Snappy says it, or else a guess.
func decompressedBytes(compressed []byte, codec kgo.CompressionCodecType) int {
	if codec == kgo.CodecSnappy && !bytes.HasPrefix(compressed, javaSnappy) {
		if n, used := binary.Uvarint(compressed); used > 0 {
			return int(min(n, maxPooled+1))
		}
	}
	return min(4*len(compressed), maxPooled)
}

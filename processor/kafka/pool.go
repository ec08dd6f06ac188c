package kafka

import (
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
	bytes   sync.Pool     // *[]byte
}

// maxPooled is the largest buffer that is kept: a batch of a default broker, decompressed.
const maxPooled = 8 << 20

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

func (p *fetchPool) GetDecompressBytes(compressed []byte, _ kgo.CompressionCodecType) []byte {
	if s, ok := p.bytes.Get().(*[]byte); ok {
		return (*s)[:0]
	}
	return make([]byte, 0, 4*len(compressed))
}

func (p *fetchPool) PutDecompressBytes(s []byte) {
	if cap(s) <= maxPooled {
		p.bytes.Put(&s)
	}
}

package processor

import (
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
)

// fetchPool lends the reader the memory that it decodes fetches into. A record is copied out as
// soon as it is accepted, so the same memory serves again at once and the garbage collector has
// nothing to do with it.
type fetchPool struct {
	records sync.Pool // *[]kgo.Record
	bytes   sync.Pool // *[]byte
}

// maxPooled is the largest buffer that is kept: a batch of a default broker, decompressed.
const maxPooled = 8 << 20

func (p *fetchPool) GetRecords(n int) []kgo.Record {
	if s, ok := p.records.Get().(*[]kgo.Record); ok && cap(*s) >= n {
		return (*s)[:0]
	}
	return make([]kgo.Record, 0, max(n, 512))
}

func (p *fetchPool) PutRecords(s []kgo.Record) { p.records.Put(&s) }

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

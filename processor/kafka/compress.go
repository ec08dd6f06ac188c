package kafka

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"

	"github.com/twmb/franz-go/pkg/kgo"
)

// LargeOnly is a compressor that leaves batches as they are, as producers of Kafka do by default, since each client can read that; but for a record that is
// alone in its batch and large. That may have come compressed, and fit into no topic otherwise. It is compressed by gzip, which each client can read, too.
func LargeOnly() kgo.Compressor {
	c, err := kgo.DefaultCompressor(kgo.GzipCompression().WithLevel(gzip.BestSpeed))
	if err != nil {
		panic("kafka: BUG: " + err.Error())
	}
	return largeOnly{c}
}

// largeAlone is how large a record is at least that is compressed, in bytes: topics that take less are seldom, and smaller ones are not worth the time.
const largeAlone = 16 << 10

type largeOnly struct{ large kgo.Compressor }

// Compress implements [kgo.Compressor]. What is not compressed is returned as it is.
func (c largeOnly) Compress(dst *bytes.Buffer, src []byte, flags ...kgo.CompressFlag) ([]byte, kgo.CompressionCodecType) {
	if length, n := binary.Varint(src); len(src) < largeAlone || n <= 0 || length != int64(len(src)-n) { // each record begins with its length
		return src, kgo.CodecNone
	}
	return c.large.Compress(dst, src, flags...)
}

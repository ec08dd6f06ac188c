package topics

import (
	"encoding/binary"
	"math/bits"

	"github.com/twmb/franz-go/pkg/kgo"
)

// BatchOverhead is the header of a record batch of version 2: base offset 8,
// length 4, leader epoch 4, magic 1, CRC 4, attributes 2, last offset delta 4,
// two timestamps 16, producer id 8, epoch 2, base sequence 4, count 4.
const BatchOverhead = 61

// RecordSize returns the bytes of a batch that holds one record and is not
// compressed: what a broker compares with max.message.bytes. It is exact.
func RecordSize(key, value []byte, headers []kgo.RecordHeader) int {
	n := recordLength(key, value, headers)
	return BatchOverhead + varintSize(n) + n
}

// AppendRecord appends what a batch of one record holds behind its header: what
// is compressed.
func AppendRecord(dst, key, value []byte, headers []kgo.RecordHeader) []byte {
	dst = binary.AppendVarint(dst, int64(recordLength(key, value, headers)))
	dst = append(dst, 0, 0, 0)
	dst = appendBytes(appendBytes(dst, key), value)
	dst = binary.AppendVarint(dst, int64(len(headers)))
	for i := range headers {
		dst = binary.AppendVarint(dst, int64(len(headers[i].Key)))
		dst = appendBytes(append(dst, headers[i].Key...), headers[i].Value)
	}
	return dst
}

// appendBytes appends the length and the bytes; null has length -1.
func appendBytes(dst, b []byte) []byte {
	if b == nil {
		return binary.AppendVarint(dst, -1)
	}
	return append(binary.AppendVarint(dst, int64(len(b))), b...)
}

// recordLength is the length of a record, behind the varint that tells it.
func recordLength(key, value []byte, headers []kgo.RecordHeader) int {
	// Attributes, timestamp delta and offset delta are a zero byte each.
	n := 3 + bytesSize(key) + bytesSize(value) + varintSize(len(headers))
	for i := range headers {
		n += varintSize(len(headers[i].Key)) + len(headers[i].Key) + bytesSize(headers[i].Value)
	}
	return n
}

// bytesSize is the length as a varint and the bytes; null has length -1, which takes a byte as well.
func bytesSize(b []byte) int { return varintSize(len(b)) + len(b) }

// varintSize is the length of n >= 0 as a zigzag varint: seven bits a byte.
func varintSize(n int) int { return (bits.Len64(uint64(n)<<1|1) + 6) / 7 }

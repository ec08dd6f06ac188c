package state

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
)

// Key orders the pending records of one partition: by due time, then by seq, the offset at which the record was first
// accepted. A partition delivers in this order, and its watermark is a key.
//
// The zero Key is below every pending record: a watermark starts there, and what is not above it never enters the store.
type Key struct {
	Due int64 // milliseconds since 1970
	Seq int64
}

// Compare is negative when k is before o, zero when they are equal and positive when k is after o.
func (k Key) Compare(o Key) int {
	if c := cmp.Compare(k.Due, o.Due); c != 0 {
		return c
	}
	return cmp.Compare(k.Seq, o.Seq)
}

// Less tells whether k is before o.
func (k Key) Less(o Key) bool {
	return k.Due < o.Due || k.Due == o.Due && k.Seq < o.Seq
}

// Later is the later one of k and o.
func (k Key) Later(o Key) Key {
	if k.Less(o) {
		return o
	}
	return k
}

// String is due:seq, as in the commit metadata and in logs.
func (k Key) String() string {
	return string(k.appendText(nil))
}

func (k Key) appendText(dst []byte) []byte {
	dst = strconv.AppendInt(dst, k.Due, 10)
	dst = append(dst, ':')
	return strconv.AppendInt(dst, k.Seq, 10)
}

// parseKey reads what appendText wrote. Both numbers must be there, and neither is negative.
func parseKey(text string) (Key, error) {
	due, seq, ok := strings.Cut(text, ":")
	if !ok {
		return Key{}, fmt.Errorf("%q is not due:seq", text)
	}
	d, err := parseCount(due)
	if err != nil {
		return Key{}, err
	}
	s, err := parseCount(seq)
	if err != nil {
		return Key{}, err
	}
	return Key{Due: d, Seq: s}, nil
}

// parseCount reads a number as strconv writes it, zero or more. There is one way to write a number, so that what is read
// can be compared as text with what was written.
func parseCount(text string) (int64, error) {
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil || text[0] == '+' || text[0] == '0' && len(text) > 1 {
		return 0, fmt.Errorf("%q is not a number of zero or more", text)
	}
	return int64(n), nil
}

// A part is the number that stands for one partition in the keys of the database; see doc.go for the layout.
// Part 0 is the database's own: the table of parts, their positions, and the layout version.
type part uint32

const (
	partLen = 4
	keyLen  = partLen + 8 + 8
	// signBit, flipped, makes two's complement sort as unsigned bytes do.
	signBit = 1 << 63
)

// putKey writes the stored form of a key into dst, which has keyLen bytes.
func putKey(dst []byte, p part, k Key) {
	_ = dst[keyLen-1]
	binary.BigEndian.PutUint32(dst, uint32(p))
	binary.BigEndian.PutUint64(dst[partLen:], uint64(k.Due)^signBit)
	binary.BigEndian.PutUint64(dst[partLen+8:], uint64(k.Seq)^signBit)
}

func appendKey(dst []byte, p part, k Key) []byte {
	n := len(dst)
	dst = append(dst, make([]byte, keyLen)...)
	putKey(dst[n:], p, k)
	return dst
}

// appendAfter appends the smallest stored key that sorts behind the key's own.
func appendAfter(dst []byte, p part, k Key) []byte {
	return append(appendKey(dst, p, k), 0)
}

// appendPart appends the prefix of all keys of a part: at or below the first of them. With part+1 it is behind the last.
func appendPart(dst []byte, p part) []byte {
	return binary.BigEndian.AppendUint32(dst, uint32(p))
}

// decodeKey is the inverse of putKey.
func decodeKey(b []byte) (part, Key, error) {
	if len(b) != keyLen {
		return 0, Key{}, fmt.Errorf("%w: a key of %d bytes, want %d", ErrCorrupt, len(b), keyLen)
	}
	return part(binary.BigEndian.Uint32(b)), Key{
		Due: int64(binary.BigEndian.Uint64(b[partLen:]) ^ signBit),
		Seq: int64(binary.BigEndian.Uint64(b[partLen+8:]) ^ signBit),
	}, nil
}

// decodePart reads a part number of partLen bytes.
func decodePart(b []byte) part { return part(binary.BigEndian.Uint32(b)) }

package topics

import (
	"bytes"
	"strconv"
)

// Handle names a pending record of a delay topic by what its producer knows from the acknowledgement and from what it asked for. It holds
// the record's key, so nothing has to be searched for it.
type Handle struct {
	Partition int32
	Offset    int64
	Due       int64 // ms since the epoch, rounded up
}

// String writes a handle as ParseHandle reads it: 3-8812-1767225605123.
func (h Handle) String() string { return string(h.append(nil)) }

func (h Handle) append(b []byte) []byte {
	b = Place{h.Partition, h.Offset}.append(b)
	return strconv.AppendInt(append(b, '-'), h.Due, 10)
}

// ParseHandle reads <partition>-<offset>-<due ms>: decimal numbers, without leading zeros.
func ParseHandle(text []byte) (h Handle, ok bool) {
	var n [3]int64
	for i := range n {
		digits := text
		if i < len(n)-1 {
			end := bytes.IndexByte(text, '-')
			if end < 0 {
				return Handle{}, false
			}
			digits, text = text[:end], text[end+1:]
		}
		if n[i], ok = parseCount(digits); !ok || digits[0] == '0' && len(digits) > 1 {
			return Handle{}, false
		}
	}
	if n[0] > 1<<31-1 || n[2] < 1 || n[2] > maxDueMillis {
		return Handle{}, false
	}
	return Handle{Partition: int32(n[0]), Offset: n[1], Due: n[2]}, true
}

package topics

import (
	"strconv"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Copy is what a carried copy says of the record that it stands for.
type Copy struct {
	Seq       int64 // the offset at which that was first accepted
	Due       int64 // ms since the epoch, with the jitter of its route
	Timestamp int64 // of that, in ms since the epoch; -1 when it has none
	From      int64 // the offset that it was copied from: Seq, or that of an earlier copy
}

// AppendCopy appends to dst the headers of a carried copy: in, which is the record as it was first written (Mark.Copied), and two headers
// of ours behind it. It belongs into the partition that the record came from.
func AppendCopy(dst, in []kgo.RecordHeader, m Mark, c Copy, buf []byte) ([]kgo.RecordHeader, []byte) {
	w := writer{headers: append(dst, in...), buf: buf}
	start := len(w.buf)
	w.buf = m.appendTo(w.buf, c.Seq, c.Due, max(c.Timestamp, -1))
	w.take(HeaderSeq, start)
	start = len(w.buf)
	w.buf = strconv.AppendInt(w.buf, c.From, 10)
	w.take(HeaderFrom, start)
	return w.headers, w.buf
}

// Copied returns the headers of the record that a carried copy of ours at an offset stands for, as that was first written, and what the
// copy says of it; false where it is none of ours, or does not look back.
func (m Mark) Copied(headers []kgo.RecordHeader, offset int64) (written []kgo.RecordHeader, c Copy, is bool) {
	last := len(headers) - 1
	if last < 1 || headers[last].Key != HeaderFrom || headers[last-1].Key != HeaderSeq {
		return headers, c, false
	}
	who, rest := m.author(headers[last-1].Value)
	var n [3]int64
	var from [1]int64
	if who != thisGroup || !parseNumbers(rest, n[:]) || !parseNumbers(headers[last].Value, from[:]) {
		return headers, c, false
	}
	c = Copy{Seq: n[0], Due: n[1], Timestamp: n[2], From: from[0]}
	if c.Seq < 0 || c.From < c.Seq || c.From >= offset || c.Due < 1 || c.Due > maxDueMillis {
		return headers, Copy{}, false // made up: it does not look back, or at no instant
	}
	return headers[:last-1], c, true
}

package topics

import (
	"bytes"

	"github.com/twmb/franz-go/pkg/kgo"
)

// What duewheel has written for itself into another topic or partition is there no more than what it says of the request: in a mirror of a delay topic a
// copy, or a retry, is a request like the one that it is of. Its own timestamp is that of the copying, so its delay counts from when it was written first.

// firstWritten is when the request was written first of which a record is a copy or a retry in another partition, in ms.
func (m Mark) firstWritten(headers []kgo.RecordHeader, at *[fields]int32) (millis int64, is bool) {
	var tried [5]int64 // as AppendRetry writes them
	if rest, is := m.copiedFrom(value(headers, at[fieldRetry])); is {
		if numbers, _ := cutNames(rest); parseNumbers(numbers, tried[:]) {
			return tried[1], tried[1] >= 0
		}
	}
	var copied [3]int64 // as AppendCopy does
	if rest, is := m.copiedFrom(value(headers, at[fieldSeq])); is {
		if parseNumbers(rest, copied[:]) {
			return copied[2], copied[2] >= 0
		}
	}
	return 0, false
}

// copiedFrom returns the numbers behind a mark that was written for another partition.
func (m Mark) copiedFrom(v []byte) (numbers []byte, is bool) {
	if who, _ := m.author(v); who != elsewhere {
		return nil, false
	}
	for range 3 { // topic id, group, partition
		_, behind, more := bytes.Cut(v, []byte(":"))
		if !more {
			return nil, false
		}
		v = behind
	}
	return v, true
}

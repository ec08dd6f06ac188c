package pending

import (
	"strings"

	"github.com/duewheel/duewheel/topics"
)

// Cancels go to the partition of what they name, or to all where none is known to have that id.

const elsewherePartition = 5

// passed is a cancel as another partition has written it, if it was forwarded.
func (e entry) passed() entry {
	if !e.forwarded() {
		return e
	}
	written := int64(-1)
	if e.what == passedOld {
		written = someWritten
	}
	e.Headers, _ = topics.AppendForward(nil, e.Headers, testMark, elsewherePartition, 7, written, nil)
	return e
}

// forwarded reports whether it has come from another partition.
func (e *entry) forwarded() bool { return strings.ContainsRune("vWw", e.what) }

// someWritten is when some of the requests were written, or before.
const someWritten = testNow + 3

// writtenAt is when the one at an offset was: not in the order of the log.
func writtenAt(offset int64) int64 { return testNow + offset*5%8 }

// written is when a request was.
func (e *entry) written() int64 { return e.Timestamp.UnixMilli() }

// answerTo is what a cancel is told that has taken something away, or nothing.
func (v *life) answerTo(e *entry, took bool) string {
	switch {
	case took:
		return EffectCancelled.String()
	case e.id() == "":
		return EffectUnknown.String()
	case e.forwarded():
		return EffectNotHere.String()
	}
	return EffectForward.String() // others may have the id
}

package check

import (
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// What a Survey does not see may have arrived before the oldest record that it sees, so it matters when a request can have arrived at the earliest.

// waitsUntil is before when a request was not to be delivered, in ms, whenever it is due: it had not been written, or waited for its turn. With a fixed delay a
// record waits for those before it. What is ahead of the clock is not counted: nothing says when it was read, and so when it is due.
func (c judging) waitsUntil(src *source, timestamp, due int64) int64 {
	if c.config.Survey == nil || src.route.Delay <= 0 {
		return timestamp
	}
	if timestamp <= c.now+time.Second.Milliseconds() {
		src.turn = max(src.turn, due)
	}
	return max(timestamp, src.turn)
}

// mostAhead is how far ahead of the clock the timestamp of a producer is taken to be at most: brokers refuse what is further, as they are.
const mostAhead = time.Hour

// ahead is how far ahead of the clock the timestamp of a request may have been, in ms.
func (s *slot) ahead() int64 {
	if s.is(byClock) {
		return mostAhead.Milliseconds()
	}
	return 0
}

// deliveredAt is the earliest that a request can have been delivered, in ms, which is due at some time.
func deliveredAt(src *source, offset int64, s *slot, due int64) int64 {
	written, ok := src.overdue[offset]
	switch {
	case s.is(orEarlier):
		return s.due - s.ahead()
	case ok:
		return max(due, written-s.ahead())
	}
	return due
}

// refusedAt is the earliest that a request can have been dead-lettered, in ms, which can be delivered from a time on: when it was read, if that was for what it
// says, or for what its log says.
func refusedAt(src *source, offset int64, s *slot, delivered int64) int64 {
	if written, ok := src.written[offset]; ok {
		return min(written-s.ahead(), delivered)
	}
	return delivered
}

// mayBeAhead tells whether the due time of a record follows from a timestamp that may have been ahead of the clock: then it is due earlier.
func mayBeAhead(rt *route, r *kgo.Record) bool { return rt.surveyed && rt.Delay > 0 && !byBroker(r) }

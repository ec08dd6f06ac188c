package check

import (
	"fmt"
	"math"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// moment is when a record was delivered, as far as is known.
type moment struct {
	seen    time.Time
	fired   int64     // -1: not known
	written int64     // ms, or untimed
	from    int64     // the timestamp of the request, or unknown
	read    time.Time // of a Survey: when it was read; zero is not known
}

const unknown = math.MaxInt64

// untimed: when a record was delivered is not known.
const untimed = -1

// writtenAt is when a record was delivered, in ms, as far as itself says it, and what is wrong with its timestamp. In a survey it may have been
// delivered while the route had another Timestamp.
func (rt *route) writtenAt(r *kgo.Record, p provenance) (at int64, wrong string) {
	said, meant := r.Timestamp.UnixMilli(), rt.dated(p)
	if byBroker(r) || rt.Timestamp != timestampDue && rt.Timestamp != timestampOriginal {
		return said, ""
	}
	if meant >= 0 && said != meant && !rt.wasFired(r, p) {
		wrong = fmt.Sprintf("its timestamp is %d, and with timestamp: %s it is %d", said, rt.Timestamp, meant)
	}
	return max(p.fired, untimed), wrong
}

// wasFired tells whether a record has the timestamp of its delivery, although the route gives it another one: in a survey, while it had that.
func (rt *route) wasFired(r *kgo.Record, p provenance) bool {
	meant, said := rt.dated(p), r.Timestamp.UnixMilli()
	return rt.surveyed && !byBroker(r) && meant >= 0 && said != meant && said > p.due
}

// dated is the timestamp that a delivered record gets where that is not of its delivery; negative is not known.
func (rt *route) dated(p provenance) int64 {
	switch rt.Timestamp {
	case timestampDue:
		return p.due
	case timestampOriginal:
		return p.timestamp
	}
	return -1
}

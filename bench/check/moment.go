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
	said, meant := r.Timestamp.UnixMilli(), int64(-1)
	switch {
	case byBroker(r):
		return said, ""
	case rt.Timestamp == timestampDue:
		meant = p.due
	case rt.Timestamp == timestampOriginal:
		meant = p.timestamp
	default:
		return said, ""
	}
	switch {
	case meant < 0 || said == meant || rt.surveyed && said > p.due:
	default:
		wrong = fmt.Sprintf("its timestamp is %d, and with timestamp: %s it is %d", said, rt.Timestamp, meant)
	}
	return max(p.fired, untimed), wrong
}

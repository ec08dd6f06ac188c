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

// delivery is a delivered record, and what it says of itself, as its route sees it.
type delivery struct {
	*route
	r *kgo.Record
	p provenance
}

// writtenAt is when a record was delivered, in ms, as far as itself says it, and what is wrong with its timestamp. In a survey it may have been
// delivered while the route had another Timestamp.
func (d delivery) writtenAt() (at int64, wrong string) {
	said, meant := d.r.Timestamp.UnixMilli(), d.dated()
	if byBroker(d.r) || d.Timestamp != timestampDue && d.Timestamp != timestampOriginal {
		return said, ""
	}
	if meant >= 0 && said != meant && !d.wasFired() {
		wrong = fmt.Sprintf("its timestamp is %d, and with timestamp: %s it is %d", said, d.Timestamp, meant)
	}
	return max(d.p.fired, untimed), wrong
}

// wasFired tells whether a record has the timestamp of its delivery, although the route gives it another one: in a survey, while it had that.
func (d delivery) wasFired() bool {
	meant, said := d.dated(), d.r.Timestamp.UnixMilli()
	return d.surveyed && !byBroker(d.r) && meant >= 0 && said != meant && said > d.p.due
}

// dated is the timestamp that a delivered record gets where that is not of its delivery; negative is not known.
func (d delivery) dated() int64 {
	switch d.Timestamp {
	case timestampDue:
		return d.p.due
	case timestampOriginal:
		return d.p.timestamp
	}
	return -1
}

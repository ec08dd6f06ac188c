package check

import (
	"cmp"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// saying judges what has arrived by what it says of itself: of what request it is, and when it was written.
type saying struct{ *Checker }

// misnames tells whether what has arrived says that it is of a delay topic of a Survey, and not of which of its records. That is no record of others, and of no request.
func (c saying) misnames(rt *route, p provenance, r *kgo.Record) bool {
	if c.config.Survey == nil || rt == nil || rt.Unseen || p.named() {
		return false
	}
	c.fault(Stray, Source{r.Topic, r.Partition, r.Offset}, r, "names no request of %s: %s", rt.Topic, cmp.Or(p.problem, "partition or offset is absent"))
	return true
}

// otherwise counts what was delivered as by other settings than those of now, of headers.emit or timestamp: that the route was configured so then is believed, but for what was
// written in time to come. It says what is wrong with that.
func (c saying) otherwise(rt *route, p provenance, r *kgo.Record, read time.Time) (wrong string) {
	d := delivery{rt, r, p}
	if !rt.surveyed || p.due < 0 || d.misEmits() == "" && !d.wasFired() {
		return ""
	}
	c.counts.Otherwise++
	if at := r.Timestamp.UnixMilli(); d.wasFired() && (moment{read: read}).isAhead(at) {
		return fmt.Sprintf("its timestamp is %d, and with timestamp: %s it is %d; it was read %d ms before that", at, rt.Timestamp, d.dated(), at-read.UnixMilli())
	}
	return ""
}

// ofItsRequest is the timestamp that a request had, as far as what was delivered of it says that, as it is remembered; 0: it does not.
func (d delivery) ofItsRequest() uint32 {
	switch said := d.r.Timestamp.UnixMilli(); {
	case !d.surveyed:
	case d.p.timestamp >= 0 || d.p.undated:
		return stampOf(d.p.timestamp)
	case d.Timestamp == timestampOriginal && !byBroker(d.r) && said < d.p.due: // else it may be that of its delivery
		return stampOf(said)
	}
	return 0
}

// isAhead tells whether a time that a record says of itself is long after it was read.
func (m moment) isAhead(at int64) bool {
	return !m.read.IsZero() && at > m.read.UnixMilli()+behind.Milliseconds()
}

// letter judges when a dead letter says that it was written.
func (c saying) letter(of Source, r *kgo.Record, read time.Time) {
	if at := r.Timestamp.UnixMilli(); c.config.Survey != nil && (moment{read: read}).isAhead(at) {
		c.fault(Altered, of, r, "dead letter: written at %d, and read %d ms before that", at, at-read.UnixMilli())
	}
}

// putOff: what is tried again, since its target was in trouble, was due when it was put off, and not for longer than it may be. A pause is up to a fifth longer than it says.
func (c saying) putOff(of Source, most time.Duration, r *kgo.Record, again retry) {
	at := r.Timestamp.UnixMilli()
	switch longest := most + most/5 + behind; {
	case c.config.Survey == nil || at < 0:
	case at < again.first-behind.Milliseconds():
		c.fault(Altered, of, r, "was put off at %s, before it was due at %s", inUTC(at), inUTC(again.first))
	case most > 0 && again.due > at+longest.Milliseconds():
		c.fault(Altered, of, r, "was put off at %s until %s, and retry_backoff_max is %v", inUTC(at), inUTC(again.due), most)
	}
}

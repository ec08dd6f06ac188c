package check

import (
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Lateness is how much later than due records were seen, and how long nothing was seen that was due.
type Lateness struct {
	// Micros holds what became due after it was requested, in microseconds.
	Micros *hdrhistogram.Histogram
	// OverdueMicros holds what was due already when it was requested, counted from the timestamp of the request.
	OverdueMicros *hdrhistogram.Histogram
	// Gap is the longest time for which something that was due waited while nothing was seen at all; GapEnd is its end.
	Gap    time.Duration
	GapEnd time.Time
	// First and Last are when records were first and last seen.
	First, Last time.Time

	before time.Time // seen last before Last
}

const (
	longest = 24 * time.Hour // what a histogram holds; anything later counts as this
	digits  = 3              // significant; a histogram takes some 250 KB
)

func newLateness() *Lateness {
	return &Lateness{
		Micros:        hdrhistogram.New(1, longest.Microseconds(), digits),
		OverdueMicros: hdrhistogram.New(1, longest.Microseconds(), digits),
	}
}

func (l *Lateness) record(due, timestamp int64, seen time.Time) {
	histogram, since := l.Micros, time.UnixMilli(due)
	if due <= timestamp {
		histogram, since = l.OverdueMicros, time.UnixMilli(timestamp)
	}
	_ = histogram.RecordValue(min(max(seen.Sub(since), 0), longest).Microseconds()) // in range
	if l.First.IsZero() {
		l.First = seen
	}
	if seen.After(l.Last) {
		l.before, l.Last = l.Last, seen
	}
	if l.before.After(since) {
		since = l.before
	}
	if gap := seen.Sub(since); gap > l.Gap {
		l.Gap, l.GapEnd = gap, seen
	}
}

// Quantile returns a quantile of Micros, as 0.99.
func (l *Lateness) Quantile(q float64) time.Duration {
	return time.Duration(l.Micros.ValueAtQuantile(q*100)) * time.Microsecond
}

// timing is what a checker does about how late things are.
type timing struct{ *Checker }

// note takes in how late something was seen in a target topic.
func (c timing) note(topic string, due int64, m moment) {
	c.lateness.record(due, m.from, m.seen)
	l := c.byTarget[topic]
	if l == nil && c.config.Survey != nil {
		l = newLateness()
		c.byTarget[strings.Clone(topic)] = l
	}
	if l != nil {
		l.record(due, m.from, m.seen)
	}
}

// judgeSeen: how late that was which a Survey has seen before its request was read, unless it said itself when that was written.
func (c timing) judgeSeen(src *source, s *slot, offset int64, came []fate) {
	if c.config.Survey == nil || len(came) == 0 || came[0].dead || came[0].dated || came[0].at == untimed || !s.is(mayDeliver) {
		return
	}
	due := s.due
	if s.is(orLater) || s.wasAhead(came[0].due) {
		due = came[0].due
	}
	m := moment{seen: time.UnixMilli(came[0].at), from: src.overdue[offset]}
	c.judgeLateness(src.name(offset), due, nil, m)
	c.note(c.places.at(s.place).topic, due, m)
}

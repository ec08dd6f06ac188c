package verify

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// writeCounts tells what became of the requests, a line each.
func (r *Report) writeCounts(b *strings.Builder) {
	c := r.Counts
	figures := len(thousands(c.Requested))
	line := func(n int64, what string) { fmt.Fprintf(b, "  %*s %s\n", figures, thousands(n), what) }
	fmt.Fprintf(b, "%s requested\n", thousands(c.Requested))
	if c.Left > 0 {
		line(c.Left, "of them have left their delay topic, and are judged by what was carried")
	}
	line(c.Delivered, "delivered")
	line(c.DeadLettered, "dead-lettered"+byCode(r.ByCode))
	believed := int64(0)
	for _, n := range r.Believed {
		believed += n
	}
	line(c.Taken, "cancelled, replaced or left out")
	line(c.Pending, "pending")
	line(c.Overdue, "overdue")
	line(c.Missing, "missing")
	line(c.Untold, "of which it cannot be told")
	for _, also := range []struct {
		n    int64
		what string
	}{{believed, "of the dead-lettered could be delivered as things are now: that they could not then is believed of" + byCode(r.Believed)},
		{c.Otherwise, "have other headers or another timestamp than their route gives as it is configured now: that it was configured so then is believed"},
		{c.Ahead, "were due earlier than the timestamps of their requests say, by up to " + lateness(float64(c.AheadMost)) + ": that those were ahead of the clock is believed"},
		{c.Doubled, "arrived again"}, {c.Retried, plural(c.Retried, "time", "times") + " appended again, to be tried later"}, {c.Cancels, "asked to cancel something"},
		{c.Untimed, "do not say when they were delivered, by the timestamp of their route: whether they were early or late cannot be told"},
		{c.Elsewhere, "arrived of requests outside of the window"}, {c.Foreign, "of others in these topics"}} {
		if also.n > 0 {
			line(also.n, also.what)
		}
	}
}

// writeLateness tells how late deliveries were, of all targets and of each.
func (r *Report) writeLateness(b *strings.Builder) {
	if r.Lateness.Records == 0 {
		return
	}
	fmt.Fprintf(b, "late: %s\n", r.Lateness)
	if len(r.ByTarget) < 2 {
		return
	}
	widest := 0
	for _, l := range r.ByTarget {
		widest = max(widest, len(l.Target))
	}
	for _, l := range r.ByTarget {
		fmt.Fprintf(b, "  %-*s  %s\n", widest, l.Target, l)
	}
}

// String tells it as people compare it: p50 1.2 ms, p99 1.85 s, max 2.01 s.
func (l Lateness) String() string {
	return fmt.Sprintf("p50 %s, p99 %s, max %s", lateness(l.P50), lateness(l.P99), lateness(l.Max))
}

// lateness writes milliseconds.
func lateness(ms float64) string {
	switch {
	case ms < 1000:
		return strconv.FormatFloat(ms, 'f', 1, 64) + " ms"
	case ms >= 24*60*60_000:
		return "24 h or more" // which is all that is counted
	case ms >= 60_000:
		return time.Duration(ms * float64(time.Millisecond)).Round(time.Second).String()
	}
	return strconv.FormatFloat(ms/1000, 'f', 2, 64) + " s"
}

// plural is the word for so many.
func plural(n int64, one, more string) string {
	if n == 1 {
		return one
	}
	return more
}

// thousands writes a count so that it can be read: 1,000,000.
func thousands(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

package topics

import (
	"fmt"
	"time"
)

const (
	// shortestRetention is one of which half, for which duewheel may be down, is hardly enough for a restart.
	shortestRetention = 10 * time.Minute
	// mostCopies is how often a record may be written again before that is dear.
	mostCopies = 1000
	// longWait is a delay to reckon with where a route has no bound.
	longWait = 366 * 24 * time.Hour
)

// retention: Kafka deletes what is older, delivered or not. What is carried does not get so old while duewheel runs.
func (x *examination) retention(r *Route, f facts) {
	n, ok := f.number("retention.ms")
	if !ok || n < 0 {
		return
	}
	keep := time.Duration(min(n, maxDelayMillis-1)) * time.Millisecond
	severity, why := stays(r, keep)
	if r.Carries() {
		severity, why = x.want.carried(r, keep)
	}
	if kind, ok := f.settings[timestampType]; ok && kind != logAppend {
		why += fmt.Sprintf("; what producers give an old timestamp is lost sooner, maybe at once (%s is %s)", timestampType, kind)
	}
	x.report(severity, r.Topic, x.set(r.Topic, "retention.ms", "-1"), fmt.Sprintf("retention.ms is %d", n), why)
}

// longest bounds how long a record waits, and says which setting does; 0: there is no bound.
func (r *Route) longest() (time.Duration, string) {
	switch r.kind() {
	case forRetries:
		return r.Retry.Backoff.longest(), "retry.backoff.max and its jitter"
	case fixedDelay:
		return r.Delay, "delay"
	}
	if r.MaxDelay > 0 && r.Jitter > 0 {
		return r.MaxDelay + r.Jitter, "max_delay and jitter"
	}
	return r.MaxDelay, "max_delay"
}

// stays says what becomes of records that stay where they were written, in a topic that keeps them for so long.
func stays(r *Route, keep time.Duration) (Severity, string) {
	wait, setting := r.longest()
	if wait > 0 && r.Remember > 0 {
		wait, setting = wait+r.Remember, setting+" and ids.remember"
	}
	switch {
	case wait == 0:
		return Error, fmt.Sprintf("a record may wait longer than %s and is not carried, so it is lost then", FormatDelay(keep))
	case keep <= wait:
		return Error, fmt.Sprintf("a record may wait %s (%s) and is not carried, so it is lost after %s", FormatDelay(wait), setting, FormatDelay(keep))
	}
	return Warning, fmt.Sprintf("a record that waits %s is lost if duewheel does not run for %s, since it is not carried", FormatDelay(wait), FormatDelay(keep-wait))
}

// carried says what becomes of records that are written again when they have lain for half of that time, and what it costs.
func (want *Expect) carried(r *Route, keep time.Duration) (severity Severity, why string) {
	if need := r.rememberedNeeds(); keep <= need {
		return Error, fmt.Sprintf("ids are remembered for %s (ids.remember), and what is remembered is not carried: it is lost unless the topic keeps it for longer than %s",
			FormatDelay(r.Remember), FormatDelay(need))
	}
	restart := ""
	if keep < shortestRetention {
		severity, restart = Warning, ", so a restart must be quick"
	}
	wait, waits := longWait, FormatDelay(longWait)
	if longest, setting := r.longest(); longest > 0 {
		wait, waits = longest, FormatDelay(longest)+" ("+setting+")"
	}
	half := max(keep/2, time.Second)
	if wait <= half {
		return severity, fmt.Sprintf("a record that waits %s is lost if duewheel does not run for %s%s", waits, FormatDelay(keep-wait), restart)
	}
	after := FormatDelay(half.Round(time.Second))
	why = fmt.Sprintf("what is pending is carried when it is %s old, and lost if duewheel does not run for as long%s; one that waits %s is written ", after, restart, waits)
	switch copies := int64(wait / half); {
	case copies == 1:
		why += "once more"
	case copies <= mostCopies:
		why += fmt.Sprintf("about %d times more", copies)
	default:
		severity = Warning
		why += fmt.Sprintf("about %d times more, which is dear", copies)
	}
	if want.CarryRecords > 0 {
		why += fmt.Sprintf("; each process carries up to %d records in %s (carry_records)", int64(half.Seconds()*float64(want.CarryRecords)), after)
	}
	return severity, why
}

// rememberedNeeds is for how long a topic has to keep its records for what is remembered of them: that is not carried, and a record may be as old as the
// topic lets it become when it is due.
func (r *Route) rememberedNeeds() time.Duration {
	if r.MaxDelay == 0 {
		return 2 * r.Remember
	}
	return r.Remember + min(r.MaxDelay+r.Jitter, r.Remember)
}

package verify

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/duewheel/duewheel/bench/check"
)

// Report is what was found so far. It can be written as JSON; times are in ms since 1970.
type Report struct {
	At       int64            `json:"at"`     // when the last pass began
	Counts   Counts           `json:"counts"` // by outcome
	ByCode   map[string]int64 `json:"dead_letters,omitempty"`
	Lateness Lateness         `json:"lateness"`
	ByTarget []Lateness       `json:"lateness_by_target,omitempty"`
	Windows  []Window         `json:"windows"`          // since when it can be told, by topic
	Faults   []Found          `json:"faults"`           // by kind; none is empty
	Untold   []Found          `json:"untold,omitempty"` // requests of which it cannot be told what became of them, by why
	Notes    []string         `json:"notes,omitempty"`
	Denied   []string         `json:"denied,omitempty"`   // topics that may not be looked at
	Believed map[string]int64 `json:"believed,omitempty"` // of the dead letters: those that could be delivered as things are now, by code
	Blind    []string         `json:"blind,omitempty"`    // why it cannot be told whether all is well, besides what may not be looked at

	kept     bool     // an open transaction has kept back some of it
	doubtful bool     // nothing is known of the group
	short    []string // delay topics of which the older part of the window that was asked for is gone
}

// Counts are numbers of requests and records.
type Counts struct {
	Requested    int64 `json:"requested"`
	Left         int64 `json:"left"` // of these: they have left their delay topic, and what stands for them is there
	Delivered    int64 `json:"delivered"`
	DeadLettered int64 `json:"dead_lettered"`
	Taken        int64 `json:"taken"`   // cancelled, replaced or left out
	Pending      int64 `json:"pending"` // not due, or for less than Config.Grace
	Overdue      int64 `json:"overdue"`
	Missing      int64 `json:"missing"`
	Untold       int64 `json:"untold"`
	Doubled      int64 `json:"doubled"`   // arrived again, whether that is a fault or not
	Cancels      int64 `json:"cancels"`   // as they were asked for: what a replica has passed on is the same one
	Retried      int64 `json:"retried"`   // times that records were appended again, to be tried later
	Elsewhere    int64 `json:"elsewhere"` // records of requests outside of the window
	Foreign      int64 `json:"foreign"`   // records of others in targets and dead letter topics
	Untimed      int64 `json:"untimed"`   // deliveries that do not say when they were written: whether they were early or late cannot be told
	Otherwise    int64 `json:"otherwise"` // deliveries with other headers, or another timestamp, than their route gives as it is configured now: that it was configured so then is believed
	Ahead        int64 `json:"ahead"`     // deliveries that were due earlier than the timestamps of their requests say: that those were ahead of the clock is believed
	AheadMost    int64 `json:"ahead_ms"`  // by so much at most
	Faults       int64 `json:"faults"`
}

// Lateness is how much later than due, or than requested if it was due already, records were delivered, in ms.
type Lateness struct {
	Target  string  `json:"target,omitempty"`
	Records int64   `json:"records"`
	P50     float64 `json:"p50_ms"`
	P99     float64 `json:"p99_ms"`
	Max     float64 `json:"max_ms"`
	Mean    float64 `json:"mean_ms"`
}

// Window says since when it can be told what became of requests.
type Window struct {
	Topic      string `json:"topic"`
	Kind       string `json:"kind"` // delay, target or dead_letter
	Partitions int    `json:"partitions"`
	Since      int64  `json:"since,omitempty"`   // ms: 0 is ever since. Of a delay topic the first request, or the latest of those with which cut partitions begin; of others the first delivery that is left
	Cut        bool   `json:"cut,omitempty"`     // what lay before is gone
	Unknown    bool   `json:"unknown,omitempty"` // since when is not known: no delivery is left
	Undated    bool   `json:"undated,omitempty"` // a delay topic has requests without a timestamp
}

// Found is one kind of what was found.
type Found struct {
	Kind  string  `json:"kind"`
	Count int64   `json:"count"`
	First []Fault `json:"first"` // those of the first requests, by topic, partition and offset; at most Config.Keep

	sum uint64 // of the places of all: another one where they are others, and as many
}

// Fault is one broken promise, or one request of which it cannot be told.
type Fault struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
	Detail    string `json:"detail"`
	At        string `json:"at,omitempty"`   // where it arrived, on seeing which it was found: topic/partition@offset
	When      int64  `json:"when,omitempty"` // its timestamp, ms
}

func (f Fault) String() string {
	s := fmt.Sprintf("%s/%d@%d: %s", f.Topic, f.Partition, f.Offset, f.Detail)
	if f.At != "" {
		s += fmt.Sprintf(" (%s, written %s)", f.At, formatMillis(f.When))
	}
	return s
}

// Kinds are all kinds of faults that a report may have.
func Kinds() []string {
	var all []string
	for _, k := range check.Kinds() {
		if name := nameOf(k); name != "" {
			all = append(all, name)
		}
	}
	return append(all, kindCut)
}

// kindCut: a delay topic has lost what was pending.
const kindCut = "cut"

// noteOfBefore is what a person should know who has changed settings.
const noteOfBefore = "the routes are taken as they are configured now: where delay, jitter, expire_after, timestamp, ids, partitioner, retry, retry_backoff_max or dead_letter were others, what was right may be a fault here (--from)"

// noteOfAnew is what a person should know who sees strays.
const noteOfAnew = "where a delay topic was deleted and made anew, its offsets are the same again: what was delivered of the former one is stray, or looks doubled, altered, early or disordered; a window that begins an hour later is without it (--from)"

// has tells whether there are faults of a kind.
func (r *Report) has(k check.Kind) bool {
	return slices.ContainsFunc(r.Faults, func(f Found) bool { return f.Kind == nameOf(k) })
}

// mayBeOfBefore tells whether there are faults which may be none by the configuration of earlier.
func (r *Report) mayBeOfBefore() bool {
	kinds := []check.Kind{check.Missing, check.Altered, check.Early, check.GoodDeadLettered, check.BadDelivered}
	return slices.ContainsFunc(kinds, r.has)
}

// nameOf is a kind as people read it; empty is one that is not looked for.
func nameOf(k check.Kind) string {
	switch k {
	case check.Ahead, check.Insistent, check.Uncovered:
		return ""
	case check.GoodDeadLettered:
		return "dead-lettered in vain"
	case check.BadDelivered:
		return "delivered in vain"
	}
	return k.String()
}

func (v *Verifier) report(at time.Time) *Report {
	found := v.checker.Report()
	n := found.Counts
	r := &Report{
		At: at.UnixMilli(), ByCode: found.ByCode, Lateness: latenessOf("", found.Lateness), Faults: []Found{},
		Counts: Counts{
			Requested: n.Requested, Left: n.Left, Delivered: n.Delivered, DeadLettered: n.DeadLettered, Taken: n.Taken, Pending: n.Pending,
			Overdue: found.Count(check.Overdue), Missing: found.Count(check.Missing), Untold: n.Untold, Doubled: n.Doubled, Cancels: n.Cancels - n.Forwarded,
			Retried: n.Retried, Elsewhere: n.Elsewhere, Foreign: n.Foreign, Untimed: n.Untimed,
			Otherwise: n.Otherwise, Ahead: n.Ahead, AheadMost: n.AheadMost,
		},
	}
	for target, l := range found.ByTarget {
		r.ByTarget = append(r.ByTarget, latenessOf(target, l))
	}
	slices.SortFunc(r.ByTarget, func(a, b Lateness) int { return cmp.Compare(a.Target, b.Target) })
	for _, k := range check.Kinds() {
		if name := nameOf(k); name != "" && found.Count(k) > 0 {
			r.Faults = append(r.Faults, foundOf(name, &found.Found[k]))
		}
	}
	if cut := v.seen.findCuts(v.config.Keep); cut.Count > 0 {
		r.Faults = append(r.Faults, cut)
	}
	for _, f := range r.Faults {
		r.Counts.Faults += f.Count
	}
	for _, why := range found.Whys() {
		r.Untold = append(r.Untold, foundOf(why, found.Untellable[why]))
	}
	r.Windows, r.Notes, r.Denied = v.seen.windows(), v.seen.notes(v.denied), v.denied
	r.Believed = found.Believed
	for _, w := range r.Windows {
		if w.Kind == "delay" && w.Cut && !v.config.From.IsZero() {
			r.short = append(r.short, w.Topic)
		}
	}
	r.Blind, r.doubtful = v.seen.blind(v.config.Group, &r.Counts)
	r.kept = !v.requests.every((*part).isRead) || !v.arrivals.every((*part).isRead) || len(v.seen.compacted) > 0
	return r
}

func latenessOf(target string, l *check.Lateness) Lateness {
	all := l.Micros
	if l.OverdueMicros.TotalCount() > 0 {
		all.Merge(l.OverdueMicros)
		l.OverdueMicros.Reset()
	}
	ms := func(q float64) float64 { return float64(all.ValueAtQuantile(q)) / 1000 }
	return Lateness{Target: target, Records: all.TotalCount(), P50: ms(50), P99: ms(99), Max: ms(100), Mean: all.Mean() / 1000}
}

func foundOf(kind string, found *check.Found) Found {
	f := Found{Kind: kind, Count: found.Count, First: []Fault{}, sum: found.Sum}
	for _, one := range found.First {
		shown := Fault{Topic: one.Source.Topic, Partition: one.Source.Partition, Offset: one.Source.Offset, Detail: one.Detail}
		if at := one.Arrived; at != nil {
			shown.At, shown.When = fmt.Sprintf("%s/%d@%d", at.Topic, at.Partition, at.Offset), at.Timestamp.UnixMilli()
		}
		f.First = append(f.First, shown)
	}
	return f
}

// Well tells whether no fault was found.
func (r *Report) Well() bool { return r.Counts.Faults == 0 }

// Doubtful tells whether what looks like a fault may be none: nothing is known of the group, and its name may be mistyped. What another one has cancelled,
// retried or carried is not known for that.
func (r *Report) Doubtful() bool { return r.doubtful }

// Write tells all in words.
func (r *Report) Write(w io.Writer) error {
	var b strings.Builder
	for _, x := range r.Windows {
		fmt.Fprintln(&b, x)
	}
	c := r.Counts
	r.writeCounts(&b)
	r.writeLateness(&b)
	for _, f := range r.Untold {
		fmt.Fprintf(&b, "cannot tell of %d: %s\n", f.Count, f.Kind)
		f.write(&b)
	}
	for _, n := range slices.Concat(r.Blind, r.Notes) {
		fmt.Fprintf(&b, "note: %s\n", n)
	}
	for _, f := range r.Faults {
		fmt.Fprintf(&b, "%s: %d\n", strings.ToUpper(f.Kind), f.Count)
		f.write(&b)
	}
	switch {
	case !r.Well() && r.doubtful:
		fmt.Fprintf(&b, "faults: %d, if that is the group\n", c.Faults)
	case !r.Well():
		fmt.Fprintf(&b, "faults: %d\n", c.Faults)
	case len(r.Blind) > 0:
		fmt.Fprintln(&b, "nothing is wrong with what could be looked at")
	case len(r.Denied) > 0:
		fmt.Fprintln(&b, "nothing is wrong with what may be looked at")
	case c.Untold > 0 || r.kept:
		fmt.Fprintln(&b, "all is well, as far as it can be told")
	case len(r.short) > 0:
		fmt.Fprintf(&b, "all is well, as far as it can be told: the older part of the window is gone from %s\n", strings.Join(r.short, ", "))
	case c.Requested+c.Cancels == 0 && slices.ContainsFunc(r.Windows, func(w Window) bool { return w.Kind == "delay" && w.Cut }):
		fmt.Fprintln(&b, "all is well: the window is empty, and what lay there is gone")
	case c.Requested+c.Cancels == 0:
		fmt.Fprintln(&b, "all is well: the window is empty, nothing was requested in it")
	default:
		fmt.Fprintln(&b, "all is well")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (f *Found) write(b *strings.Builder) {
	for _, one := range f.First {
		fmt.Fprintf(b, "  %s\n", one)
	}
	if more := f.Count - int64(len(f.First)); more > 0 {
		fmt.Fprintf(b, "  and %d more\n", more)
	}
}

func (w Window) String() string {
	s := fmt.Sprintf("%s %s: ", strings.ReplaceAll(w.Kind, "_", " "), w.Topic)
	switch {
	case w.Unknown:
		return s + "its older part is gone, and no delivery is left that tells since when it is whole"
	case w.Undated && w.Cut:
		return s + "all that is left of it; some requests have no timestamp"
	case w.Undated:
		return s + "whole; some requests have no timestamp"
	case w.Kind == "delay" && w.Since == 0 && w.Cut:
		return s + "no requests; what lay there is gone"
	case w.Kind == "delay" && w.Since == 0:
		return s + "no requests"
	case w.Cut && w.Since > 0:
		return s + "from " + formatMillis(w.Since) + " on; what lay before is gone"
	case w.Kind == "delay":
		return s + "from " + formatMillis(w.Since) + " on"
	}
	return s + "whole"
}

func byCode(codes map[string]int64) string {
	var all []string
	for _, code := range slices.Sorted(maps.Keys(codes)) {
		all = append(all, fmt.Sprintf("%s %d", code, codes[code]))
	}
	if len(all) == 0 {
		return ""
	}
	return " (" + strings.Join(all, ", ") + ")"
}

func formatMillis(ms int64) string {
	return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z")
}

package check

import (
	"slices"
	"sort"

	"github.com/twmb/franz-go/pkg/kgo"
)

// A Survey that goes on for ever sees where a log ends, and when. So it knows of what has come since, whatever its timestamp says, between which times it has come.

// mark is where a log ended at some time: after the first, and before the second one, in ms.
type mark struct{ end, after, before int64 }

// mostMarks are kept of a partition; then every second one is given up.
const (
	mostMarks = 1 << 10
	markBytes = 24
)

// marks are those of a partition. Invariant: they rise.
type marks []mark

// add notes where the log ends.
func (m *marks) add(end, after, before int64) {
	all := *m
	if n := len(all); n > 0 && all[n-1].end >= end { // nothing has come, so what comes has come after that
		all[n-1].after = max(all[n-1].after, after)
		return
	}
	if len(all) == mostMarks {
		n := 0
		all = slices.DeleteFunc(all, func(mark) bool { n++; return n%2 == 0 })
	}
	*m = append(all, mark{end, after, before})
}

// above is the first mark that a record lies below; len(m): there is none.
func (m marks) above(offset int64) int {
	return sort.Search(len(m), func(i int) bool { return m[i].end > offset })
}

// cameAfter is a time before which a record was not there, in ms; 0: none is known.
func (m marks) cameAfter(offset int64) int64 {
	if n := m.above(offset); n > 0 {
		return m[n-1].after
	}
	return 0
}

// cameBefore is a time at which a record was there, in ms; 0: none is known.
func (m marks) cameBefore(offset int64) int64 {
	if n := m.above(offset); n < len(m) {
		return m[n].before
	}
	return 0
}

// believing is what a Survey takes for true although nothing else says so. It is counted.
type believing struct{ *Checker }

// ahead: a record was due earlier than by its timestamp, which was ahead of the clock then. That it cannot be due before it was there, and its delay, is known.
func (c believing) ahead(src *source, s *slot, offset, due int64, r *kgo.Record) {
	if !s.wasAhead(due) {
		return
	}
	c.counts.Ahead++
	c.counts.AheadMost = max(c.counts.AheadMost, s.due-due)
	if came := src.marks.cameAfter(offset); came > 0 && due < came+ceilMillis(src.route.Delay)-behind.Milliseconds() {
		c.fault(Early, src.name(offset), r, "says that it was due %s, and it was not there before %s: it is due %v after that at the earliest", inUTC(due), inUTC(came), src.route.Delay)
	}
}

// refused: what could be delivered, as things are now, could not when it was dead-lettered for this.
func (c believing) refused(s *slot, a arrival) {
	if c.config.Survey == nil || !s.is(fine) || a.code&mayHappen == 0 {
		return
	}
	if t := c.targets.known[c.targets.names[s.target]]; a.code == TooLarge && a.record != nil && t != nil && t.MaxBytes > 0 && contentSize(a.record)+added > t.MaxBytes {
		return
	}
	c.counts.Believed++
	c.believed[a.code.String()]++
}

// duplicates: what was dead-lettered since another one had its id, and none before it is known.
func (c believing) duplicates(g *sharers) {
	for _, offset := range slices.Compact(slices.Sorted(slices.Values(g.duplicates))) {
		if before := slices.IndexFunc(g.members, func(m int64) bool { return m < offset && !slices.Contains(g.duplicates, m) }); before < 0 {
			c.counts.Believed++
			c.believed[DuplicateID.String()]++
		}
	}
}

// settle counts duplicates for good.
func (c believing) settle(g *sharers) {
	c.duplicates(g)
	g.duplicates = nil
}

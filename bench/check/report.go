package check

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// ErrFaults is what a report with faults says.
var ErrFaults = errors.New("check: promises were broken")

// Found is what was found of one kind of fault.
type Found struct {
	Count int64
	First []Fault // at most Config.Keep
}

// Report is what a Checker found.
type Report struct {
	Counts
	Found    [kinds]Found // by Kind
	Lateness *Lateness
	ByTarget map[string]*Lateness // by target topic
}

// Count returns how many faults of a kind were found.
func (r *Report) Count(k Kind) int64 { return r.Found[k].Count }

// Err returns nil, or an error that is ErrFaults and names every fault that was kept.
func (r *Report) Err() error {
	if r.Faults == 0 {
		return nil
	}
	return fmt.Errorf("%w:\n%s", ErrFaults, r)
}

// String tells everything, over several lines.
func (r *Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "requested %d (%d bad, %d due later), delivered %d, dead-lettered %d, doubled %d, retried %d\n",
		r.Requested, r.Bad, r.Later, r.Delivered, r.DeadLettered, r.Doubled, r.Retried)
	if l := r.Lateness; l.Micros.TotalCount() > 0 {
		fmt.Fprintf(&b, "lateness p50 %v, p99 %v, max %v, longest gap %v\n", l.Quantile(.5), l.Quantile(.99), l.Quantile(1), l.Gap)
	}
	for k, f := range r.Found {
		if f.Count == 0 {
			continue
		}
		fmt.Fprintf(&b, "%s: %d\n", Kind(k), f.Count)
		for _, one := range f.First {
			fmt.Fprintf(&b, "  %s\n", one)
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// Report judges what can be judged only at the end: what is missing, out of order, or never requested. Every topic must have been
// read to its end. It may be called again after more was read.
func (c *Checker) Report() *Report {
	found := c.faults
	for k := range found {
		found[k].First = slices.Clone(found[k].First)
	}
	end := Checker{config: c.config, faults: found, counts: c.counts, until: c.until, targets: c.targets, places: c.places}
	for _, src := range c.sortedSources() {
		end.judgeEnd(src)
		end.judgeAttempts(src)
		end.judgeOrder(src, sorted)
	}
	end.judgeContents(c.contents)
	return &Report{Counts: end.counts, Found: end.faults, Lateness: c.lateness, ByTarget: c.byTarget}
}

func (c *Checker) sortedSources() []*source {
	all := make([]*source, 0, len(c.sources))
	for _, s := range c.sources {
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b *source) int {
		return cmp.Or(strings.Compare(a.topic, b.topic), cmp.Compare(a.partition, b.partition))
	})
	return all
}

func (c *Checker) judgeEnd(src *source) {
	for offset, s := range src.slots() {
		switch {
		case s.is(requested) && s.arrivals == 0 && s.due <= c.until:
			what := "delivered to " + c.targets[s.target]
			if !s.is(mayDeliver) {
				what = "dead-lettered: " + Codes(s.codes).String()
			}
			detail := fmt.Sprintf("due %d (%s), should be %s", s.due, time.UnixMilli(s.due).UTC().Format(time.RFC3339Nano), what)
			c.fault(Fault{Kind: Missing, Source: src.name(offset), Detail: detail})
		case !s.is(requested) && s.arrivals > 0:
			detail := fmt.Sprintf("seen at %s, and no committed request is there", c.where(s.place))
			c.fault(Fault{Kind: Stray, Source: src.name(offset), Detail: detail})
		}
	}
}

// turn is a delivery as far as order is concerned.
type turn struct {
	group    uint64 // of key and target topic
	due, seq int64
	place    place
	offset   int64 // of the request
}

// sorted bounds how many deliveries are sorted at a time.
const sorted = 1 << 20

// judgeOrder finds what was delivered before an earlier one of the same group. Deliveries are taken in as many parts as keep
// memory bounded; a group is never split.
func (c *Checker) judgeOrder(src *source, atATime int) {
	n := 0
	for range src.slots() {
		n++
	}
	parts := uint64(n/atATime + 1)
	for part := range parts {
		var turns []turn
		for offset, s := range src.slots() {
			if !s.is(requested) || !s.is(delivered) {
				continue
			}
			t := turn{group: mix(s.key, uint64(s.target)), due: s.due, seq: offset, place: s.place, offset: offset}
			if t.group%parts != part {
				continue
			}
			if last, ok := src.retries[offset]; ok && s.is(retried) {
				if c.config.AllowDoubles && (last.count != int(last.attempt) || src.attempts[offset] != last.attempt) {
					continue // it was put off twice for one attempt, or again after it had arrived: any of these may have been it
				}
				t.due, t.seq = last.due, last.offset
			}
			turns = append(turns, t)
		}
		c.judgeTurns(src, turns)
	}
}

func (c *Checker) judgeTurns(src *source, turns []turn) {
	slices.SortFunc(turns, func(a, b turn) int {
		return cmp.Or(cmp.Compare(a.group, b.group), cmp.Compare(a.due, b.due),
			cmp.Compare(a.place.partition(), b.place.partition()), cmp.Compare(a.seq, b.seq))
	})
	for i := 1; i < len(turns); i++ {
		a, b := turns[i-1], turns[i]
		if a.group != b.group || a.due != b.due || a.place.partition() != b.place.partition() || a.place < b.place {
			continue
		}
		detail := fmt.Sprintf("at %s, before offset %d with the same key and due %d, at %s", c.where(b.place), a.offset, a.due, c.where(a.place))
		c.fault(Fault{Kind: Disordered, Source: src.name(b.offset), Detail: detail})
	}
}

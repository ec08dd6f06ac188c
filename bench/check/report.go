package check

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// ErrFaults is what a report with faults says.
var ErrFaults = errors.New("check: promises were broken")

// Report is what a Checker found.
type Report struct {
	Counts
	Found    [kinds]Found // by Kind
	Lateness *Lateness
	ByTarget map[string]*Lateness // by target topic

	Untellable map[string]*Found // of a Survey: requests of which it cannot be told what became of them, by why
	ByCode     map[string]int64  // dead letters, by the code that they say
	Believed   map[string]int64  // of a Survey: those of Counts.Believed, by code
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
	end := ending{*c}
	end.untold, end.believed = make(map[string]*Found), maps.Clone(c.believed)
	for why, found := range c.untold {
		end.untold[why] = found.clone()
	}
	for k := range end.found {
		end.found[k] = *end.found[k].clone()
	}
	byName := func(a, b *source) int {
		return cmp.Or(strings.Compare(a.topic, b.topic), cmp.Compare(a.partition, b.partition))
	}
	for _, src := range slices.SortedFunc(maps.Values(c.sources), byName) {
		end.judgeEnd(src)
		end.judgeAttempts(src)
		end.judgeFates(src)
		if c.config.Survey == nil {
			end.judgeOrder(src, sorted) // what a survey has seen is judged as it comes: most of it is forgotten
		}
	}
	end.judgeContents()
	end.judgeNamings()
	end.judgeIDs()
	end.judgePromptness()
	for k := range end.found {
		end.found[k].sort(c.config.Keep)
	}
	for _, found := range end.untold {
		found.sort(c.config.Keep)
	}
	return &Report{Counts: end.Counts(), Found: end.found, Lateness: c.lateness, ByTarget: c.byTarget, Untellable: end.untold, ByCode: maps.Clone(c.byCode), Believed: end.believed}
}

// ReportUntil judges as Report does, but misses nothing that is due after a time: what was read may go on.
func (c *Checker) ReportUntil(until time.Time) *Report {
	defer func(was int64) { c.until = was }(c.until)
	c.until = until.UnixMilli()
	return c.Report()
}

// ending is a checker at the end, with counts and faults of its own: it judges what can be judged only then.
type ending struct{ Checker }

func (e *ending) judgeEnd(src *source) {
	for offset, s := range src.slots() {
		switch {
		case s.is(settled):
		case src.window.untold:
			e.fault(Stray, src.name(offset), nil, "seen at %s, and the delay topic does not have that partition", e.places.name(s.place))
		case e.config.Survey != nil && !s.is(requested) && s.arrivals > 0 && offset >= src.window.next && (src.window.end < 0 || offset < src.window.end):
			// Its request has not been read yet.
		case s.is(requested) && s.arrivals == 0 && (s.due <= e.until || e.config.Survey != nil) && !e.apart(src.name(offset), s):
			says := e.says(s)
			if e.config.Survey != nil {
				surveying{e}.judgeUnseen(src, offset, s, "%s", says)
				continue
			}
			e.fault(Missing, src.name(offset), nil, "%s", says)
		case !s.is(requested) && s.arrivals > 0:
			e.fault(Stray, src.name(offset), nil, "seen at %s, and no committed request is there", e.places.name(s.place))
		}
	}
}

// says tells when a request was due, and what should have become of it.
func (e *ending) says(s *slot) string {
	what := "delivered to " + e.targets.names[s.target]
	if !s.is(mayDeliver) {
		what = condemned(Codes(s.codes))
	}
	if s.due <= atOnce {
		return "should be " + what
	}
	return fmt.Sprintf("due %d (%s), should be %s", s.due, time.UnixMilli(s.due).UTC().Format(time.RFC3339Nano), what)
}

// promised tells what should have become of a request that has met with another end.
func promised(c *Checker, s *slot) string {
	switch {
	case s.is(mayDeliver):
		return "should be delivered to " + c.targets.names[s.target]
	case s.is(mayDie):
		return "should be " + condemned(Codes(s.codes))
	}
	return "is a cancel, of which nothing becomes"
}

// fewCodes are worth naming: a Survey allows nearly all where it is not known what else the configuration of the time has refused.
const fewCodes = 6

// condemned tells what should have become of a request that cannot be delivered.
func condemned(codes Codes) string {
	said := codes.String()
	if strings.Count(said, " or ") >= fewCodes {
		return "dead-lettered, for what its headers say"
	}
	return "dead-lettered: " + said
}

// judgeAttempts: what is delivered after attempts says how many they were, as its last retry record does.
func (e *ending) judgeAttempts(src *source) {
	offsets := slices.Sorted(maps.Keys(src.retries))
	for offset := range src.attempts {
		if _, ok := src.retries[offset]; !ok {
			offsets = append(offsets, offset)
		}
	}
	for _, offset := range offsets {
		e.judgeAttempt(src, offset)
	}
}

func (e *ending) judgeAttempt(src *source, offset int64) {
	s, says, last := src.at(offset), src.attempts[offset].times, src.retries[offset]
	if !s.is(requested) || s.is(delivered) == s.is(died) || s.is(delivered) && src.route.Emit == emitNone || e.config.Survey != nil && src.unclear(offset) {
		return
	}
	name := "delay-tries"
	if s.is(died) {
		name = errorPrefix + "attempts"
	}
	// A record that comes twice may have been delivered before it was put off.
	if says != last.attempt && !(e.config.AllowDoubles && says < last.attempt) {
		e.fault(Altered, src.name(offset), nil, "%s says %d, and its last retry record %d", name, says, last.attempt)
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
func (e *ending) judgeOrder(src *source, atATime int) {
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
			if last, ok := src.retries[offset]; ok && (s.is(retried) || len(src.fates.put[offset]) > 0) {
				if len(src.fates.put[offset]) > 1 || e.config.AllowDoubles && (last.count != int(last.attempt) || src.attempts[offset].times != last.attempt) {
					continue // it was put off twice for one attempt, or again after it had arrived: any of these may have been it
				}
				t.due, t.seq = last.due, last.offset
			}
			turns = append(turns, t)
		}
		e.judgeTurns(src, turns)
	}
}

func (e *ending) judgeTurns(src *source, turns []turn) {
	slices.SortFunc(turns, func(a, b turn) int {
		return cmp.Or(cmp.Compare(a.group, b.group), cmp.Compare(a.due, b.due),
			cmp.Compare(a.place.partition(), b.place.partition()), cmp.Compare(a.seq, b.seq))
	})
	for i := 1; i < len(turns); i++ {
		a, b := turns[i-1], turns[i]
		if a.group != b.group || a.due != b.due || a.place.partition() != b.place.partition() || a.place < b.place {
			continue
		}
		e.fault(Disordered, src.name(b.offset), nil, "at %s, before offset %d with the same key and due %d, at %s", e.places.name(b.place), a.offset, a.due, e.places.name(a.place))
	}
}

// Whys are the reasons for which it cannot be told of some requests what became of them.
func (r *Report) Whys() []string {
	var all []string
	for why := range r.Untellable {
		all = append(all, why)
	}
	slices.Sort(all)
	return all
}

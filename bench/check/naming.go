package check

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
)

// A cancel and a replacement name a request. Of that exactly one thing becomes: it is delivered or dead-lettered, one cancel takes it away, or
// one replacement is delivered in its place. What comes in vain is answered by a dead letter, a cancel if the route says so.

// called is how others name a request: by its place and its due time.
type called struct {
	Source
	due int64
}

// named is a request that others name.
type named struct {
	called
	route     *route
	requested bool
	arrived   bool // delivered or dead-lettered
	by        []*namer
	owed      int64 // of Counts.Outstanding
}

// namer is a cancel or a replacement.
type namer struct {
	of       *named
	name     Source
	replaces bool
	lost     bool // with its log (Watch.Beheaded): it may have counted
	in       end
}

// end is what became of a namer, as far as it was seen.
type end uint8

const (
	unseen    end = iota
	inVain        // dead-lettered, because what it names is not pending
	otherwise     // dead-lettered for another reason
	inPlace       // of a replacement: delivered
)

// namings are the records of a check that name others.
type namings struct {
	*Checker
	named   map[called]*named
	namers  map[Source]*namer
	foreign map[Source]*foreign
}

// foreign is a cancel of a record of another partition: it is written there again, once.
type foreign struct {
	seen     bool
	to       int32 // the partition of the handle
	times    int   // that it was written there
	answered bool  // there is no such partition
	lost     bool  // with its log
}

func newNamings(c *Checker) namings {
	return namings{Checker: c, named: make(map[called]*named), namers: make(map[Source]*namer), foreign: make(map[Source]*foreign)}
}

// pass changes what is known of a foreign cancel, and what is still to come.
func (c *namings) pass(name Source, change func(*foreign)) {
	f := c.foreign[name]
	if f == nil {
		f = new(foreign)
		c.foreign[name] = f
	}
	before := f.owed()
	change(f)
	c.counts.Outstanding += f.owed() - before
}

func (f *foreign) owed() int64 {
	if f.seen && f.times == 0 && !f.answered && !f.lost {
		return 1
	}
	return 0
}

// handle reads <partition>-<offset>-<due>.
func handle(v []byte) (partition int32, offset, due int64, ok bool) {
	parts := bytes.Split(bytes.Trim(v, " \t\r\n"), []byte("-"))
	if len(parts) != 3 {
		return 0, 0, 0, false
	}
	var n [3]int64
	for i, p := range parts {
		u, err := strconv.ParseUint(string(p), 10, 63)
		if n[i] = int64(u); err != nil || strconv.FormatInt(n[i], 10) != string(p) {
			return 0, 0, 0, false
		}
	}
	return int32(n[0]), n[1], n[2], n[0] < 1<<31 && n[2] > 0 && n[2] <= 1e14
}

// forwarded tells whether a record is a cancel that the processor has written again for this partition, and which.
func (s *source) forwarded(r *kgo.Record) (from Source, as *kgo.Record, ok bool) {
	last := len(r.Headers) - 1
	if last < 1 || r.Headers[last].Key != "delay-forwarded" {
		return Source{}, nil, false
	}
	var n [3]int64 // partition, offset, timestamp
	if s.author(r.Headers[last].Value, 1<<62, n[:]) != thisGroup || n[1] < 0 {
		return Source{}, nil, false
	}
	written := *r
	written.Headers = r.Headers[:last]
	return Source{s.topic, int32(n[0]), n[1]}, &written, true
}

// byUsualName gives a cancel that was passed on the name that it has here: it is written as it was where the route, or another group's, had another prefix. It is known by
// the handle of this partition that it has.
func byUsualName(r *kgo.Record) *kgo.Record {
	here := func(h kgo.RecordHeader) bool {
		partition, _, _, is := handle(plain(h.Value))
		return is && partition == r.Partition
	}
	usual := kgo.RecordHeader{Key: "delay-cancel", Value: lastOf(r.Headers, "delay-cancel")}
	if here(usual) {
		return r
	}
	for _, h := range slices.Backward(r.Headers) {
		before, is := strings.CutSuffix(h.Key, "cancel")
		if before != "" && strings.Contains("-_.", before[len(before)-1:]) && is && here(h) {
			as := *r
			as.Headers = append(slices.Clone(r.Headers), kgo.RecordHeader{Key: usual.Key, Value: h.Value})
			return &as
		}
	}
	return r
}

// cancels takes a cancel.
func (c *namings) cancels(src *source, s *slot, r *kgo.Record, e Expectation) {
	if s.is(requested) {
		return // read again
	}
	got := *s
	c.counts.Cancels++
	s.flags |= requested
	if src.route.CancelsAnswered {
		s.flags |= mayDie
	}
	s.print, s.codes = c.hash.asDead(r, 0, r.Timestamp.UnixMilli()), uint32(TooLate|UnknownHandle)
	if e.Names.Partition == r.Partition {
		c.names(src, r.Offset, e, false)
	} else {
		c.pass(src.name(r.Offset), func(f *foreign) {
			f.to = e.Names.Partition
			f.seen, f.answered = true, f.answered || !src.route.CancelsAnswered && f.times == 0 && !c.exists(e.Names)
		})
	}
	if got.arrivals > 0 {
		judging{c.Checker}.judgeLate(src, s, &got, r, e)
		c.ended(src.name(r.Offset), s, Codes(got.codes), got.is(died))
	}
}

// names takes in that the record at an offset names another one.
func (c *namings) names(src *source, offset int64, e Expectation, replaces bool) {
	n := c.of(c.meant(called{e.Names, e.NamesDue}), src.route)
	by := &namer{name: src.name(offset), replaces: replaces, of: n}
	c.namers[by.name] = by
	n.by = append(n.by, by)
	c.owe(n)
	if g := c.ids.of[n.Source]; g != nil {
		c.ids.owe(g) // it may have been taken away by its handle
	}
}

// meant is the request that a handle names: what waits to be tried again has one of its own, which means that no more when it is tried once more.
func (c *namings) meant(name called) called {
	src := c.source(name.Topic, name.Partition)
	if src == nil || !isWaitingRetry(src, name.Offset) {
		return name
	}
	origin := src.peek(name.Offset).due
	if src.retries[origin].due-src.route.jitter(name.Partition, name.Offset) != name.due {
		return name
	}
	of := src.name(origin)
	return called{of, src.route.asked(of, src.peek(origin))}
}

// of is a request that something names.
func (c *namings) of(name called, rt *route) *named {
	if n := c.named[name]; n != nil {
		return n
	}
	n := &named{called: name, route: rt}
	c.named[name] = n
	s, by := c.source(name.Topic, name.Partition).peek(name.Offset), c.namers[name.Source]
	if cancels := by != nil && !by.replaces; s.is(requested) && c.routes[name.Topic].asked(name.Source, s) == name.due && !cancels && c.foreign[name.Source] == nil {
		n.requested, n.arrived = true, s.arrivals > 0
		switch {
		case s.is(settled) && c.config.Survey == nil: // the log had lost it, and what names it may take it away all the same
			s.flags &^= settled
			c.counts.Lost--
		case !n.arrived && c.ids.of[name.Source] == nil:
			*c.counts.waiting(s, c.until)--
		}
	}
	return n
}

// mostPartitions is more than any topic of a test has.
const mostPartitions = 1000

// exists tells whether a delay topic has the partition of a handle.
func (c *namings) exists(name Source) bool {
	if c.config.Survey != nil {
		return c.source(name.Topic, name.Partition) != nil
	}
	return name.Partition <= mostPartitions
}

// apart reports whether a record is not waited for by itself.
func (c *namings) apart(name Source, s *slot) bool {
	n, by, f := c.called(name, s), c.namers[name], c.foreign[name]
	return n != nil && n.requested || by != nil && !by.replaces || f != nil && f.seen
}

// called is what names the request in a slot; nil is nothing.
func (c *namings) called(name Source, s *slot) *named {
	return c.named[called{name, c.routes[name.Topic].asked(name, s)}]
}

// noteRequested takes in that a request was seen.
func (c *namings) noteRequested(name Source, s *slot) {
	if n := c.called(name, s); n != nil {
		n.requested, n.arrived = true, s.arrivals > 0
		c.owe(n)
	}
}

// ended takes in that a record has arrived, dead for a reason or not.
func (c *namings) ended(name Source, s *slot, code Codes, dead bool) {
	c.arrived(name, s)
	if f := c.foreign[name]; f != nil && f.seen && dead {
		c.pass(name, func(f *foreign) { f.answered = true })
	}
	by := c.namers[name]
	if by == nil {
		return
	}
	switch {
	case dead && code&(TooLate|UnknownHandle) != 0:
		by.in = inVain
	case dead && by.in != inPlace:
		by.in = otherwise
	case !dead:
		by.in = inPlace
	}
	c.owe(by.of)
}

// arrived takes in that a record has arrived which others may name.
func (c *namings) arrived(name Source, s *slot) {
	if n := c.called(name, s); n != nil && n.requested {
		n.arrived = true
		c.owe(n)
	}
}

// takers are how many have taken a request away for certain, how many may have, and how many cancels have not been answered.
func (n *named) takers() (certain, maybe, silent int) {
	for _, by := range n.by {
		switch {
		case by.lost:
			maybe++
		case by.replaces && by.in == inPlace && !n.route.ReplacesLate:
			certain++
		case by.replaces && by.in != inVain:
			maybe++ // one that is not seen yet, too
		case !by.replaces && by.in == unseen:
			silent++
		}
	}
	return certain, maybe, silent
}

// owe works out how much is still to come, which a survey does not wait for.
func (c *namings) owe(n *named) {
	if c.config.Survey != nil {
		return
	}
	certain, maybe, silent := n.takers()
	owed := int64(0)
	if n.route.CancelsAnswered {
		owed = int64(silent)
		// After a crash what was delivered may be pending again (AllowDoubles).
		if n.requested && (!n.arrived && certain == 0 || c.config.AllowDoubles) {
			owed = max(owed-1, 0)
		}
	}
	if n.requested && !n.arrived && certain+maybe+silent == 0 && n.due <= c.until && c.ids.of[n.Source] == nil && !lost(c.source(n.Topic, n.Partition), n.Offset) { // else it may have been taken away by its id
		owed++
	}
	c.counts.Outstanding += owed - n.owed
	n.owed = owed
}

// judgeNamings: of what is named exactly one thing has become.
func (e *ending) judgeNamings() {
	for _, n := range e.namings.named {
		e.judgeNamed(n)
	}
	for name, f := range e.namings.foreign {
		e.judgeForeign(name, f)
	}
}

// judgeNamed tells whether it has found something to tell of.
func (e *ending) judgeNamed(n *named) bool {
	before := e.faults() + e.counts.Untold
	if e.config.Survey != nil {
		surveying{e}.surveyNamed(n)
	} else {
		e.compareNamed(n)
	}
	return e.faults()+e.counts.Untold > before
}

func (e *ending) compareNamed(n *named) {
	certain, maybe, silent := n.takers()
	if !n.route.CancelsAnswered {
		maybe, silent = maybe+silent, 0
	}
	all := certain + silent
	if n.arrived {
		all++
	}
	switch {
	case !n.requested && silent > 0:
		e.fault(Missing, n.Source, nil, "was never requested, and %d cancels of it were not answered", silent)
	case !n.requested && certain > 0:
		e.fault(BadDelivered, n.Source, nil, "was never requested, and something was delivered in its place")
	case !n.requested:
	case all == 0 && maybe == 0 && n.due <= e.until && e.ids.of[n.Source] == nil && !lost(e.source(n.Topic, n.Partition), n.Offset):
		e.fault(Missing, n.Source, nil, "was neither delivered nor taken away, and all %d that name it came in vain", len(n.by))
	case all > 1 && !e.config.AllowDoubles:
		e.fault(Doubled, n.Source, nil, "arrived: %v, %d replacements of it were delivered, and %d cancels of it were not answered", n.arrived, certain, silent)
	}
}

func (e *ending) judgeForeign(name Source, f *foreign) {
	if e.config.Survey != nil && !(surveying{e}).canTell(name, f) {
		return
	}
	switch {
	case !f.seen:
		e.fault(Stray, name, nil, "was forwarded, and is no cancel of a record of another partition")
	case f.times == 0 && !f.answered && !f.lost:
		e.fault(Missing, name, nil, "is a cancel of a record of another partition, and was not forwarded")
	case f.times > 1 && !e.config.AllowDoubles:
		e.fault(Doubled, name, nil, "was forwarded %d times", f.times)
	}
}

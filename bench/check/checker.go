package check

import (
	"fmt"
	"hash/maphash"
	"math"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Checker compares what was requested with what arrived. It belongs to one goroutine.
type Checker struct {
	judge
	until  int64 // due times above are not waited for
	now    int64 // of a Survey: what time it is, in ms
	hash   hasher
	routes map[string]*route // by delay topic

	prefixed []*route        // those whose headers have another prefix than usual
	letters  map[string]bool // dead-letter topics
	targets  targets
	places   places
	sources  map[topicPartition]*source
	contents contents // of routes without emitted headers
	namings  namings
	ids      ids
	relays   relays            // of a Survey
	astray   map[Source]string // of a Survey, by what has not arrived where it belongs: where else it lies
	prompt   promptness

	lateness *Lateness
	byTarget map[string]*Lateness
	turns    turns
	untold   map[string]*Found // of a Survey, by why: requests of which it cannot be told what became of them
	byCode   map[string]int64  // dead letters, by the code that they say
	believed map[string]int64  // of a Survey: those of Counts.Believed
	counts   Counts            // but for Faults
}

type topicPartition struct {
	topic     string
	partition int32
}

// Counts are numbers of records.
type Counts struct {
	Requested    int64 // committed requests
	Outstanding  int64 // of these: due by Config.Until, and not seen yet
	Later        int64 // of these: due later, and not seen yet
	Bad          int64 // of these: must be dead-lettered
	Delivered    int64 // seen in target topics
	DeadLettered int64 // seen in dead-letter topics
	Doubled      int64 // seen again, whether allowed or not
	Retried      int64 // retry records
	Postponed    int64 // records of a retry route that came at a time that is not known, written again
	Again        int64 // of the delivered: on a retry route
	Expired      int64 // of the dead-lettered: of no use any more
	Parked       int64 // of these: delivered too often
	Resolved     int64 // resolve records
	Carried      int64 // carried copies
	Lost         int64 // requests that the log has lost before they have arrived (Watch.Beheaded), and which have not
	PassedOver   int64 // records that another group wrote for itself
	Cancels      int64 // committed cancels, those included that were forwarded
	Forwarded    int64 // of these: written again for the partition that they concern
	Faults       int64 // found so far

	// Of a Survey; all but the first four are of a report.
	Elsewhere int64 // arrived, of requests outside of the window
	Foreign   int64 // in target and dead-letter topics: what names no request of the routes
	Untimed   int64 // delivered, and when is not known (Route.Timestamp)
	Left      int64 // of the requested: those that have left their log, of which what stands for them tells
	Pending   int64 // requests that are not due, or have been for a moment only
	Taken     int64 // requests that were cancelled, replaced or left out
	Untold    int64 // requests of which it cannot be told what became of them
	Believed  int64 // dead-lettered, and could be delivered as things are now
	Otherwise int64 // delivered as the route was configured otherwise, of headers.emit or timestamp, which is believed
	Ahead     int64 // delivered, and due earlier than their timestamps say, since those were ahead of the clock
	AheadMost int64 // ms: by so much at most
}

// New makes a checker, or says what is wrong with a configuration.
func New(config Config) (*Checker, error) {
	if err := config.validate(); err != nil {
		return nil, err
	}
	config.fill()
	c := &Checker{
		judge:    judge{config: config},
		until:    math.MaxInt64,
		hash:     hasher{maphash.MakeSeed()},
		routes:   make(map[string]*route),
		letters:  make(map[string]bool),
		targets:  targets{known: make(map[string]*target), by: make(map[string]uint16), java: kgo.StickyKeyPartitioner(nil).ForTopic("")},
		places:   places{by: make(map[topicPartition]int)},
		sources:  make(map[topicPartition]*source),
		lateness: newLateness(),
		byTarget: make(map[string]*Lateness),
		turns:    newTurns(config.Survey != nil),
		untold:   make(map[string]*Found),
		byCode:   make(map[string]int64),
		believed: make(map[string]int64),
	}
	c.namings, c.ids, c.relays = newNamings(c), newIDs(c), relays{by: make(map[Source][]relay)}
	c.astray = make(map[Source]string)
	c.prompt = newPromptness(config)
	c.targets.index(others)
	if !config.Until.IsZero() {
		c.until = config.Until.UnixMilli()
	}
	for _, t := range config.Targets {
		c.AddTarget(t)
	}
	denied := make(map[string]bool)
	for _, r := range config.Routes {
		denied[r.Topic] = true
		for _, box := range []Codes{0, Exhausted} {
			box := (&route{Route: r}).letterBox(box)
			denied[box], c.letters[box] = true, true
		}
		rt := &route{Route: r, targets: c.targets.known, denied: denied, verdicts: make(map[string]verdict), surveyed: config.Survey != nil}
		if rt.Expect == nil {
			rt.Expect = rt.expect
			if rt.surveyed {
				rt.Expect = rt.expectLoosely
			}
		}
		c.routes[r.Topic] = rt
		if rt.Prefix != "" && rt.Prefix != prefix {
			c.prefixed = append(c.prefixed, rt)
		}
		switch {
		case r.Emit == emitNone && rt.surveyed:
			c.relays.routes = append(c.relays.routes, rt)
		case r.Emit == emitNone && c.contents == nil:
			c.contents = make(contents)
		}
	}
	return c, nil
}

// Counts returns what was seen so far.
func (c *Checker) Counts() Counts {
	n := c.counts
	n.Faults = c.faults()
	return n
}

// Expect says what must become of a record of a delay topic.
func (c *Checker) Expect(r *kgo.Record) Expectation {
	src := c.source(r.Topic, r.Partition)
	if src == nil {
		return Expectation{}
	}
	if r = src.route.asUsual(r); src.passedOver(r) || src.isInternal(r) {
		return Expectation{}
	}
	if _, _, ok := src.retryOf(r); ok {
		return Expectation{}
	}
	if _, as, ok := src.forwarded(r); ok {
		r = byUsualName(as)
	}
	return src.route.Expect(r)
}

// Observe takes a record of any of the topics; seen is when a consumer saw it.
func (c *Checker) Observe(r *kgo.Record, seen time.Time) {
	switch {
	case c.routes[r.Topic] != nil:
		c.Requested(r)
		c.prompt.noteThere(c, Source{r.Topic, r.Partition, r.Offset}, seen)
		c.awaitAccepted(c.source(r.Topic, r.Partition), r.Offset, seen)
	case c.letters[r.Topic]:
		c.Died(r, seen)
	default:
		c.Delivered(r, seen)
	}
}

// Requested takes a committed record of a delay topic. Records that a processor wrote there itself are recognised.
func (c *Checker) Requested(r *kgo.Record) {
	src := c.source(r.Topic, r.Partition)
	if src == nil {
		c.fault(Stray, Source{r.Topic, r.Partition, r.Offset}, r, "not a delay topic of this check")
		return
	}
	src.window.next = max(src.window.next, r.Offset+1)
	written := r
	if r = src.route.asUsual(r); src.passedOver(r) {
		c.counts.PassedOver++
		return
	}
	if of, is := src.resolved(r); is {
		c.counts.Resolved++
		if c.config.Survey == nil {
			src.said[of.seq] = r.Offset
		}
		standing{c, src}.resolved(of)
		return
	}
	if was, is := src.copyOf(written); is {
		c.counts.Carried++
		standing{c, src}.copied(was, written.Offset)
		return
	}
	if _, _, ok := src.retryOf(r); ok {
		standing{c, src}.tried(written)
		return
	}
	from, as, forwarded := src.forwarded(r)
	asked := r
	if forwarded {
		r, asked = as, byUsualName(as)
	}
	e := src.route.Expect(asked)
	outside := !src.window.has(r.Offset) && e.alone()
	if e.Outcome == Ignore || !outside && src.is(r.Offset, requested) {
		return // no request, or read again
	}
	if (relaying{c}).asks(src, written, e); outside {
		return
	}
	judging{c}.ask(src, r, from, e)
	if c.config.Survey != nil && r.Timestamp.UnixMilli() >= 0 {
		c.prompt.noteThere(c, src.name(r.Offset), r.Timestamp)
	}
	if !src.window.has(r.Offset) {
		judging{c}.disregard(src, r.Offset, e, forwarded)
	}
}

// ask takes a request or a cancel; from is where a cancel was first written that was passed on.
func (c judging) ask(src *source, r *kgo.Record, from Source, e Expectation) {
	forwarded := from != (Source{})
	if forwarded && e.Outcome == Cancel {
		c.counts.Forwarded++
	}
	s := src.at(r.Offset)
	if e.Outcome == Cancel && e.NamesID {
		c.ids.cancel(src, s, r.Offset, from, e.ID)
		return
	}
	if forwarded {
		c.namings.pass(from, func(f *foreign) { f.times++ })
	}
	if e.Outcome == Cancel {
		c.namings.cancels(src, s, r, e)
		return
	}
	got, came := *s, src.fates.came[r.Offset]
	c.want(src, s, r, e)
	src.fates.request(src.route, r, e)
	if e.ID != "" {
		c.ids.noteRead(src, r.Offset, r.Timestamp.UnixMilli()-s.ahead())
		c.ids.request(src, r.Offset, e)
	} else if c.config.Survey != nil {
		delete(c.ids.sent, src.name(r.Offset))
	}
	c.namings.noteRequested(src.name(r.Offset), s)
	if e.Names.Topic != "" {
		c.namings.names(src, r.Offset, e, true)
	}
	if e.Codes&TooLarge != 0 && len(r.Key)+len(r.Value) >= headBytes {
		src.large[r.Offset] = large{c.hash.extent(r.Key), c.hash.extent(r.Value)}
	}
	if got.arrivals > 0 {
		c.judgeLate(src, s, &got, r, e)
		timing(c).judgeSeen(src, s, r.Offset, came)
		c.ended(src.name(r.Offset), s, Codes(got.codes), got.is(died))
	}
	if src.route.Emit == emitNone && s.is(mayDeliver) && c.contents != nil {
		c.learn(src, s, r, e)
	}
}

// want turns a slot into that of a request.
func (c judging) want(src *source, s *slot, r *kgo.Record, e Expectation) {
	timestamp := r.Timestamp.UnixMilli()
	since := c.waitsUntil(src, timestamp, e.Due)
	s.flags |= requested
	if e.OrLater {
		s.flags |= orLater
	}
	if e.fine {
		s.flags |= fine
	}
	if e.dueUnread {
		s.flags |= dueUnread
	}
	if mayBeAhead(src.route, r) {
		s.flags |= orEarlier
	}
	s.partition = c.targets.chosen(src, e)
	if c.config.Survey != nil {
		s.stamp = stampOf(timestamp)
	}
	s.codes = uint32(e.Codes)
	s.target = c.targets.index(e.Target)
	if c.config.Survey != nil && !byBroker(r) {
		s.flags |= byClock
	}
	if c.config.Survey != nil && e.Due > timestamp && (e.Outcome == DeadLetter || e.Codes&(DuplicateID|TooLate) != 0) {
		src.written[r.Offset] = timestamp
	}
	switch e.Outcome {
	case DeadLetter:
		s.flags |= mayDie
		s.print = c.hash.asDead(r, e.Due, timestamp)
		c.counts.Bad++
		if c.config.Survey != nil && since > e.Due {
			src.overdue[r.Offset] = since
		}
	case Either:
		s.flags |= mayDie
		fallthrough
	default:
		s.flags |= mayDeliver
		s.print = c.hash.asDelivered(e.Key, r.Value, src.route.kept(r.Headers), e.Due, src.route.emitted(timestamp))
		if since > e.Due && (c.config.Survey != nil || src.route.Emit != emitAll) {
			src.overdue[r.Offset] = since
		}
	}
	c.counts.Requested++
	if s.arrivals == 0 && e.ID == "" && c.namings.called(src.name(r.Offset), s) == nil {
		*c.counts.waiting(s, c.until)++
	}
}

// exampleOf says something of what is outstanding.
func exampleOf(c *Checker) string {
	for name, g := range c.ids.by {
		if all := c.ids.missing(g); len(all) > 0 {
			return fmt.Sprintf("%v, with the id %q, which %d have (%v); what may take them away: %v", g.name(all[0]), name.id, len(g.members), g.members, g.takers)
		}
	}
	for _, n := range c.namings.named {
		if n.owed > 0 {
			said := fmt.Sprintf("what becomes of %v, due %d (requested: %v, arrived: %v), named by", n.Source, n.due, n.requested, n.arrived)
			for _, by := range n.by {
				said += fmt.Sprintf(" %v (replaces: %v, end %d)", by.name, by.replaces, by.in)
			}
			return said
		}
	}
	for name, f := range c.namings.foreign {
		if f.owed() > 0 {
			return fmt.Sprintf("cancel %v to be forwarded", name)
		}
	}
	for _, src := range c.sources {
		for offset, s := range src.slots() {
			if s.is(requested) && s.arrivals == 0 && s.due <= c.until && !c.apart(src.name(offset), s) {
				return fmt.Sprintf("%v, due %d", src.name(offset), s.due)
			}
		}
	}
	return "none that is known"
}

// waiting is the count that a request belongs to until it is seen.
func (n *Counts) waiting(s *slot, until int64) *int64 {
	if s.due > until {
		return &n.Later
	}
	return &n.Outstanding
}

// source returns what is remembered of a partition, or nil when its topic is no delay topic.
func (c *Checker) source(topic string, partition int32) *source {
	key := topicPartition{topic, partition}
	if s := c.sources[key]; s != nil || c.config.Survey != nil {
		return s // a survey is told which there are
	}
	return c.newSource(topic, partition)
}

func (c *Checker) newSource(topic string, partition int32) *source {
	rt := c.routes[topic]
	if rt == nil {
		return nil
	}
	s := &source{topic: rt.Topic, partition: partition, route: rt, window: whole, pages: make(map[int64]*page), few: make(map[int64]*slot), arrived: make(map[int64]*bits),
		retries: make(map[int64]retry), attempts: make(map[int64]tried), fates: newFates(), overdue: make(map[int64]int64), written: make(map[int64]int64), large: make(map[int64]large), cut: make(map[int64]cut), gone: make(map[goneAt]*goneBits), copied: make(map[int64]int64), said: make(map[int64]int64)}
	c.sources[topicPartition{rt.Topic, partition}] = s
	return s
}

// apart reports whether a record is not waited for by itself.
func (c *Checker) apart(name Source, s *slot) bool {
	return c.namings.apart(name, s) || c.ids.apart(name)
}

// ended takes in that a record has arrived, dead for a reason or not.
func (c *Checker) ended(name Source, s *slot, code Codes, dead bool) {
	c.namings.ended(name, s, code, dead)
	c.ids.ended(name, code, dead)
}

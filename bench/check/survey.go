package check

import (
	"math"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Survey knows of topics that were not made for a check what records do not say: how far a group is, and what topics have lost.
//
// With it a Checker judges less, since what it does not see proves less: the configuration may have been another one when a request was
// refused, topics come and go, others write to targets, and the older part of any topic may be gone.
type Survey interface {
	// Resolved tells whether the group says that it is done with a record: it has accepted it, and its key, of due time and seq, is at or
	// below the watermark.
	Resolved(of Source, due, seq int64) bool
	// Unseen judges a request of which nothing was seen in target and dead-letter topics.
	Unseen(Unseen) Verdict
}

// Unseen is a request of which nothing was seen.
type Unseen struct {
	Source
	Due, Seq  int64 // the key by which the processor orders it; times in ms
	Place     int64 // the offset of the last record that stands for it: itself, a retry record, or a carried copy; negative: not all that was read since it came
	DueUnread bool  // when it is due is not known
	Undated   bool  // when it came is not known, nor when it is due, before the group has noted it
	Since     int64 // ms: since when it is waited for
	Delivered int64 // ms: the earliest that it can have been delivered, which with a fixed delay may be before Since
	Refused   int64 // ms: the earliest that it can have been dead-lettered, which may be long before it is due
	Cancel    bool  // it is a cancel, which is dead-lettered when it comes in vain
	Target    string
	Partition int32 // where it must be there, asked for or by its key; negative is anywhere
	MayArrive bool  // it may have been delivered
	MayDie    bool  // it may have been dead-lettered
	Silent    bool  // its route emits no headers by which it could be known again
}

// Verdict is what is made of a request of which nothing was seen.
type Verdict struct {
	Fate  Fate
	Why   string // of Untellable: a few words, the same for all of one kind; of Lost: what else is to be said
	Final bool   // it will not be another one later on
}

// Fate is what has become of it.
type Fate uint8

// The fates.
const (
	Waits      Fate = iota // it is not due, or has been for a moment only
	Lags                   // it is due, and the group does not say that it is done with it
	Lost                   // the group says so, and it would have been seen
	Untellable             // it may have arrived where it cannot be seen
)

// Reached says that a partition of a delay topic has been read up to an offset, whatever lies there.
func (c *Checker) Reached(topic string, partition int32, next int64) {
	if src := c.sources[topicPartition{topic, partition}]; src != nil {
		src.window.next = max(src.window.next, next)
	}
}

// Ended says where a partition of a delay topic ended after all that has arrived was read, before a time in ms: what names a request beyond it names none.
func (c *Checker) Ended(topic string, partition int32, end, before int64) {
	if src := c.sources[topicPartition{topic, partition}]; src != nil {
		src.ended(end)
		src.marks.add(end, c.now, before)
	}
	c.relays.ended()
}

// Until is what Config.Until is from now on, and what time it is, both in ms. Only a Survey may change it.
func (c *Checker) Until(millis, now int64) { c.until, c.now = millis, now }

// AddTarget makes a target topic known, or knows it better.
func (c *Checker) AddTarget(t Target) {
	if known := c.targets.known[t.Topic]; known != nil {
		known.Target = t
		return
	}
	c.targets.known[t.Topic] = &target{Target: t, index: c.targets.index(t.Topic)}
	for _, rt := range c.routes {
		delete(rt.verdicts, t.Topic)
	}
	if c.config.Survey == nil {
		c.byTarget[t.Topic] = newLateness()
	}
}

// Target returns where a record of a delay topic asks to be delivered, or nothing.
func (c *Checker) Target(r *kgo.Record) string {
	if src := c.sources[topicPartition{r.Topic, r.Partition}]; src != nil {
		return src.route.Expect(src.route.asUsual(r)).Target
	}
	return ""
}

// Allowed tells whether any route may deliver to a topic, as they are configured.
func (c *Checker) Allowed(topic string) bool {
	for _, rt := range c.routes {
		if rt.allowed(topic) {
			return true
		}
	}
	return false
}

// mayHappen are reasons for which any request may have been dead-lettered: by a configuration that was another one, or by what a topic was.
const mayHappen = NoTarget | TargetNotAllowed | UnknownTarget | TooLarge | TooFarAhead | Rejected | ForbiddenTarget | InvalidPartition

// mostVerdicts are remembered.
const mostVerdicts = 1 << 12

// expectLoosely says what must become of a request, by its headers alone, for all that is known of the configuration of its time.
func (rt *route) expectLoosely(r *kgo.Record) Expectation {
	if len(rt.verdicts) > mostVerdicts {
		clear(rt.verdicts)
	}
	e := rt.expect(r)
	if e.Outcome == Cancel || e.Outcome == Ignore {
		return e
	}
	certain := e.Codes &^ (mayHappen | Expired | InvalidExpiry | TooLate | DuplicateID) // which expiry cannot be read is known to the processor alone
	if e.dueUnread {
		certain &^= UnparsableDue | DueOutOfRange
	}
	e.fine = e.Outcome != DeadLetter && e.Codes&mayHappen == 0
	e.Outcome = Either
	if certain != 0 || e.unread {
		e.Outcome = DeadLetter
		e.Codes |= unread | DueOutOfRange | InvalidPartition | WrongPartition | InvalidAttempt // whichever was found first
	}
	e.Codes |= mayHappen
	return e
}

// alone tells whether a request concerns no other one.
func (e *Expectation) alone() bool { return e.Outcome != Cancel && e.Names.Topic == "" && e.ID == "" }

// partitionOf is where a request must arrive; negative is anywhere.
func partitionOf(s *slot) int32 {
	if s.partition < -1 {
		return -2 - int32(s.partition)
	}
	return int32(s.partition)
}

// unseen asks what became of a request of which nothing was seen.
func (c judging) unseen(src *source, offset int64, s *slot) Verdict {
	key := src.keyed(offset, s.due)
	since := max(key.due, src.overdue[offset])
	undated := s.is(orLater) && key.due <= atOnce
	if came := src.marks.cameBefore(offset); undated && src.route.Retry != nil && came > 0 { // a replica that reads it finds that it has come then, at the latest
		since, undated = came+src.fates.terms[offset].pause, false
	}
	delivered := deliveredAt(src, offset, s, key.due)
	v := c.config.Survey.Unseen(Unseen{
		Source: src.name(offset), Due: key.due, Seq: key.seq, Place: standsAt(c.Checker, src, offset, s), DueUnread: s.is(dueUnread), Undated: undated,
		Since: since, Delivered: delivered, Refused: refusedAt(src, offset, s, delivered),
		Cancel: !s.is(mayDeliver) && !s.is(mayDie) || c.cancels(src.name(offset)),
		Target: c.targets.names[s.target], Partition: partitionOf(s), MayArrive: s.is(mayDeliver), MayDie: s.is(mayDie),
		Silent: src.route.Emit == emitNone && s.is(mayDeliver),
	})
	if _, resolved := src.said[offset]; resolved && v.Fate == Lost {
		return Verdict{Fate: Untellable, Why: whyTakenBefore, Final: v.Final}
	}
	return v
}

func (c judging) cancels(name Source) bool {
	by := c.namings.namers[name]
	return by != nil && !by.replaces
}

// surveying is how an ending judges a survey: what is not seen of it may lie outside of the window.
type surveying struct{ *ending }

// judgeUnseen counts a request of which nothing was seen as what it is. What says what should have become of it.
func (e surveying) judgeUnseen(src *source, offset int64, s *slot, what string, args ...any) {
	what, args = what+"%s", append(slices.Clip(args), straying{&e.Checker}.seen(src.name(offset)))
	switch v := (judging{&e.Checker}).unseen(src, offset, s); v.Fate {
	case Waits:
		e.counts.Pending++
	case Lags:
		e.fault(Overdue, src.name(offset), nil, what, args...)
	case Lost:
		if v.Why != "" {
			what, args = what+"; %s", append(slices.Clip(args), v.Why)
		}
		e.fault(Missing, src.name(offset), nil, what, args...)
	case Untellable:
		e.untell(v.Why, src.name(offset), what, args...)
	}
}

// untell counts a request of which it cannot be told what became of it.
func (e surveying) untell(why string, name Source, what string, args ...any) {
	e.counts.Untold++
	found := e.untold[why]
	if found == nil {
		found = new(Found)
		e.untold[why] = found
	}
	e.keep(found, Missing, name, nil, what, args...)
}

// surveyNamed: a cancel that was not answered has taken its request away, or its answer cannot be seen.
func (e surveying) surveyNamed(n *named) {
	t := e.tally(n)
	if t.src == nil {
		return
	}
	switch all := t.all(); {
	case !t.requested && t.slot.is(dueUnread): // it may be called so
	case !t.requested && t.unanswered > 0:
		e.fault(Missing, n.Source, nil, "was never requested, and %d cancels of it were not answered", t.unanswered)
	case !t.requested && t.certain > 0:
		e.fault(BadDelivered, n.Source, nil, "was never requested, and something was delivered in its place")
	case !t.requested:
	case all > 1 && !e.config.AllowDoubles:
		e.fault(Doubled, n.Source, nil, "arrived: %v, %d replacements of it were delivered, and %d cancels of it were not answered", t.arrived, t.certain, t.unanswered)
	case t.over():
	case t.vanished(e.until):
		e.judgeUnseen(t.src, n.Offset, t.slot, inVainNamed, e.says(t.slot), len(n.by))
	case all == 0 && t.slot.due > e.until && !e.taken(n):
		e.counts.Pending++
	default:
		e.take(t.src, n.Offset, t.slot)
	}
}

// What is said of a request that is named, and of one that has an id, of which nothing was seen.
const (
	inVainNamed = "%s; all %d that name it came in vain"
	withID      = "%s; it has the id %q, and nothing that came later can have taken it away"
)

// tally is what has become of a request that is named, and of what names it.
type tally struct {
	src                        *source // nil: it is not judged
	slot                       *slot
	requested, arrived         bool
	hasID                      bool // which decides, too
	certain, maybe, unanswered int  // have taken it away, may have, are cancels that were not answered
}

func (e surveying) tally(n *named) (t tally) {
	src := e.source(n.Topic, n.Partition)
	if src == nil || !src.judges(n.Offset) || !(judging{&e.Checker}).wasRead(n.Source) {
		return t
	}
	s := src.peek(n.Offset)
	t = tally{src: src, slot: s, requested: n.requested || s.is(forgotten), arrived: n.arrived || s.is(forgotten), hasID: e.ids.of[n.Source] != nil}
	for _, by := range n.by {
		if n.route.CancelsAnswered && !by.replaces && by.in == unseen && src.judges(by.name.Offset) {
			if cancel := src.peek(by.name.Offset); (judging{&e.Checker}).unseen(src, by.name.Offset, cancel).Fate == Lost {
				t.unanswered++
			}
		}
	}
	certain, maybe, silent := n.takers()
	t.certain, t.maybe = certain, maybe+silent-t.unanswered
	return t
}

// all are those of which one at most may be.
func (t *tally) all() int {
	if t.arrived {
		return t.certain + t.unanswered + 1
	}
	return t.certain + t.unanswered
}

// over tells whether it is not to be told here what has become of it.
func (t *tally) over() bool { return t.arrived || t.slot.is(settled) || t.hasID }

// vanished tells whether it is due, and nothing can have taken it away.
func (t *tally) vanished(until int64) bool {
	return t.src != nil && t.requested && !t.over() && t.all() == 0 && t.maybe == 0 && t.slot.due <= until
}

// take counts a request that may have been taken away, and of which nothing was seen.
func (e surveying) take(src *source, offset int64, s *slot) {
	if v := (judging{&e.Checker}).unseen(src, offset, s); v.Fate == Untellable {
		e.judgeUnseen(src, offset, s, "%s", e.says(s))
		return
	}
	e.counts.Taken++
}

// canTell tells whether it can be judged that a cancel was passed on.
func (e surveying) canTell(name Source, f *foreign) bool {
	src := e.source(name.Topic, name.Partition)
	switch {
	case src == nil || !src.window.has(name.Offset) || !judging{&e.Checker}.wasRead(name):
		return false
	case !f.seen: // or it has been forgotten
		return !src.givenUp(name.Offset/pageSlots) && !src.is(name.Offset, settled)
	case f.times > 0:
		return true
	}
	to := e.source(name.Topic, f.to)
	return to != nil && to.window.from == 0 && e.accepted(name)
}

// surveyIDs: what has vanished was taken away by what came later. Duplicates and what was passed on are not judged: what had an id before may be
// outside of the window.
func (e surveying) surveyIDs() {
	for name, g := range e.ids.by {
		e.surveyGroup(g, name.id)
		believing{&e.Checker}.duplicates(g)
	}
}

// whyBefore: of a route that leaves out what has an id that another one has.
const whyBefore = "their id may have been had by a request outside of the window"

func (e surveying) surveyGroup(g *sharers, id string) {
	e.judgeMemory(g, id)
	e.judgeTogether(g, id)
	missing, pending := e.ids.missing(g), e.pending(g)
	for i, offset := range g.members {
		switch s := g.peek(offset); {
		case s.arrivals > 0 || s.is(settled) || g.window.precedes(offset):
		case slices.Contains(missing, offset) && e.ids.unclear(g, i):
			e.untell(whyBefore, g.name(offset), "%s", e.says(s))
		case slices.Contains(missing, offset):
			e.judgeUnseen(g.source, offset, s, withID, e.says(s), id)
		case slices.Contains(pending, offset):
			e.counts.Pending++
		default:
			e.take(g.source, offset, s)
		}
	}
}

// pending are the members that are not due yet, and that nothing has taken away which the group has read: at most one, if it keeps its promises.
func (e surveying) pending(g *sharers) (all []int64) {
	takers := g.takers
	take := func(to int64) {
		for ; len(takers) > 0 && takers[0] <= to; takers = takers[1:] {
			if e.accepted(g.name(takers[0])) {
				all = all[:0]
			}
		}
	}
	for _, offset := range g.members {
		s, name := g.peek(offset), g.name(offset)
		if take(offset); s.arrivals > 0 || g.window.precedes(offset) || s.due <= e.until || g.route.OnDuplicate == LeaveOut && len(all) > 0 {
			continue
		}
		if n := e.namings.called(name, s); n == nil || !e.taken(n) {
			all = append(all, offset)
		}
	}
	take(math.MaxInt64)
	return all
}

// taken tells whether the group has read what takes a request away that is pending.
func (e surveying) taken(n *named) bool {
	return slices.ContainsFunc(n.by, func(by *namer) bool { return by.in != inVain && e.accepted(by.name) })
}

// unclear tells whether a request that has an id may have been left out because of one outside of the window: none before it was delivered.
func (c *ids) unclear(g *sharers, i int) bool {
	wasDelivered := func(before int64) bool { return g.is(before, delivered) }
	return g.route.OnDuplicate == LeaveOut && g.window.from > 0 && !slices.ContainsFunc(g.members[:i], wasDelivered)
}

// is looks at a slot, if there is one.
func (s *source) is(offset int64, f flag) bool { return s.peek(offset).is(f) }

// settle notes that a request is not waited for any more although nothing was seen of it.
func (e surveying) settle(name Source) {
	if src := e.sources[topicPartition{name.Topic, name.Partition}]; src != nil {
		if s := src.peek(name.Offset); s.is(requested) && s.arrivals == 0 && !s.is(settled) {
			if s.is(mayDeliver) {
				e.take(src, name.Offset, s)
			}
			s.flags |= settled
		}
	}
}

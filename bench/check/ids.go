package check

import (
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// An id is had by one pending request of a partition at most. What comes beside it is dead-lettered, takes its place or is left out, as the
// route says; and a cancel of the id takes it away, in another partition if it is not pending in its own. A cancel does not say what it has
// taken. So of those with one id what has vanished is compared with what has come later that could take it away: each takes one at most.

// OnDuplicate is what becomes of a request whose id is pending.
type OnDuplicate uint8

// What becomes of it.
const (
	Reject OnDuplicate = iota
	Replace
	LeaveOut
)

// expectID reads the id of a request.
func (rt *route) expectID(e *Expectation, a asked, r *kgo.Record) {
	id := a.id
	switch {
	case rt.Delay > 0 && len(id) > 0:
		e.refuse(UnsupportedHeader)
		return
	case rt.Keyed && (len(id) > 0 || len(r.Key) == 0):
		e.refuse(InvalidID)
		return
	case rt.Keyed:
		id = r.Key
	}
	_, _, _, isHandle := handle(plain(id))
	_, _, _, byHandle := handle(a.replace)
	other := len(a.replace) > 0 && !byHandle && string(a.replace) != string(id) // it replaces another id than its own
	switch {
	case len(id) > 256 || isHandle || len(id) > 0 && (byHandle || other):
		e.refuse(InvalidID)
		e.Names, e.NamesID, e.ID = Source{}, false, ""
		return
	case len(id) > 0 && e.understood():
		e.ID = string(id)
	}
	if e.ID != "" && rt.OnDuplicate == Reject {
		e.doubt(DuplicateID)
	}
}

// idName is an id in a partition.
type idName struct {
	topicPartition
	id string
}

// sharers are the requests of a partition that have one id, and what may have taken them away, by offset, rising.
type sharers struct {
	*source
	members, takers []int64
	duplicates      []int64 // of the members: dead-lettered for that
	late            []int64 // of the takers: dead-lettered, because nothing had the id
	had             bool    // of a Survey: the first member may have been left out because of one that was given up
	owed            int64   // of Counts.Outstanding
}

// ids are the requests of a check that have ids, and the cancels of these.
type ids struct {
	*Checker
	by      map[idName]*sharers
	of      map[Source]*sharers
	cancels map[Source]string        // of which id
	passed  map[Source]map[int32]int // cancels that were written again: how often in which partition
	came    map[Source]bool          // these
	sent    map[Source]int64         // when a request was delivered, in ms, where ids are remembered; of a Survey: of all that have one, or may
	spans   map[Source]span          // of a Survey, where what has an id that is had is left out
}

// span is for how long a request may have had its id, in ms. Zero is not known.
type span struct{ read, over int64 } // when it was read at the earliest, and when what became of it was written

func newIDs(c *Checker) ids {
	return ids{c, map[idName]*sharers{}, map[Source]*sharers{}, map[Source]string{}, map[Source]map[int32]int{}, map[Source]bool{}, map[Source]int64{}, map[Source]span{}}
}

// sharers are those of an id in a partition.
func (c *ids) sharers(src *source, id string) *sharers {
	name := idName{topicPartition{src.topic, src.partition}, id}
	g := c.by[name]
	if g == nil {
		g = &sharers{source: src, had: src.freed.has(c.hash.bytes([]byte(id)))}
		c.by[name] = g
	}
	return g
}

// insert keeps offsets in order.
func insert(in []int64, offset int64) []int64 {
	at, _ := slices.BinarySearch(in, offset)
	return slices.Insert(in, at, offset)
}

// request takes in a request that has an id, or names one that it replaces.
func (c *ids) request(src *source, offset int64, e Expectation) {
	g := c.sharers(src, e.ID)
	g.members = insert(g.members, offset)
	if src.route.OnDuplicate == Replace || e.NamesID {
		g.takers = insert(g.takers, offset)
	}
	c.of[src.name(offset)] = g
	c.owe(g)
}

// cancel takes in a cancel of an id, which another partition may have passed on.
func (c *ids) cancel(src *source, s *slot, offset int64, from Source, id string) {
	c.counts.Cancels++
	if s.flags |= requested; s.arrivals > 0 {
		c.fault(BadDelivered, src.name(offset), nil, "seen at %s, and should be dead-lettered: it is a cancel of an id, of which nothing becomes", c.places.name(s.place))
	}
	g := c.sharers(src, id)
	g.takers = insert(g.takers, offset)
	c.cancels[src.name(offset)] = id
	if from != (Source{}) {
		if c.passed[from] == nil {
			c.passed[from] = map[int32]int{}
		}
		c.passed[from][src.partition]++
		c.came[src.name(offset)] = true
	}
	c.owe(g)
}

// apart reports whether a record is not waited for by itself.
func (c *ids) apart(name Source) bool {
	_, cancels := c.cancels[name]
	return cancels || c.of[name] != nil
}

// ended takes in that a request has arrived, dead for a reason or not.
func (c *ids) ended(name Source, code Codes, dead bool) {
	g := c.of[name]
	if g == nil {
		return
	}
	if dead && code&DuplicateID != 0 {
		g.duplicates = append(g.duplicates, name.Offset)
	}
	if dead && code&TooLate != 0 {
		g.late = append(g.late, name.Offset)
	}
	c.owe(g)
}

// delivered takes in when a request was delivered, in ms, if that is known.
func (c *ids) delivered(src *source, offset, written int64) {
	c.noteOver(src, offset, written)
	name := src.name(offset)
	mayHaveOne := c.config.Survey != nil && (c.of[name] != nil || !src.is(offset, requested))
	if (src.route.Remember > 0 || mayHaveOne) && written != untimed && c.sent[name] == 0 {
		c.sent[name] = written
	}
}

// judgeMemory: what was delivered is remembered, so nothing with its id is delivered until that ends, unless something between the two
// has ended it.
func (e *ending) judgeMemory(g *sharers, id string) {
	if g.route.Remember == 0 || e.config.AllowDoubles {
		return
	}
	last := int64(-1)
	for _, offset := range g.members {
		sent := e.ids.sent[g.name(offset)]
		if sent == 0 {
			continue
		}
		ended := slices.ContainsFunc(g.takers, func(t int64) bool { return last < t && t <= offset })
		if last >= g.below && !ended && e.namings.called(g.name(last), g.at(last)) == nil && sent < g.at(last).due+g.route.Remember.Milliseconds() {
			e.fault(Doubled, g.name(offset), nil, "was delivered at %s and has the id %q, as has offset %d, which was delivered before and is remembered", inUTC(sent), id, last)
		}
		last = offset
	}
}

// owe works out how much is still to come, which a survey does not wait for: one id may have as many as there are requests.
func (c *ids) owe(g *sharers) {
	if c.config.Survey != nil {
		return
	}
	owed := int64(len(c.missing(g)))
	c.counts.Outstanding += owed - g.owed
	g.owed = owed
}

// missing are the members that are due, have not arrived, and cannot have been taken away.
func (c *ids) missing(g *sharers) (all []int64) {
	taker, free := len(g.takers)-1, 0
	for i, offset := range slices.Backward(g.members) {
		for ; taker >= 0 && g.takers[taker] > offset; taker-- {
			free++
		}
		s, name := g.peek(offset), g.name(offset)
		n := c.namings.called(name, s)
		switch {
		case s.arrivals > 0 || s.is(settled) || s.due > c.until || lost(g.source, offset) || g.window.precedes(offset) || n != nil && len(n.by) > 0:
		case s.pends() && g.route.OnDuplicate == LeaveOut && c.mayBeLeftOut(g, i):
		case s.pends() && free > 0:
			free--
		default:
			all = append(all, offset)
		}
	}
	return all
}

// tookID is for how long after what became of a request was written it may still be taken to have its id: clocks differ.
const tookID = time.Minute

// mayBeLeftOut tells whether a request before one may have had its id when that was read. What nothing was seen of may have had it for ever, and so may,
// with AllowDoubles, what has arrived.
func (c *ids) mayBeLeftOut(g *sharers, i int) bool {
	if i == 0 || c.config.Survey == nil || c.config.AllowDoubles {
		return i > 0 || g.had
	}
	read, cancelled := c.spans[g.name(g.members[i])].read, c.lastCancel(g, g.members[i])
	for _, before := range slices.Backward(g.members[:i]) {
		if before < cancelled && g.peek(before).arrivals == 0 {
			continue // it did not have it any more
		}
		over := c.spans[g.name(before)].over
		remembered := g.peek(before).due + g.route.Remember.Milliseconds() + time.Second.Milliseconds()
		if over == 0 || read <= max(over, remembered)+tookID.Milliseconds() {
			return true
		}
	}
	return false
}

// lastCancel is where the last cancel of an id lies before an offset that was written into that partition itself; one that was passed on takes nothing away that
// was written after it. -1: there is none.
func (c *ids) lastCancel(g *sharers, offset int64) int64 {
	for _, by := range slices.Backward(g.takers) {
		if _, cancels := c.cancels[g.name(by)]; cancels && by < offset && !c.came[g.name(by)] {
			return by
		}
	}
	return -1
}

// noteRead takes in when a request was read at the earliest, and noteOver when what became of it was written, in ms.
func (c *ids) noteRead(src *source, offset, millis int64) {
	if c.config.Survey != nil && src.route.OnDuplicate == LeaveOut {
		name := src.name(offset)
		c.spans[name] = span{millis, c.spans[name].over}
	}
}

func (c *ids) noteOver(src *source, offset, millis int64) {
	if c.config.Survey != nil && src.route.OnDuplicate == LeaveOut && millis != untimed {
		name := src.name(offset)
		c.spans[name] = span{c.spans[name].read, max(millis, c.spans[name].over)}
	}
}

// atDelivery are the reasons that are looked at when a request is due; until then it is pending.
const atDelivery = UnknownTarget | ForbiddenTarget | TooLarge | Rejected | Expired | InvalidPartition

// pends reports whether a request was pending, before it was delivered or dead-lettered.
func (s *slot) pends() bool { return s.is(mayDeliver) || Codes(s.codes)&atDelivery != 0 }

// judgeIDs: what has vanished was taken away, a duplicate has another one before it, and a cancel that finds nothing is passed on once.
func (e *ending) judgeIDs() {
	if e.config.Survey != nil {
		surveying{e}.surveyIDs()
		return
	}
	for name, g := range e.ids.by {
		e.judgeMemory(g, name.id)
		for _, offset := range e.ids.missing(g) {
			e.fault(Missing, g.name(offset), nil, "has the id %q, is due, and nothing that came later can have taken it away", name.id)
		}
		for _, offset := range g.duplicates {
			before := slices.IndexFunc(g.members, func(m int64) bool { return m < offset && !slices.Contains(g.duplicates, m) })
			if before < 0 && !e.config.AllowDoubles {
				e.fault(GoodDeadLettered, g.name(offset), nil, "is said to be a duplicate of the id %q, which nothing had before", name.id)
			}
		}
	}
	for from, to := range e.ids.passed {
		if _, is := e.ids.cancels[from]; !is {
			e.fault(Stray, from, nil, "was passed on, and is no cancel of an id")
		}
		for partition, times := range to {
			if times > 1 && !e.config.AllowDoubles {
				e.fault(Doubled, from, nil, "was passed on to partition %d %d times", partition, times)
			}
		}
	}
	for name, id := range e.ids.cancels {
		e.judgePassing(name, id)
	}
}

// judgePassing: a cancel of an id that nothing before it has in its partition is for the others.
func (e *ending) judgePassing(name Source, id string) {
	src := e.source(name.Topic, name.Partition)
	g := e.ids.sharers(src, id)
	others := 0
	for of := range e.sources {
		if of.topic == name.Topic && of.partition != name.Partition {
			others++
		}
	}
	found := len(g.members) > 0 && g.members[0] < name.Offset
	if name.Offset >= src.below && len(e.ids.passed[name]) == 0 && !found && others > 0 && !e.ids.came[name] {
		e.fault(Missing, name, nil, "cancels the id %q, which nothing before it has, and was not passed on", id)
	}
}

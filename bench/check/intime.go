package check

import (
	"slices"
	"time"
)

// A cancel or a replacement counts if it is read before the turn of what it names begins, and what lies in one partition is read in order: so one that was
// there long before its request was delivered, in the same partition, has to have counted. How long that is the test says (Config.InTime). A Survey goes by timestamps,
// and judges what was named before it arrived. So it is with what has the id of a request that waits: it takes its place, or is not delivered.

// promptness is when requests were delivered, and those were written that may have taken them away; nothing without Config.InTime.
type promptness struct {
	asked     bool             // for that
	delivered map[Source]int64 // ms, at the latest
	there     map[Source]int64 // ms: from then on at the latest it was in the log
}

func newPromptness(config Config) promptness {
	return promptness{config.InTime > 0, make(map[Source]int64), make(map[Source]int64)}
}

// noteThere takes in when a consumer saw a record that may be a cancel, a replacement or a duplicate.
func (p *promptness) noteThere(c *Checker, name Source, seen time.Time) {
	if !p.asked || seen.IsZero() {
		return
	}
	_, cancels := c.ids.cancels[name]
	if _, again := p.there[name]; !again && (cancels || c.namings.namers[name] != nil || c.ids.of[name] != nil) {
		p.there[name] = seen.UnixMilli()
	}
}

// noteDelivered takes in when a request was delivered, by its processor's clock, and when a consumer saw that.
func (p *promptness) noteDelivered(c *Checker, name Source, s *slot, m moment) {
	if !p.asked || m.seen.IsZero() && m.written == untimed || c.config.Survey != nil && c.namings.called(name, s) == nil && c.ids.of[name] == nil {
		return
	}
	at := m.written
	if !m.seen.IsZero() && (at == untimed || m.seen.UnixMilli() < at) {
		at = m.seen.UnixMilli()
	}
	if was, again := p.delivered[name]; !again || at < was {
		p.delivered[name] = at
	}
}

// wasInTime tells for how long something had been in the partition of a request when that was delivered, if that is longer than it may take to count. What
// was tried again had its turn before.
func (e *ending) wasInTime(of Source, by Source) (time.Duration, bool) {
	sent, delivered := e.prompt.delivered[of]
	there, seen := e.prompt.there[by]
	if !delivered || !seen || by.Partition != of.Partition || by.Topic != of.Topic || by.Offset < of.Offset {
		return 0, false
	}
	src := e.source(of.Topic, of.Partition)
	if _, tried := src.retries[of.Offset]; tried || src.peek(of.Offset).is(retried) {
		return 0, false
	}
	took := time.Duration(sent-there) * time.Millisecond
	return took, took > e.config.InTime
}

// judgePromptness: what has come in time, and says that it has not.
func (e *ending) judgePromptness() {
	if e.config.InTime == 0 {
		return
	}
	for _, n := range e.namings.named {
		e.judgeHeard(n)
	}
	for _, g := range e.ids.by {
		heeding{e}.judge(g)
	}
}

// judgeHeard: what names a request by its handle takes it away. It tells whether it has found something to tell of.
func (e *ending) judgeHeard(n *named) bool {
	for _, by := range n.by {
		if took, is := e.wasInTime(n.Source, by.name); is && !by.lost && n.requested && n.arrived && (by.in == inVain || !by.replaces && by.in == unseen) {
			e.unheeded(n.Source, by.name, took)
			return true
		}
	}
	return false
}

// heeding judges what has one id.
type heeding struct{ *ending }

// judge tells whether it has found something to tell of.
func (e heeding) judge(g *sharers) bool {
	before := e.faults()
	for _, offset := range g.members {
		e.judgeOne(g, offset)
	}
	return e.faults() > before
}

// judgeOne: a cancel of an id takes away all that had it before, in its own partition, and so does a replacement.
func (e heeding) judgeOne(g *sharers, offset int64) {
	if slices.Contains(g.duplicates, offset) {
		return
	}
	for _, by := range g.takers {
		if name := g.name(by); by == offset || by < g.below || !e.takes(g, by) {
			continue
		} else if took, is := e.wasInTime(g.name(offset), name); is {
			e.unheeded(g.name(offset), name, took)
			return
		}
	}
	e.judgeBeside(g, offset)
}

// takes tells whether something takes away what has an id before it, in its own partition: of a replacement that is known once it was delivered, or was dead-lettered
// because nothing had the id any more.
func (e heeding) takes(g *sharers, by int64) bool {
	name := g.name(by)
	_, cancels := e.ids.cancels[name]
	_, came := e.prompt.delivered[name]
	return cancels && !e.ids.came[name] || came || slices.Contains(g.late, by)
}

// judgeBeside: what has the id of a request that waits is not delivered, unless something has taken the id away between the two. What judgeMemory and judgeTogether tell
// of is not told again, and what was lost with its log (Watch.Beheaded) may have lost its id, too.
func (e heeding) judgeBeside(g *sharers, offset int64) {
	of := g.name(offset)
	if n := e.namings.called(of, g.peek(offset)); offset < g.below || g.route.OnDuplicate == Replace || g.route.Remember > 0 || e.config.AllowDoubles || n != nil && len(n.by) > 0 {
		return
	}
	next, _ := slices.BinarySearch(g.members, offset+1)
	for _, by := range g.members[next:] {
		if taker, _ := slices.BinarySearch(g.takers, offset+1); taker < len(g.takers) && g.takers[taker] <= by {
			return
		}
		sent, came := e.prompt.delivered[g.name(by)]
		if !came || sent+tookID.Milliseconds() < e.prompt.delivered[of] {
			continue
		}
		if took, is := e.wasInTime(of, g.name(by)); is {
			e.fault(BadDelivered, g.name(by), nil, "was delivered, and had been in its partition for %v when %v was, which has its id", took.Round(time.Millisecond), of)
			return
		}
	}
}

func (e *ending) unheeded(of, by Source, took time.Duration) {
	e.fault(BadDelivered, of, nil, "was delivered, and %v, which takes it away, had been in its partition for %v", by, took.Round(time.Millisecond))
}

package check

import (
	"maps"
	"slices"
)

// A Survey may go on for ever, over more requests than memory has room for. Of one that is settled no more is kept than that it has arrived.

// bits are offsets of a delay topic whose pages were given up.
type bits struct {
	pages   [bitsPages / 64]uint64 // those that were
	arrived [bitsPages]uint64      // one of each page: the requests that have arrived
	died    *[bitsPages]uint64     // and of these the dead-lettered; nil: none
}

// A page has as many slots as a word has bits.
const (
	bitsPages   = 1 << 10
	bitsOffsets = bitsPages * pageSlots
)

// givenUp tells whether a page was.
func (s *source) givenUp(n int64) bool {
	b := s.arrived[n/bitsPages]
	return b != nil && b.pages[n%bitsPages/64]&(1<<(n%64)) != 0
}

// recall makes the slot of an offset whose page was given up.
func (s *source) recall(offset int64) *slot {
	if few := s.few[offset]; few != nil {
		return few
	}
	made := s.remembered(offset)
	s.few[offset] = &made
	return &made
}

// remembered is what is left of a slot whose page was given up.
func (s *source) remembered(offset int64) slot {
	n := offset / pageSlots
	b, bit := s.arrived[n/bitsPages], uint64(1)<<(offset%pageSlots)
	if b.arrived[n%bitsPages]&bit == 0 {
		return slot{}
	}
	left := slot{arrivals: 1, flags: requested | mayDeliver | mayDie | orLater | forgotten | settled}
	if b.died != nil && b.died[n%bitsPages]&bit != 0 {
		left.flags |= died
	}
	return left
}

// giveUp replaces a page by one bit for each request, but for those that are not settled.
func (s *source) giveUp(n int64, isSettled func(offset int64, s *slot) bool) {
	b, p := s.block(n), s.pages[n]
	for i := range p {
		offset := n*pageSlots + int64(i)
		if isSettled(offset, &p[i]) {
			b.note(offset, &p[i])
			continue
		}
		kept := p[i]
		s.few[offset] = &kept
	}
	b.pages[n%bitsPages/64] |= 1 << (n % 64)
	delete(s.pages, n)
}

// block is where it is noted that a page was given up.
func (s *source) block(n int64) *bits {
	b := s.arrived[n/bitsPages]
	if b == nil {
		b = new(bits)
		s.arrived[n/bitsPages] = b
	}
	return b
}

// What is held, in bytes, roughly: as measured by BenchmarkSurvey.
const (
	pageBytes    = pageSlots*48 + 64
	fewBytes     = 128
	specialBytes = 400 // a request that names another one, or has an id
	freedBytes   = 24  // an id that was given up
)

// Held is how much is held of requests, in bytes, roughly.
func (c *Checker) Held() int64 {
	n := int64(len(c.namings.named)+len(c.namings.namers)+len(c.namings.foreign)+len(c.ids.by)+len(c.ids.of)+len(c.ids.cancels)+len(c.relays.by)) * specialBytes
	n += int64(len(c.ids.spans)+len(c.ids.sent)+len(c.astray)+len(c.prompt.delivered)+len(c.prompt.there)) * fewBytes
	for _, s := range c.sources {
		n += int64(len(s.pages))*pageBytes + int64(len(s.few))*fewBytes + int64(len(s.arrived))*(bitsPages*8+bitsPages/8)
		n += int64(len(s.marks))*markBytes + int64(len(s.copied))*copyBytes + int64(len(s.gone))*bitsPages*8 + int64(len(s.freed.now)+len(s.freed.before))*freedBytes
		for _, b := range s.arrived {
			if b.died != nil {
				n += bitsPages * 8
			}
		}
		n += int64(len(s.retries)+len(s.attempts)+len(s.overdue)+len(s.written)+len(s.large)+len(s.cut)+len(s.fates.terms)+len(s.fates.came)+len(s.fates.put)) * fewBytes
	}
	return n
}

// fewest is of how many slots of a page one may be unsettled when it is given up.
const fewest = 8

// Forget judges what is settled and gives it up. Only a Survey may: what is said of a request later on is then not compared with it, but for
// that it has arrived. What is lost, or cannot be told of, by the word of the Survey, is settled; so that must not change its mind.
func (c *Checker) Forget() {
	if c.config.Survey == nil {
		return
	}
	relaying{c}.judgeHeld()
	end := &ending{*c}
	surveying{end}.decideShared()
	surveying{end}.forgetIDs()
	surveying{end}.forgetNamings()
	surveying{end}.forgetRelays()
	for _, src := range c.sources {
		surveying{end}.decide(src)
		isSettled := func(offset int64, s *slot) bool { return surveying{end}.isSettled(src, offset, s) }
		for offset, s := range src.few {
			if offset < src.window.next && isSettled(offset, s) {
				surveying{end}.bury(src, offset, s)
				src.arrived[offset/bitsOffsets].note(offset, s)
				delete(src.few, offset)
			}
		}
		for _, n := range slices.Collect(maps.Keys(src.pages)) {
			p, open := src.pages[n], 0
			if (n+1)*pageSlots > src.window.next {
				continue
			}
			for i := range p {
				if !isSettled(n*pageSlots+int64(i), &p[i]) {
					open++
				}
			}
			if open > pageSlots/fewest {
				continue
			}
			for i := range p {
				if offset := n*pageSlots + int64(i); isSettled(offset, &p[i]) {
					surveying{end}.bury(src, offset, &p[i])
				}
			}
			src.giveUp(n, isSettled)
		}
	}
	c.judge, c.counts = end.judge, end.counts // the rest is shared
}

// decide settles requests of which nothing was seen, and nothing will be.
func (e surveying) decide(src *source) {
	for offset, s := range src.slots() {
		if !s.is(requested) || s.arrivals > 0 || s.is(settled) || s.is(dueUnread) || e.apart(src.name(offset), s) {
			continue
		}
		if v := (judging{&e.Checker}).unseen(src, offset, s); v.Final && (v.Fate == Lost || v.Fate == Untellable) {
			e.judgeUnseen(src, offset, s, "%s", e.says(s))
			s.flags |= settled
		}
	}
}

// decideShared does the same for those that have ids, or are named: the group is done with them, so nothing that it has yet to read takes them away.
func (e surveying) decideShared() {
	for name, g := range e.ids.by {
		missing := e.ids.missing(g)
		for i, offset := range g.members {
			if s := g.peek(offset); slices.Contains(missing, offset) && !e.ids.unclear(g, i) {
				e.lose(g.source, offset, s, withID, e.says(s), name.id)
			}
		}
	}
	for _, n := range e.namings.named {
		if t := e.tally(n); t.vanished(e.until) {
			e.lose(t.src, n.Offset, t.slot, inVainNamed, e.says(t.slot), len(n.by))
		}
	}
}

// lose settles a request that is lost for good. What says what should have become of it.
func (e surveying) lose(src *source, offset int64, s *slot, what string, args ...any) {
	if v := (judging{&e.Checker}).unseen(src, offset, s); v.Fate == Lost && v.Final && !s.is(settled) {
		e.fault(Missing, src.name(offset), nil, what+"%s", append(slices.Clip(args), straying{&e.Checker}.seen(src.name(offset)))...)
		s.flags |= settled
	}
}

// note sets the bit of a request.
func (b *bits) note(offset int64, s *slot) {
	if !s.is(requested) || s.arrivals == 0 {
		return
	}
	b.arrived[offset/pageSlots%bitsPages] |= 1 << (offset % pageSlots)
	if s.is(died) {
		if b.died == nil {
			b.died = new([bitsPages]uint64)
		}
		b.died[offset/pageSlots%bitsPages] |= 1 << (offset % pageSlots)
	}
}

// isSettled tells whether nothing is waited for any more at an offset that was read.
func (e surveying) isSettled(src *source, offset int64, s *slot) bool {
	switch {
	case s.flags == 0:
		return true
	case s.is(settled): // what shares its id, or names it, goes by that as long as that is kept
		return !e.apart(src.name(offset), s)
	case s.is(isRetry):
		return !isWaitingRetry(src, offset) // else it may yet be named
	case !s.is(requested) && s.arrivals > 0:
		return false
	}
	return s.arrivals > 0 && !e.apart(src.name(offset), s) && !src.unclear(offset)
}

// bury judges what can be judged when nothing more comes of a request, and forgets what was noted for that.
func (e surveying) bury(src *source, offset int64, s *slot) {
	if s.flags == 0 {
		return
	}
	if !s.is(forgotten) {
		e.judgeAttempt(src, offset)
		e.judgeFate(src, offset)
	}
	delete(e.prompt.delivered, src.name(offset))
	delete(e.ids.sent, src.name(offset))
	delete(e.ids.spans, src.name(offset))
	forgetPlaces(src, offset)
	delete(src.attempts, offset)
	delete(src.overdue, offset)
	delete(src.written, offset)
	forgetExtents(src, offset)
	src.fates.forget(offset)
}

// scratch judges without effect.
func (e surveying) scratch() *ending {
	copied := &ending{e.Checker}
	copied.untold = make(map[string]*Found)
	return copied
}

// accepted tells whether the group has read a record of a delay topic.
func (e surveying) accepted(of Source) bool { return e.config.Survey.Resolved(of, 0, 0) }

// done tells whether nothing more will become of a request.
func (e surveying) done(name Source) bool {
	src := e.sources[topicPartition{name.Topic, name.Partition}]
	if src == nil {
		return true
	}
	if s := src.peek(name.Offset); s.arrivals > 0 || src.window.precedes(name.Offset) {
		return true
	}
	return judging{&e.Checker}.unseen(src, name.Offset, src.peek(name.Offset)).Final
}

// forgetNamings gives up what names others, and what they name, where nothing is open.
func (e surveying) forgetNamings() {
	for key, n := range e.namings.named {
		inside := judging{&e.Checker}.inWindow(n.Source)
		open := e.ids.of[n.Source] != nil || n.requested && !e.done(n.Source) || inside && !n.requested && !judging{&e.Checker}.wasRead(n.Source)
		for _, by := range n.by {
			open = open || !e.accepted(by.name) || by.replaces && !e.done(by.name)
		}
		if open || e.scratch().judgeNamed(n) || e.scratch().judgeHeard(n) {
			continue
		}
		for _, by := range n.by {
			if !by.replaces {
				e.settle(by.name)
			}
			delete(e.namings.namers, by.name)
			delete(e.prompt.there, by.name)
		}
		if n.requested {
			e.settle(n.Source)
		}
		delete(e.namings.named, key)
	}
	for name, f := range e.namings.foreign {
		if !(judging{&e.Checker}).inWindow(name) || f.seen && (f.times > 0 || f.answered) && e.accepted(name) {
			e.judgeForeign(name, f)
			e.settle(name)
			delete(e.namings.foreign, name)
		}
	}
}

// forgetIDs gives up ids that no request has that is open.
func (e surveying) forgetIDs() {
	for name, g := range e.ids.by {
		e.forgetFirst(g, name.id)
		open := false
		for _, offset := range g.members {
			open = open || !e.done(g.name(offset)) || g.peek(offset).due+g.route.Remember.Milliseconds() > e.until
		}
		for _, offset := range g.takers {
			open = open || !e.accepted(g.name(offset))
		}
		if scratch := e.scratch(); !open {
			before := scratch.faults()
			surveying{scratch}.surveyGroup(g, name.id)
			open = scratch.faults() > before || scratch.untold[whyBefore] != nil || heeding{scratch}.judge(g)
		}
		if open {
			continue
		}
		for _, offset := range slices.Concat(g.members, g.takers) {
			e.forgetOfID(g.name(offset))
		}
		if g.route.OnDuplicate == LeaveOut {
			g.freed.note(e.hash.bytes([]byte(name.id)))
		}
		delete(e.ids.by, name)
	}
	clear(e.ids.passed) // it is not judged
}

func (e surveying) forgetOfID(name Source) {
	e.settle(name)
	delete(e.ids.of, name)
	delete(e.ids.cancels, name)
	delete(e.ids.came, name)
	delete(e.ids.sent, name)
	delete(e.prompt.there, name)
}

// fewestOfID is how many requests of one id are kept at least, as long as one of them is open.
const fewestOfID = 64

// forgetFirst gives up what had an id before the first request that is open, if all of it can be told without what comes later: but for
// that one, which may have taken away what was before it.
func (e surveying) forgetFirst(g *sharers, id string) {
	believing{&e.Checker}.settle(g)
	first := 0
	for first < len(g.members)-1 && e.done(g.name(g.members[first])) && g.peek(g.members[first]).due+g.route.Remember.Milliseconds() <= e.until {
		first++
	}
	if first < fewestOfID || g.route.OnDuplicate == LeaveOut {
		return
	}
	stays := g.members[first]
	taken, _ := slices.BinarySearch(g.takers, stays+1)
	before := &sharers{source: g.source, members: g.members[:first], takers: g.takers[:taken]}
	scratch := e.scratch()
	surveying{scratch}.surveyGroup(before, id)
	heeding{scratch}.judge(before)
	surveying{scratch}.judgeTogether(g, id)
	if !e.accepted(g.name(stays)) || len(e.ids.missing(before)) > 0 || scratch.faults() > e.faults() {
		return
	}
	for _, offset := range slices.Concat(before.members, before.takers) {
		if offset != stays {
			e.forgetOfID(g.name(offset))
		}
	}
	g.members, g.takers = slices.Clone(g.members[first:]), slices.Clone(g.takers[taken:])
}

// inWindow tells whether a request is judged.
func (c judging) inWindow(name Source) bool {
	src := c.sources[topicPartition{name.Topic, name.Partition}]
	return src != nil && src.judges(name.Offset)
}

// wasRead tells whether a place in a delay topic has been passed.
func (c judging) wasRead(name Source) bool {
	src := c.sources[topicPartition{name.Topic, name.Partition}]
	return src != nil && name.Offset < src.window.next
}

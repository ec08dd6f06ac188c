package check

import "github.com/twmb/franz-go/pkg/kgo"

// A request may leave its log while it is pending: then a carried copy stands for it, which holds all that was asked for, or a retry record. A Survey that
// did not read the request reads it there.

// standing are the records of a partition that stand for others.
type standing struct {
	*Checker
	src *source
}

// copied takes what a carried copy is of, as that was written, a request or a retry record, and where the copy lies.
func (s standing) copied(was *kgo.Record, at int64) {
	s.noteCopy(was, at)
	if s.src.window.has(was.Offset) {
		return // it was read
	}
	if _, _, is := s.src.retryOf(was); is {
		s.tried(was)
		return
	}
	s.adopt(was)
}

// noteCopy notes where the last copy lies; a Survey does so of requests that it waits for, whatever of them was copied.
func (s standing) noteCopy(was *kgo.Record, at int64) {
	of := was.Offset
	if s.config.Survey != nil {
		if origin, _, is := s.src.retryOf(was); is {
			of = origin.Offset
		}
		if slot := s.src.peek(of); !slot.is(requested) || slot.arrivals > 0 || slot.is(settled|left) {
			return
		}
	}
	s.src.copied[of] = max(s.src.copied[of], at)
}

// tried takes a retry record, as it was written.
func (s standing) tried(r *kgo.Record) {
	was, again, _ := s.src.retryOf(r)
	if s.src.window.has(was.Offset) {
		judging{s.Checker}.retry(s.src, r, was.Offset, again)
		return
	}
	s.adopt(was)
	known := s.src.retries[was.Offset]
	if !s.src.is(was.Offset, left) || again.offset < known.offset {
		return // it is judged as it was read, or a later attempt is known
	}
	if terms := s.src.fates.terms[was.Offset]; known == (retry{}) && again.attempt > 0 && terms.since > 0 {
		s.src.fates.put[was.Offset] = []putOff{{again.first - terms.pause, again.first}} // the record that put it off has left the log, too
	}
	judging{s.Checker}.retry(s.src, r, was.Offset, again)
}

// adopt takes a request that has left the log, as it was written, unless it was taken before.
func (s standing) adopt(was *kgo.Record) {
	src := s.src
	gone := was.Offset < min(src.begins, src.window.from)
	asked := was.Timestamp.UnixMilli() >= src.window.since && was.Timestamp.UnixMilli() < src.window.before
	if !gone || !asked || src.is(was.Offset, requested) {
		return
	}
	r := src.route.asUsual(was)
	e := src.route.Expect(r)
	if e.Outcome == Cancel || e.Outcome == Ignore || s.cameBefore(was.Offset, e) {
		return
	}
	relaying{s.Checker}.asks(src, was, e)
	s.counts.Left++
	src.scatter(was.Offset / pageSlots)
	src.at(was.Offset).flags |= left
	judging{s.Checker}.ask(src, r, Source{}, e)
}

// cameBefore tells whether a request has arrived before anything was read that stands for it.
func (s standing) cameBefore(offset int64, e Expectation) bool {
	for _, topic := range []string{e.Target, s.src.route.letterBox(0), s.src.route.letterBox(Exhausted)} {
		if s.src.cameGone(s.targets.index(topic), offset) {
			return true
		}
	}
	return false
}

// resolved takes in that a copy was found to stand for nothing any more: what it was of was taken away while it was on its way.
func (s standing) resolved(of resolution) {
	if of.offset == of.seq || !s.src.is(of.seq, left) {
		return
	}
	switch slot := s.src.at(of.seq); {
	case slot.arrivals > 0, slot.is(settled):
	case s.mayBeTaken(of.seq, slot):
		slot.flags |= settled
		s.counts.Taken++
	default:
		s.src.said[of.seq] = of.offset
	}
}

// whyTakenBefore: what has taken a request away lay below the copy.
const whyTakenBefore = "a resolve record says that they were taken away, and what did that is not in the log any more"

// mayBeTaken tells whether something is known that may have taken a request away.
func (s standing) mayBeTaken(offset int64, slot *slot) bool {
	name := s.src.name(offset)
	if n := s.namings.called(name, slot); n != nil && len(n.by) > 0 {
		return true
	}
	g := s.ids.of[name]
	return g != nil && len(g.takers) > 0 && g.takers[len(g.takers)-1] > offset
}

// judges tells whether a request is judged.
func (s *source) judges(offset int64) bool { return s.window.has(offset) || s.is(offset, left) }

// scatter lets what is remembered of a page be kept offset by offset: of what has left the log little is pending.
func (s *source) scatter(n int64) {
	if s.pages[n] == nil && (n+1)*pageSlots <= s.window.from {
		s.block(n).pages[n%bitsPages/64] |= 1 << (n % 64)
	}
}

// isWaitingRetry tells whether the last retry record of a request lies at an offset.
func isWaitingRetry(s *source, offset int64) bool {
	slot := s.peek(offset)
	return slot.is(isRetry) && s.retries[slot.due].offset == offset
}

// retry takes a retry record: from now on its origin is ordered by it.
func (c judging) retry(src *source, r *kgo.Record, origin int64, again retry) {
	s := src.at(r.Offset)
	if s.is(isRetry) {
		return // read again
	}
	again.count = src.retries[origin].count
	if again.attempt == 0 && src.route.Retry != nil { // it says when its origin is due, and nothing of trouble
		c.counts.Postponed++
		src.fates.put[origin] = append(src.fates.put[origin], putOff{r.Timestamp.UnixMilli(), again.due})
	} else {
		c.counts.Retried++
		again.count++
		saying(c).putOff(src.name(origin), src.route.PutOff, r, again)
	}
	src.retries[origin] = again
	if c.config.Retries > 0 && again.count == c.config.Retries+1 {
		c.fault(Insistent, src.name(origin), r, "put off for the %d. time", again.count)
	}
	got := *s
	*s = slot{print: print{due: origin}, flags: isRetry}
	if got.arrivals == 0 {
		return
	}
	c.fault(Altered, src.name(r.Offset), nil, "what arrived names a retry record, not the request")
	a := arrival{print: got.print, at: got.place, code: Codes(got.codes), retried: true}
	o := src.at(origin)
	first := c.arrived(src, o, origin, a)
	if o.is(requested) {
		c.judgeDead(src, o, origin, a)
	} else if first {
		o.print, o.codes = a.print, uint32(a.code)
	}
	o.flags |= died
}

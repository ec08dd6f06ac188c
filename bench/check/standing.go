package check

import "github.com/twmb/franz-go/pkg/kgo"

// A request may leave its log while it is pending: then a carried copy stands for it, which holds all that was asked for, or a retry record. A Survey that
// did not read the request reads it there.

// standing are the records of a partition that stand for others.
type standing struct {
	*Checker
	src *source
}

// copied takes what a carried copy is of, as that was written: a request, or a retry record.
func (s standing) copied(was *kgo.Record) {
	if s.src.window.has(was.Offset) {
		return // it was read
	}
	if _, _, is := s.src.retryOf(was); is {
		s.tried(was)
		return
	}
	s.adopt(was)
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
	if !s.src.is(was.Offset, left) || again.offset <= known.offset {
		return
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
	at := was.Timestamp.UnixMilli()
	if !gone || at < src.window.since || at >= src.window.until || src.is(was.Offset, requested) {
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
	if slot := s.src.at(of.seq); slot.arrivals == 0 && !slot.is(settled) {
		slot.flags |= settled
		s.counts.Taken++
	}
}

// judges tells whether a request is judged.
func (s *source) judges(offset int64) bool { return s.window.has(offset) || s.is(offset, left) }

// scatter lets what is remembered of a page be kept offset by offset: of what has left the log little is pending.
func (s *source) scatter(n int64) {
	if s.pages[n] == nil && (n+1)*pageSlots <= s.window.from {
		s.block(n).pages[n%bitsPages/64] |= 1 << (n % 64)
	}
}

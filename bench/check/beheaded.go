package check

// The log of a delay topic may lose what is pending: DeleteRecords by hand, or a retention. What has left it before it was delivered may be missing then, and
// may as well arrive, since a processor holds some of it. All else is promised as ever.

// beheading is what a checker does when a log is cut so.
type beheading struct{ *Checker }

// below takes in that the log of a partition has lost what lay below an offset. Of the requests there those may be missing from now on that have not arrived, and
// for which nothing stands that lies behind: a carried copy, or a retry record. What has arrived may do so once more where a resolve record says that it has, and is lost, too: what
// has not read that may hold it yet. What has an id, or is named, may be missing, too, and is not counted: something may have
// taken it away. A cancel or a replacement that is lost may have counted.
func (c beheading) below(topic string, partition int32, below int64) {
	src := c.source(topic, partition)
	if src == nil {
		return
	}
	src.below = max(src.below, below)
	gone := func(name Source) bool {
		return name.Topic == topic && name.Partition == partition && name.Offset < below
	}
	for offset, s := range src.slots() {
		if by, is := src.said[offset]; is && by < below {
			s.flags |= orAgain
		}
		if offset >= below || !s.is(requested) || s.arrivals > 0 || s.is(settled) || c.apart(src.name(offset), s) || lastPlace(src, offset) >= below {
			continue
		}
		s.flags |= settled
		*c.counts.waiting(s, c.until)--
		c.counts.Lost++
	}
	for _, g := range c.ids.by {
		if g.source == src {
			c.ids.owe(g)
		}
	}
	for _, by := range c.namings.namers {
		by.lost = by.lost || gone(by.name)
	}
	for _, n := range c.namings.named {
		c.namings.owe(n)
	}
	for name := range c.namings.foreign {
		if gone(name) {
			c.namings.pass(name, func(f *foreign) { f.lost = true })
		}
	}
}

// lost tells whether the log has lost a request, and all that stands for it.
func lost(s *source, offset int64) bool { return offset < s.below && lastPlace(s, offset) < s.below }

// standsAt is where the last record lies that stands for a request; negative: something may have taken it away, or not all is known that was written since it came.
func standsAt(c *Checker, src *source, offset int64, s *slot) int64 {
	if s.is(left) || c.apart(src.name(offset), s) {
		return -1
	}
	return lastPlace(src, offset)
}

// copyBytes is what it takes to know where a copy lies.
const copyBytes = 40

// forgetPlaces forgets where records lie that say something of a request: resolve records, retry records and copies.
func forgetPlaces(s *source, offset int64) {
	delete(s.said, offset)
	delete(s.retries, offset)
	delete(s.copied, offset)
}

// lastPlace is where the last record lies that stands for a request: itself, or a copy or a retry record, or the copy of that.
func lastPlace(s *source, offset int64) int64 {
	last := max(offset, s.copied[offset])
	if again, is := s.retries[offset]; is {
		last = max(last, again.offset, s.copied[again.offset])
	}
	return last
}

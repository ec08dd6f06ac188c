package check

import "math"

// window are the offsets of a partition of which requests are judged.
type window struct {
	from, to int64
	since    int64 // ms: requests from before it that have left the log are judged where they were written since then
	before   int64 // and before this time
	next     int64 // what lies below was read
	end      int64 // where the log ended after the last arrival was read; negative: not known
	untold   bool  // nothing says that there is such a partition but what has come
}

var whole = window{to: math.MaxInt64, since: math.MaxInt64, end: -1}

func (w *window) has(offset int64) bool { return offset >= w.from && offset < w.to }

// precedes tells whether the window lies before an offset: what a request there does to others is judged, and it is not.
func (w *window) precedes(offset int64) bool { return offset >= w.to }

// Window bounds which requests of a partition are judged, to those from an offset on, and below another one. A Survey knows no other
// partitions than those of which this was said.
func (c *Checker) Window(topic string, partition int32, from, to int64) {
	src := c.sources[topicPartition{topic, partition}]
	if src == nil {
		src = c.newSource(topic, partition)
	}
	if src != nil {
		src.window.from, src.window.to, src.window.untold = from, to, false
	}
}

// named is the partition that something has come of. A Survey is told of it later, if its topic has got it meanwhile.
func (c judging) named(rt *route, p provenance) *source {
	src := c.source(rt.Topic, int32(p.partition))
	if src == nil {
		src = c.newSource(rt.Topic, int32(p.partition))
		src.window.untold = true
	}
	return src
}

// disregard has a request or a cancel not judged that lies behind the window: it was read for what it does to others.
func (c judging) disregard(src *source, offset int64, e Expectation, forwarded bool) {
	src.at(offset).flags |= settled
	switch {
	case e.Outcome != Cancel:
		c.counts.Requested--
	case forwarded:
		c.counts.Forwarded--
		fallthrough
	default:
		c.counts.Cancels--
	}
}

// outside tells whether what has arrived is of a request that is not judged.
func (c judging) outside(src *source, offset int64, code Codes, dead bool) bool {
	s := src.peek(offset)
	if c.config.Survey == nil || src.window.has(offset) || s.is(requested) && !src.window.precedes(offset) {
		return false
	}
	c.counts.Elsewhere++
	if s.is(requested) {
		c.ended(src.name(offset), s, code, dead)
	}
	return true
}

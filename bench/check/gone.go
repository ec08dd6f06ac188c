package check

import (
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// A delay topic is trimmed: what was resolved leaves its log. Of a request that has left it what has arrived still says by itself when it was due, and
// that it has arrived before.

// goneAt is a part of a partition's log that is gone, and a topic.
type goneAt struct {
	topic uint16 // index into targets.names
	block int64  // of bitsOffsets
}

// goneBits are offsets of such a part: what has arrived in the topic.
type goneBits [bitsPages]uint64

// Begins says at what offset the log of a partition of a delay topic began when it was looked at: what lay below has left it. Requests of that are judged, too,
// if they were written since a time, and before another one, in ms, and something in the window stands for them: a carried copy, or a retry record.
func (c *Checker) Begins(topic string, partition int32, start, since, before int64) {
	if src := c.sources[topicPartition{topic, partition}]; src != nil {
		src.begins, src.window.since, src.window.before = max(src.begins, start), since, before
	}
}

// judgeGone judges what has arrived, of a request that has left its log. Due is when it says that it was due, or negative.
func (c judging) judgeGone(src *source, offset, due int64, r *kgo.Record, m moment) {
	if offset >= src.begins {
		return // it is there, and not to be judged
	}
	if due >= 0 {
		m.fired, m.from = -1, unknown
		if m.written != untimed {
			m.seen = time.UnixMilli(m.written)
		}
		c.judgeTime(src.name(offset), due, r, m)
	}
	topic := c.targets.index(r.Topic)
	if !src.cameGone(topic, offset) {
		src.noteGone(topic, offset)
		return
	}
	c.counts.Doubled++
	if !c.config.AllowDoubles {
		c.fault(Doubled, src.name(offset), r, "seen again in %s; it has left the delay topic", r.Topic)
	}
}

// noteGone notes that something has arrived in a topic, of a request that has left its log.
func (s *source) noteGone(topic uint16, offset int64) {
	at := goneAt{topic, offset / bitsOffsets}
	bits := s.gone[at]
	if bits == nil {
		bits = new(goneBits)
		s.gone[at] = bits
	}
	bits[offset%bitsOffsets/pageSlots] |= 1 << (offset % pageSlots)
}

// cameGone tells whether that was noted.
func (s *source) cameGone(topic uint16, offset int64) bool {
	bits := s.gone[goneAt{topic, offset / bitsOffsets}]
	return bits != nil && bits[offset%bitsOffsets/pageSlots]&(1<<(offset%pageSlots)) != 0
}

// ofAnotherGroup tells whether one of two arrivals is that of another group, which reads the same delay topic and delivers to other targets: the
// request was delivered to a target that this group may not deliver to, as it is configured, and was dead-lettered, too.
func (c judging) ofAnotherGroup(src *source, s *slot, a arrival) bool {
	if c.config.Survey == nil || a.record == nil {
		return false
	}
	dead := c.letters[a.record.Topic]
	if was := s.is(delivered) || s.is(forgotten) && !s.is(died); dead == s.is(died) || dead != was {
		return false
	}
	target := c.targets.names[a.target]
	switch {
	case dead && s.is(forgotten):
		target = src.route.Expect(a.record).Target // it has the headers of the request
	case dead:
		target = c.targets.names[s.target]
	}
	return target != others && !src.route.allowed(target)
}

// mayBeOfAnotherGroup tells whether a delivery may be that of another group, which reads the same delay topic: it went to a target that this group may not
// deliver to, as it is configured. It shows nothing of what this group has taken away, and of whose ids it knew.
func mayBeOfAnotherGroup(c *Checker, src *source, a arrival) bool {
	target := c.targets.names[a.target]
	return c.config.Survey != nil && a.record != nil && target != others && !src.route.allowed(target)
}

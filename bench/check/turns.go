package check

import "github.com/twmb/franz-go/pkg/kgo"

// turns are deliveries of lately: of each group of records that keep their order, the last one. It forgets by and by.
type turns []lastTurn

type lastTurn struct {
	group  uint64
	offset int64
	place  place
}

const turnsKept = 1 << 18

func newTurns(kept bool) turns {
	if !kept {
		return nil
	}
	return make(turns, turnsKept)
}

// judgeTurn finds what is delivered after a later one of its key, target partition and due time.
func (c judging) judgeTurn(src *source, offset int64, s *slot, r *kgo.Record) {
	if c.turns == nil || !s.is(requested) || s.is(orLater) {
		return
	}
	if _, again := src.retries[offset]; again || s.is(retried) {
		return
	}
	where := c.places.number(topicPartition{src.topic, src.partition}, 0)
	group := mix(mix(mix(s.key, uint64(s.due)), uint64(s.place.partition())), uint64(where)) | 1
	last := &c.turns[group>>20%turnsKept]
	if last.group == group && last.offset > offset && last.place < s.place {
		c.fault(Disordered, src.name(offset), r, "at %s, after offset %d with the same key and due %d, at %s", c.places.name(s.place), last.offset, s.due, c.places.name(last.place))
		return
	}
	*last = lastTurn{group, offset, s.place}
}

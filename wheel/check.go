package wheel

import (
	"errors"
	"fmt"
)

// check verifies everything that must hold between two calls of the wheel's methods. It looks at every entry, so it is
// for tests.
func check(w *Wheel) error {
	c := checker{w: w, seen: make(map[id]bool)}
	for k, l := range w.levels {
		if l == nil {
			c.require(w.busy>>k&1 == 0, "level %d is busy but was never made", k)
			continue
		}
		c.level(k, l)
	}
	c.late()
	c.chunks()
	c.require(c.entries == w.n, "Len is %d but %d entries are held", w.n, c.entries)
	return errors.Join(c.errs...)
}

type checker struct {
	w       *Wheel
	seen    map[id]bool // every chunk met in a chain or among the free ones
	entries int
	errs    []error
}

func (c *checker) require(ok bool, format string, args ...any) {
	if !ok {
		c.errs = append(c.errs, fmt.Errorf(format, args...))
	}
}

func (c *checker) level(k int, l *level) {
	c.require((c.w.busy>>k&1 == 1) == (l.occupied != bitmap{}), "level %d: busy does not agree with its bitmap", k)
	for i := range slots {
		i := uint8(i)
		s := &l.slots[i]
		c.require(l.occupied.has(i) == (s.head != 0), "level %d slot %d: occupied does not agree with the chain", k, i)
		here := k == 0 && i == c.w.cursor.at(0)
		c.require(here || s.start == 0, "level %d slot %d: start is %d away from the cursor", k, i, s.start)
		if s.head != 0 {
			c.slot(k, i, s, here)
		} else {
			c.require(*s == slot{}, "level %d slot %d: empty but not zero", k, i)
		}
	}
}

// slot verifies the place of each entry, the slot's smallest due, and the order where the cursor stands.
func (c *checker) slot(k int, i uint8, s *slot, here bool) {
	w := c.w
	least, lastSeq, last := digits(1<<64-1), int64(-1<<63), id(0)
	start := s.start
	for j := s.head; j != 0; j, start = w.chunks.at(j).next, 0 {
		if !c.visit(j) {
			return
		}
		ch := w.chunks.at(j)
		if ch.len() <= start || ch.len() > chunkLen {
			c.require(false, "chunk %d: holds %d entries from %d", j, ch.len(), start)
			return
		}
		for e := start; e < ch.len(); e++ {
			d := ch.due(e)
			c.require(d >= w.cursor, "%d:%d is below the cursor", d.tick(), ch.items[e].seq)
			c.require(d.level(w.cursor) == k && d.at(k) == i, "%d:%d is in level %d slot %d", d.tick(), ch.items[e].seq, k, i)
			c.require(s.min <= d && d <= s.max, "%d:%d is outside its slot's min and max", d.tick(), ch.items[e].seq)
			c.require(!here || ch.items[e].seq >= lastSeq, "%d:%d is out of order", d.tick(), ch.items[e].seq)
			least, lastSeq = min(least, d), ch.items[e].seq
			c.entries++
		}
		last = j
	}
	c.require(last == s.tail, "level %d slot %d: the chain ends at %d, not at its tail %d", k, i, last, s.tail)
	c.require(least == s.min, "level %d slot %d: min is %d but the smallest due is %d", k, i, s.min.tick(), least.tick())
}

// visit tells whether the chunk exists and was not met before.
func (c *checker) visit(i id) bool {
	ok := i > 0 && i < c.w.chunks.next && !c.seen[i]
	c.require(ok, "chunk %d is met twice or does not exist", i)
	c.seen[i] = true
	return ok
}

func (c *checker) late() {
	h := c.w.late
	for i := range h {
		c.require(h[(i-1)/2].seq <= h[i].seq || i == 0, "late: %d is above %d", h[(i-1)/2].seq, h[i].seq)
	}
	c.entries += len(h)
}

// chunks verifies that each chunk is either in one chain or free.
func (c *checker) chunks() {
	s := &c.w.chunks
	c.require(len(c.seen) == s.used, "%d chunks are in chains but %d are counted", len(c.seen), s.used)
	for i := s.free; i != 0; i = s.at(i).next {
		if !c.visit(i) {
			return
		}
	}
	c.require(len(c.seen) == max(int(s.next)-1, 0), "%d of %d chunks are lost", int(s.next)-1-len(c.seen), int(s.next)-1)
	c.require(!s.sparse(), "%d slabs are held for %d chunks", len(s.list), s.used)
}

package wheel

// chain is a list of chunks. Both ends are 0 when it is empty. No chunk of a chain is empty.
type chain struct {
	head, tail id
}

// append adds one entry at the end.
func (s *slabs) append(c *chain, d digits, it item) { s.room(c, d).add(d, it) }

// room is the chunk to which the next entry is appended; it must follow at once.
func (s *slabs) room(c *chain, d digits) *chunk {
	if c.head != 0 && s.at(c.tail).takes(d) {
		return s.at(c.tail)
	}
	return s.grow(c, tagOf(d))
}

// grow adds an empty chunk at the end; an entry must follow at once.
func (s *slabs) grow(c *chain, tag uint32) *chunk {
	i := s.get(tag)
	s.link(c, chain{i, i})
	return s.at(i)
}

// link adds a whole chain at the end.
func (s *slabs) link(c *chain, more chain) {
	if c.head == 0 {
		*c = more
		return
	}
	s.at(c.tail).next = more.head
	c.tail = more.tail
}

// dropHead gives the first chunk back.
func (s *slabs) dropHead(c *chain) {
	i := c.head
	c.head = s.at(i).next
	if c.head == 0 {
		c.tail = 0
	}
	s.put(i)
}

// lastSeq is the seq of the last entry. There must be one.
func (s *slabs) lastSeq(c chain) int64 {
	t := s.at(c.tail)
	return t.items[t.len()-1].seq
}

// remove takes one entry out of a slot. Chunks that have become small enough for it are made one, so that removals
// leave the memory at least half used.
func (s *slabs) remove(from *slot, d digits, seq int64) (ref uint64, ok bool) {
	start := from.start
	for before, i := id(0), from.head; i != 0; before, i, start = i, s.at(i).next, 0 {
		c := s.at(i)
		j := c.find(start, d, seq)
		if j < 0 {
			continue
		}
		ref = c.items[j].ref
		c.delete(j)
		if c.len() == start {
			s.unlink(from, before, i)
		} else {
			s.join(&from.chain, i, c.next)
			s.join(&from.chain, before, i)
		}
		return ref, true
	}
	return 0, false
}

func (c *chunk) find(start int32, d digits, seq int64) int32 {
	if c.tag&^0xff != tagOf(d) {
		return -1
	}
	for i := start; i < c.len(); i++ {
		if c.items[i].seq == seq && c.due(i) == d {
			return i
		}
	}
	return -1
}

// unlink gives back a chunk with nothing left in it.
func (s *slabs) unlink(from *slot, before, i id) {
	if before == 0 {
		from.start = 0
		s.dropHead(&from.chain)
		return
	}
	s.at(before).next = s.at(i).next
	if from.tail == i {
		from.tail = before
	}
	s.put(i)
}

// join moves the entries of chunk b into a, the one before it, if they fit.
func (s *slabs) join(c *chain, a, b id) {
	if a == 0 || b == 0 {
		return
	}
	to, from := s.at(a), s.at(b)
	if to.tag&^0xff != from.tag&^0xff || to.len()+from.len() > chunkLen {
		return
	}
	for i := range from.len() {
		to.add(from.due(i), from.items[i])
	}
	to.next = from.next
	if c.tail == b {
		c.tail = a
	}
	s.put(b)
}

// minDue searches a slot for its smallest due.
func (s *slabs) minDue(of *slot) digits {
	least := digits(1<<64 - 1)
	start := of.start
	for i := of.head; i != 0; i, start = s.at(i).next, 0 {
		c := s.at(i)
		for j := start; j < c.len(); j++ {
			least = min(least, c.due(j))
		}
	}
	return least
}

package wheel

// chain is a list of chunks. Its head is 0 when it is empty, and its tail is anything then. No chunk of a chain is empty.
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
	s.put(i)
}

// lastSeq is the seq of the last entry. There must be one.
func (s *slabs) lastSeq(c chain) int64 {
	t := s.at(c.tail)
	return t.items[t.len()-1].seq
}

// minDue searches a chain for its smallest due. What has been taken of it is due at that, too: then the cursor stands on the slot.
func (s *slabs) minDue(of chain) digits {
	least := digits(1<<64 - 1)
	for i := of.head; i != 0; i = s.at(i).next {
		c := s.at(i)
		for j := range c.len() {
			least = min(least, c.due(j))
		}
	}
	return least
}

package wheel

// run is a chain in seq order, with its length in chunks.
type run struct {
	chain
	n int
}

// sort puts a chain of entries that are all due at d in the order of seq. It is a merge sort over whole chunks that
// begins with the order that is there, so a chain in order costs one look at each entry, and it needs no memory beyond
// a few chunks.
func (s *slabs) sort(c *chain, d digits) {
	if c.head == c.tail {
		s.at(c.head).sort()
		return
	}
	r, rest := s.nextRun(c.head)
	if rest != 0 {
		r = s.sortRuns(r, rest, d)
	}
	*c = r.chain
}

// sortRuns merges a run with all that follow it.
func (s *slabs) sortRuns(r run, rest id, d digits) run {
	// Invariant: each run is at least twice as long as the one above it, so there are never more than bits in an id.
	var room [32]run
	stack := append(room[:0], r)
	for rest != 0 {
		r, rest = s.nextRun(rest)
		for len(stack) > 0 && stack[len(stack)-1].n < 2*r.n {
			r = s.merge(stack[len(stack)-1], r, d)
			stack = stack[:len(stack)-1]
		}
		stack = append(stack, r)
	}
	for len(stack) > 1 {
		last := len(stack) - 1
		stack[last-1] = s.merge(stack[last-1], stack[last], d)
		stack = stack[:last]
	}
	return stack[0]
}

// nextRun cuts off the chunks that are in order one after the other, each sorted within. It also returns what follows.
func (s *slabs) nextRun(head id) (run, id) {
	r := run{chain{head, head}, 1}
	c := s.at(head)
	c.sort()
	for c.next != 0 {
		next := s.at(c.next)
		next.sort()
		if next.items[0].seq < c.items[c.len()-1].seq {
			break
		}
		r.tail = c.next
		r.n++
		c = next
	}
	rest := c.next
	c.next = 0
	return r, rest
}

// sort orders a chunk by seq, where all entries have the same due.
func (c *chunk) sort() {
	items := c.items[:c.len()]
	for i := 1; i < len(items); i++ {
		it, j := items[i], i
		for ; j > 0 && items[j-1].seq > it.seq; j-- {
			items[j] = items[j-1]
		}
		items[j] = it
	}
}

// merge makes one run of two.
func (s *slabs) merge(a, b run, d digits) run {
	out := run{n: a.n + b.n}
	left, right := s.read(a.chain), s.read(b.chain)
	for left.head != 0 && right.head != 0 {
		c := s.room(&out.chain, d)
		for c.len() < chunkLen && len(left.items) > 0 && len(right.items) > 0 {
			if left.items[0].seq <= right.items[0].seq {
				c.add(d, left.take())
			} else {
				c.add(d, right.take())
			}
		}
		s.advance(&left)
		s.advance(&right)
	}
	s.drain(&left, &out.chain, d)
	s.drain(&right, &out.chain, d)
	return out
}

// reader eats a chain from its front. Its items are what is left in the first chunk.
type reader struct {
	chain
	items []item
}

func (s *slabs) read(c chain) reader {
	head := s.at(c.head)
	return reader{c, head.items[:head.len()]}
}

func (r *reader) take() item {
	it := r.items[0]
	r.items = r.items[1:]
	return it
}

// advance goes on to the chunk that follows, and gives back the one before, when nothing is left in that.
func (s *slabs) advance(r *reader) {
	if len(r.items) > 0 {
		return
	}
	if s.dropHead(&r.chain); r.head != 0 {
		*r = s.read(r.chain)
	}
}

// drain moves what is left to the end of a chain; whole chunks go as they are.
func (s *slabs) drain(r *reader, out *chain, d digits) {
	if r.head == 0 {
		return
	}
	for len(r.items) > 0 {
		s.append(out, d, r.take())
	}
	if s.dropHead(&r.chain); r.head != 0 {
		s.link(out, r.chain)
	}
}

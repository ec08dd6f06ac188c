package wheel

import (
	"cmp"
	"slices"
)

// Remove takes one entry out and returns its reference; false when it is not held. It searches the slot, so its cost
// grows with how many entries share it.
func (w *Wheel) Remove(due Tick, seq int64) (ref uint64, ok bool) {
	d := digitsOf(due) // below the cursor the slot that it names is empty
	if ref, ok = w.removeFromSlot(d, seq); !ok && d == w.cursor {
		ref, ok = w.late.remove(seq)
	}
	if ok {
		w.n--
		w.shrink()
	}
	return ref, ok
}

func (w *Wheel) removeFromSlot(d digits, seq int64) (ref uint64, ok bool) {
	k := d.level(w.cursor)
	if w.levels[k] == nil {
		return 0, false
	}
	i := d.at(k)
	s := &w.levels[k].slots[i]
	if ref, ok = w.chunks.remove(s, d, seq); !ok {
		return 0, false
	}
	switch {
	case s.head == 0:
		w.vacate(k, i)
	case d == s.min:
		s.min = w.chunks.minDue(s.chain)
	}
	return ref, true
}

// RemoveAll takes entries out, each with the due and the seq of one of the keys, and calls fn for each with its reference. The keys must be in the order
// of (due, seq); what is not held is passed over. fn must not call the wheel. It searches each slot once, whatever the number of keys in it.
func (w *Wheel) RemoveAll(keys []Entry, fn func(Entry)) {
	for len(keys) > 0 {
		d, n := digitsOf(keys[0].Due), 1
		k := d.level(w.cursor)
		for n < len(keys) && digitsOf(keys[n].Due)>>(digitBits*k) == d>>(digitBits*k) {
			n++
		}
		if n == 1 {
			if ref, ok := w.Remove(keys[0].Due, keys[0].Seq); ok {
				fn(Entry{keys[0].Due, keys[0].Seq, ref})
			}
		} else {
			w.removeSlot(k, d.at(k), keys[:n], fn)
			if d == w.cursor {
				w.n -= w.late.removeAll(keys[:n], w.Now(), fn)
			}
		}
		keys = keys[n:]
	}
	w.shrink()
}

// removeSlot takes out of a slot what has one of the keys.
func (w *Wheel) removeSlot(k int, i uint8, keys []Entry, fn func(Entry)) {
	if w.levels[k] == nil || w.levels[k].slots[i].head == 0 {
		return
	}
	s := &w.levels[k].slots[i]
	least := false
	w.n -= w.chunks.removeAll(s, keys, func(e Entry) {
		least = least || digitsOf(e.Due) == s.min
		fn(e)
	})
	switch {
	case s.head == 0:
		w.vacate(k, i)
	case least:
		s.min = w.chunks.minDue(s.chain)
	}
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
	for i := start; i < c.len(); i++ { // low first: that is in a quarter of the memory
		if c.low[i] == uint32(d) && c.items[i].seq == seq && c.due(i) == d {
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

// removeAll takes out of a slot what has one of the keys, and returns how many there were.
func (s *slabs) removeAll(from *slot, keys []Entry, fn func(Entry)) (removed int) {
	var dues, seqs seen
	for _, key := range keys {
		dues.add(uint32(digitsOf(key.Due)))
		seqs.add(uint32(key.Seq))
	}
	for before, i := id(0), from.head; i != 0; {
		c, start := s.at(i), int32(0)
		if before == 0 {
			start = from.start
		}
		for j := start; j < c.len(); {
			if !dues.has(c.low[j]) || !seqs.has(uint32(c.items[j].seq)) || !isKey(keys, c.due(j), c.items[j].seq) {
				j++
				continue
			}
			fn(c.items[j].entry(c.due(j).tick()))
			c.delete(j)
			removed++
		}
		next := c.next
		if c.len() == start {
			s.unlink(from, before, i)
		} else {
			before = i
		}
		i = next
	}
	for i := from.head; removed > 0 && i != 0; {
		next := s.at(i).next
		if s.join(&from.chain, i, next); s.at(i).next == next {
			i = next
		}
	}
	return removed
}

// removeAll takes out what has one of the keys, and returns how many there were. All in it is due at now.
func (h *lateHeap) removeAll(keys []Entry, now Tick, fn func(Entry)) (removed int) {
	kept := (*h)[:0]
	for _, it := range *h {
		if isKey(keys, digitsOf(now), it.seq) {
			fn(it.entry(now))
			removed++
		} else {
			kept = append(kept, it)
		}
	}
	if *h = kept; removed > 0 {
		for i := len(kept)/2 - 1; i >= 0; i-- {
			kept.down(i)
		}
	}
	return removed
}

func isKey(keys []Entry, d digits, seq int64) bool {
	_, is := slices.BinarySearchFunc(keys, Entry{Due: d.tick(), Seq: seq}, func(a, b Entry) int { return cmp.Or(cmp.Compare(a.Due, b.Due), cmp.Compare(a.Seq, b.Seq)) })
	return is
}

// seen says of most numbers that are not among some that they are not, by their low bits.
type seen [256]uint64

func (s *seen) add(n uint32) { s[n>>6%uint32(len(s))] |= 1 << (n % 64) }

func (s *seen) has(n uint32) bool { return s[n>>6%uint32(len(s))]>>(n%64)&1 == 1 }

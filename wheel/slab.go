package wheel

import "unsafe"

const (
	// chunkLen entries fill a chunk of 576 bytes: 21.3 bytes an entry. Larger chunks would waste more where few entries
	// share a slot. Nine cache lines, an odd number, so that the first lines of all chunks do not fall into the same
	// few sets of the processor's cache: 512 bytes made adding and taking a tenth slower.
	chunkLen = 27

	// slabLen chunks are 72 KiB, whole pages of the runtime. A power of two, so that a chunk is found by shift and mask.
	slabLen = 128

	// keepSlabs are kept even if empty, so that a wheel that fills and empties at every tick does not allocate.
	keepSlabs = 2
)

// id names a chunk. Chunk 0 is never used, so that 0 is "none".
type id uint32

// chunk is some entries of one slot. It has no pointers, so the garbage collector never looks inside. What comes first is
// touched most: a chunk of few entries costs two cache lines.
type chunk struct {
	tag  uint32 // digits 5 to 7 of every due, then how many entries are held
	next id     // the next of the chain, or of the free chunks

	// The due in three parts: digits 0 to 3, digit 4, and in tag digits 5 to 7, which all entries of a chunk share.
	// A slot of level 5 or below (34 years and less ahead, in milliseconds) has these in common anyway; above, an entry
	// that differs opens a chunk of its own.
	mid [chunkLen]uint8
	low [chunkLen]uint32

	items [chunkLen]item
}

// item is what an entry holds beside its due.
type item struct {
	seq int64
	ref uint64
}

func (it item) entry(due Tick) Entry { return Entry{due, it.seq, it.ref} }

func tagOf(d digits) uint32 { return uint32(d>>40) << 8 }

func (c *chunk) len() int32 { return int32(c.tag & 0xff) }

// takes tells whether an entry due at d may be added.
func (c *chunk) takes(d digits) bool {
	return c.len() < chunkLen && c.tag>>8 == tagOf(d)>>8
}

func (c *chunk) due(i int32) digits {
	return digits(c.tag>>8)<<40 | digits(c.mid[i])<<32 | digits(c.low[i])
}

// add appends an entry that the chunk takes.
func (c *chunk) add(d digits, it item) {
	i := c.tag & 0xff
	c.low[i], c.mid[i] = uint32(d), uint8(d>>32)
	c.items[i] = it
	c.tag++
}

// delete closes the gap that entry i leaves.
func (c *chunk) delete(i int32) {
	n := c.len()
	copy(c.mid[i:n], c.mid[i+1:n])
	copy(c.low[i:n], c.low[i+1:n])
	copy(c.items[i:n], c.items[i+1:n])
	c.tag--
}

// slabs is where chunks come from. The zero value has none; the first is made when it is needed.
type slabs struct {
	list []*[slabLen]chunk
	free id  // the first of the chunks that were given back
	next id  // every chunk from here on is fresh
	used int // chunks in chains
}

func (s *slabs) at(i id) *chunk { return &s.list[i/slabLen][i%slabLen] }

func (s *slabs) bytes() int {
	return len(s.list)*slabLen*int(unsafe.Sizeof(chunk{})) + cap(s.list)*int(unsafe.Sizeof(s.list[0]))
}

// get returns an empty chunk for entries that share the tag.
func (s *slabs) get(tag uint32) id {
	s.used++
	i := s.free
	if i != 0 {
		s.free = s.at(i).next
	} else {
		i = s.fresh()
	}
	c := s.at(i)
	c.tag, c.next = tag, 0
	return i
}

func (s *slabs) fresh() id {
	if int(s.next) == len(s.list)*slabLen {
		s.list = append(s.list, new([slabLen]chunk))
	}
	s.next = max(s.next, 1)
	s.next++
	return s.next - 1
}

func (s *slabs) put(i id) {
	s.used--
	s.at(i).next = s.free
	s.free = i
}

// sparse tells whether most of the memory is not used.
func (s *slabs) sparse() bool {
	return len(s.list) > keepSlabs && s.used*4 < len(s.list)*slabLen
}

// shrink gives memory back when the wheel has become much smaller than it was: it moves all chunks into new slabs. At
// least three chunks were given back for each one moved.
func (w *Wheel) shrink() {
	if !w.chunks.sparse() {
		return
	}
	var to slabs
	for k, l := range w.levels {
		switch {
		case l == nil:
		case w.busy>>k&1 == 0:
			w.levels[k] = nil
		default:
			for i := range l.occupied.all {
				c := &l.slots[i].chain
				*c = w.chunks.copyTo(&to, *c)
			}
		}
	}
	w.chunks = to
}

// copyTo copies a chain to other slabs.
func (s *slabs) copyTo(to *slabs, from chain) chain {
	var c chain
	for i := from.head; i != 0; i = s.at(i).next {
		j := to.get(0)
		*to.at(j) = *s.at(i)
		to.at(j).next = 0
		to.link(&c, chain{j, j})
	}
	return c
}

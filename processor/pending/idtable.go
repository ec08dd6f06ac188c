package pending

import (
	"iter"

	"github.com/duewheel/duewheel/state"
)

// idTable finds records by the hashes of their ids: one for each hash. It is a hash table with open addressing and linear probing, in
// pieces that grow by themselves, so that no addition takes long (Knuth, The Art of Computer Programming 3, 6.4, algorithms L and R). A slot is 40 bytes, without
// pointers and in one or two lines of a cache, where Go's map takes two or three, and that is what an id costs. The zero value is empty.
type idTable struct {
	pieces [idPieces]idPiece
	n      int
}

// idPieces is a power of two. Ten million ids are 160,000 in each piece, of which 10 MB are moved when it grows.
const idPieces = 64

// idPiece has a power of two of slots, at most three quarters of which are taken; or none.
type idPiece struct {
	slots []idSlot
	n     int
}

// idSlot is empty where its hash is zero.
type idSlot struct {
	hash idHash
	key  state.Key
	note int64
}

const leastSlots = 8

func (t *idTable) len() int { return t.n }

// piece is where a hash belongs. The bits that choose it are not those that choose a slot.
func (t *idTable) piece(h idHash) *idPiece { return &t.pieces[h[1]%idPieces] }

// find gives what has a hash.
func (t *idTable) find(h idHash) (e indexEntry, ok bool) {
	p := t.piece(h)
	i, ok := p.at(h)
	if !ok {
		return indexEntry{}, false
	}
	return entryOf(p.slots[i].key, p.slots[i].note), true
}

// touch reads the slot where a hash is looked for first, so that it is in a cache when it is. What it returns means nothing.
func (t *idTable) touch(h idHash) uint64 {
	p := t.piece(h)
	if len(p.slots) == 0 {
		return 0
	}
	return p.slots[h[0]&uint64(len(p.slots)-1)].hash[0]
}

// put gives a hash to a record, and takes it from the one that had it.
func (t *idTable) put(h idHash, e indexEntry) {
	p := t.piece(h)
	i, has := p.at(h)
	if !has {
		if p.n++; p.n > len(p.slots)/4*3 {
			p.resize(max(2*len(p.slots), leastSlots))
			i, _ = p.at(h)
		}
		t.n++
	}
	p.slots[i] = idSlot{h, e.key, e.note()}
}

// remove empties the slot of a hash, and moves those into it that would not be found behind it.
func (t *idTable) remove(h idHash) {
	p := t.piece(h)
	hole, has := p.at(h)
	if !has {
		return
	}
	mask := uint64(len(p.slots) - 1)
	for i := (hole + 1) & mask; p.slots[i].hash != (idHash{}); i = (i + 1) & mask {
		if home := p.slots[i].hash[0] & mask; (i-home)&mask >= (i-hole)&mask {
			p.slots[hole], hole = p.slots[i], i
		}
	}
	p.slots[hole] = idSlot{}
	t.n--
	if p.n--; len(p.slots) > leastSlots && p.n < len(p.slots)/8 {
		p.resize(len(p.slots) / 2)
	}
}

// all are those in the table. It must not be changed meanwhile.
func (t *idTable) all() iter.Seq2[idHash, indexEntry] {
	return func(yield func(idHash, indexEntry) bool) {
		for i := range t.pieces {
			for _, s := range t.pieces[i].slots {
				if s.hash != (idHash{}) && !yield(s.hash, entryOf(s.key, s.note)) {
					return
				}
			}
		}
	}
}

// at is the slot that has a hash, or the one that it may get.
func (p *idPiece) at(h idHash) (i uint64, has bool) {
	if len(p.slots) == 0 {
		return 0, false
	}
	mask := uint64(len(p.slots) - 1)
	for i = h[0] & mask; ; i = (i + 1) & mask {
		switch p.slots[i].hash {
		case h:
			return i, true
		case idHash{}:
			return i, false
		}
	}
}

func (p *idPiece) resize(slots int) {
	old := p.slots
	p.slots = make([]idSlot, slots)
	for _, s := range old {
		if s.hash != (idHash{}) {
			i, _ := p.at(s.hash)
			p.slots[i] = s
		}
	}
}

package wheel

import "math/bits"

const (
	digitBits = 8
	levels    = 64 / digitBits
	slots     = 1 << digitBits
)

// digits is a Tick read as eight digits of base 256. The sign bit is turned over, so that digits compare as the ticks do.
type digits uint64

const signBit = 1 << 63

func digitsOf(t Tick) digits { return digits(t) ^ signBit }

func (d digits) tick() Tick { return Tick(d ^ signBit) }

// at is the digit that picks the slot in a level.
func (d digits) at(level int) uint8 { return uint8(d >> (digitBits * level)) }

// level is the highest digit in which d and the cursor differ, 0 when they are equal.
func (d digits) level(cursor digits) int {
	return (bits.Len64(uint64(d^cursor)|1) - 1) / digitBits
}

// level is one ring of slots.
type level struct {
	occupied bitmap
	slots    [slots]slot
}

// first is the lowest slot that holds an entry. There must be one.
func (l *level) first() uint8 { return l.occupied.first() }

// slot holds the entries whose dues agree with the cursor in all digits above the slot's level, and with the slot in
// the level's own digit. In level 0 that is one due; it is always above the cursor's digit in higher levels.
type slot struct {
	chain

	// start is the first entry of the first chunk that has not been taken.
	// Invariant: zero except in the slot that the cursor stands on.
	start int32

	// min is the smallest due in the slot, exactly. Nothing in the slot is due after max, which may be too large
	// after a removal.
	min, max digits
}

// put appends an entry to the slot where it belongs, seen from the cursor. Most of the wheel's time is spent here, so what
// it calls for most entries is inlined.
func (w *Wheel) put(d digits, it item) {
	k := d.level(w.cursor)
	l := w.levels[k]
	if l == nil {
		l = new(level)
		w.levels[k] = l
	}
	i := d.at(k)
	s := &l.slots[i]
	if s.head == 0 {
		w.occupy(k, i, slot{min: d, max: d})
		w.chunks.grow(&s.chain, tagOf(d))
	}
	c := w.chunks.at(s.tail)
	if !c.takes(d) {
		c = w.chunks.grow(&s.chain, tagOf(d))
	}
	c.add(d, it)
	if d < s.min {
		s.min = d
	} else if d > s.max {
		s.max = d
	}
}

// occupy fills an empty slot.
func (w *Wheel) occupy(k int, i uint8, s slot) {
	if w.levels[k] == nil {
		w.levels[k] = new(level)
	}
	w.levels[k].slots[i] = s
	w.levels[k].occupied.set(i)
	w.busy |= 1 << k
}

// vacate empties a slot and returns what it was.
func (w *Wheel) vacate(k int, i uint8) slot {
	l := w.levels[k]
	s := l.slots[i]
	l.slots[i] = slot{}
	if l.occupied.clear(i); l.occupied == (bitmap{}) {
		w.busy &^= 1 << k
	}
	return s
}

// moveTo moves the cursor to d, the smallest due held, and puts the slot found there in order. Nothing is left below d,
// so all levels under the one that holds d are empty, and only the slot of d cascades: seen from the new cursor, its
// entries belong to lower levels.
func (w *Wheel) moveTo(d digits) {
	k := bits.TrailingZeros8(w.busy)
	w.cursor = d
	if k > 0 {
		w.cascade(w.vacate(k, d.at(k)))
	}
	w.chunks.sort(&w.here().chain, d)
}

// cascade spreads a slot over the levels below it, in order. A slot of a single due goes as it is, however many it
// holds.
func (w *Wheel) cascade(s slot) {
	if s.min == s.max {
		w.occupy(0, s.min.at(0), s)
		return
	}
	for s.head != 0 {
		c := w.chunks.at(s.head)
		for i, it := range c.items[:c.len()] {
			w.put(c.due(int32(i)), it)
		}
		w.chunks.dropHead(&s.chain)
	}
}

// bitmap has a bit for each slot of a level.
type bitmap [slots / 64]uint64

func (b *bitmap) set(i uint8)   { b[i/64] |= 1 << (i % 64) }
func (b *bitmap) clear(i uint8) { b[i/64] &^= 1 << (i % 64) }

func (b *bitmap) has(i uint8) bool { return b[i/64]>>(i%64)&1 == 1 }

func (b *bitmap) first() uint8 {
	for i, word := range b {
		if word != 0 {
			return uint8(i*64 + bits.TrailingZeros64(word))
		}
	}
	panic("wheel: BUG: no slot is occupied")
}

// all walks the set bits. Bits that are set or cleared meanwhile may or may not be seen.
func (b *bitmap) all(yield func(uint8) bool) {
	for i, word := range b {
		for ; word != 0; word &= word - 1 {
			if !yield(uint8(i*64 + bits.TrailingZeros64(word))) {
				return
			}
		}
	}
}

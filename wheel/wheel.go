package wheel

import (
	"fmt"
	"math/bits"
	"unsafe"
)

// Tick is an instant, counted in the wheel's smallest step from an origin of the owner's choice. All of int64 may be
// used.
type Tick int64

// Entry is what the wheel holds: when it is due, its place among those due at the same tick, and a reference that
// means something to the owner only.
type Entry struct {
	Due Tick
	Seq int64
	Ref uint64
}

// Wheel holds entries and gives them back in the order of (due, seq). It belongs to one goroutine.
type Wheel struct {
	// cursor is the due of the last entry taken, or where New put it.
	// Invariant: no entry is due below it.
	cursor digits

	// busy has a bit for each level that holds an entry. A level is made when its first entry comes.
	busy   uint8
	levels [levels]*level

	// late holds entries due at the cursor that came too late to be appended in seq order to the slot the cursor
	// stands on. Invariant: that slot is in seq order, and late is a heap by seq.
	late lateHeap

	chunks slabs
	n      int
}

// New gives an empty wheel with its cursor at now: nothing may be added below.
func New(now Tick) *Wheel {
	return &Wheel{cursor: digitsOf(now)}
}

// Now returns the cursor. It stands where New put it until Take returns an entry, and then on the due of the last entry
// that was taken; the passing of time alone does not move it.
func (w *Wheel) Now() Tick { return w.cursor.tick() }

// Len returns how many entries are held.
func (w *Wheel) Len() int { return w.n }

// Bytes returns the memory held, used or not.
func (w *Wheel) Bytes() int {
	b := int(unsafe.Sizeof(*w)) + w.chunks.bytes() + w.late.bytes()
	for _, l := range w.levels {
		if l != nil {
			b += int(unsafe.Sizeof(*l))
		}
	}
	return b
}

// Add puts an entry in. Its due must not lie below the cursor. The wheel does not look whether it holds that
// (due, seq) already: it would hold both.
func (w *Wheel) Add(due Tick, seq int64, ref uint64) {
	d := digitsOf(due)
	if d > w.cursor {
		w.put(d, item{seq, ref})
	} else {
		w.putHere(d, item{seq, ref})
	}
	w.n++
}

// putHere puts an entry into the slot that the cursor stands on, which stays in order.
func (w *Wheel) putHere(d digits, it item) {
	if d < w.cursor {
		panic(fmt.Sprintf("wheel: BUG: added %d:%d below the cursor, %d", d.tick(), it.seq, w.Now()))
	}
	if s := w.here(); s != nil && s.head != 0 && it.seq < w.chunks.lastSeq(s.chain) {
		w.late.push(it)
		return
	}
	w.put(d, it)
}

// here is the slot that the cursor stands on; nil before level 0 is first used.
func (w *Wheel) here() *slot {
	if w.levels[0] == nil {
		return nil
	}
	return &w.levels[0].slots[w.cursor.at(0)]
}

// Next returns the smallest due of what is held, exactly; false when nothing is.
func (w *Wheel) Next() (Tick, bool) {
	d, ok := w.next()
	return d.tick(), ok
}

// next leans on the order of levels: what differs from the cursor in a lower digit only is due before what differs in a
// higher one.
func (w *Wheel) next() (digits, bool) {
	if len(w.late) > 0 {
		return w.cursor, true
	}
	if w.busy == 0 {
		return 0, false
	}
	l := w.levels[bits.TrailingZeros8(w.busy)]
	return l.slots[l.first()].min, true
}

// Take removes entries with due <= now, at most max of them, and appends them to dst in the order of (due, seq). The
// cursor moves to the due of the last one. Whatever max left behind stays, and entries that are added before the next
// Take find their place among it.
func (w *Wheel) Take(now Tick, dst []Entry, max int) []Entry {
	end := digitsOf(now)
	for max > 0 {
		d, ok := w.next()
		if !ok || d > end {
			break
		}
		if d != w.cursor {
			w.moveTo(d)
		}
		before := len(dst)
		dst = w.takeHere(dst, max)
		max -= len(dst) - before
		w.n -= len(dst) - before
	}
	w.shrink()
	return dst
}

// takeHere takes at most max entries due at the cursor: it merges the slot with what came late.
func (w *Wheel) takeHere(dst []Entry, max int) []Entry {
	s, due, end := w.here(), w.Now(), len(dst)+max
	for len(dst) < end && s != nil && s.head != 0 {
		ready := w.chunks.at(s.head).items[s.start:w.chunks.at(s.head).len()]
		n := min(w.late.after(ready), end-len(dst))
		if n == 0 {
			dst = append(dst, w.late.pop().entry(due))
			continue
		}
		for _, it := range ready[:n] {
			dst = append(dst, it.entry(due))
		}
		if s.start += int32(n); n == len(ready) {
			w.dropHere(s)
		}
	}
	for len(dst) < end && len(w.late) > 0 {
		dst = append(dst, w.late.pop().entry(due))
	}
	return dst
}

// dropHere gives back the first chunk at the cursor, of which everything has been taken.
func (w *Wheel) dropHere(s *slot) {
	s.start = 0
	if w.chunks.dropHead(&s.chain); s.head == 0 {
		w.vacate(0, w.cursor.at(0))
	}
}

// TakeFrom removes every entry with a due of at least due and calls fn for each, in no particular order; it returns how
// many there were. fn must not call the wheel. It looks at every entry in the slot in which due lies, so a far end is
// better taken in few steps.
func (w *Wheel) TakeFrom(due Tick, fn func(Entry)) int {
	d, before := digitsOf(due), w.n
	for k, l := range w.levels {
		if l == nil {
			continue
		}
		for i := range l.occupied.all {
			if s := &l.slots[i]; s.max >= d {
				w.takeSlotFrom(k, i, d, fn)
			}
		}
	}
	if d <= w.cursor {
		for _, l := range w.late {
			fn(l.entry(w.Now()))
		}
		w.n -= len(w.late)
		w.late = nil
	}
	w.shrink()
	return before - w.n
}

// takeSlotFrom empties one slot and puts back what is due before d. That stays in order, since a slot in which dues
// differ is above level 0.
func (w *Wheel) takeSlotFrom(k int, i uint8, d digits, fn func(Entry)) {
	s := w.vacate(k, i)
	for start := s.start; s.head != 0; start = 0 {
		c := w.chunks.at(s.head)
		for j := start; j < c.len(); j++ {
			if e := c.due(j); e < d {
				w.put(e, c.items[j])
				continue
			}
			w.n--
			fn(c.items[j].entry(c.due(j).tick()))
		}
		w.chunks.dropHead(&s.chain)
	}
}

// Update calls fn for every entry with a due of at least due, in no particular order, and keeps the reference that fn returns in the place of the
// entry's, until fn says that it wants no more; it reports whether it came to the end. fn must not call the wheel.
func (w *Wheel) Update(due Tick, fn func(Entry) (ref uint64, more bool)) (all bool) {
	d := digitsOf(due)
	for _, l := range w.levels {
		if l == nil {
			continue
		}
		for i := range l.occupied.all {
			if s := &l.slots[i]; s.max >= d && !w.updateSlot(s, d, fn) {
				return false
			}
		}
	}
	if d > w.cursor {
		return true
	}
	for i := range w.late {
		it, more := &w.late[i], true
		if it.ref, more = fn(it.entry(w.Now())); !more {
			return false
		}
	}
	return true
}

func (w *Wheel) updateSlot(s *slot, d digits, fn func(Entry) (ref uint64, more bool)) (all bool) {
	start := s.start
	for i := s.head; i != 0; i, start = w.chunks.at(i).next, 0 {
		c := w.chunks.at(i)
		for j := start; j < c.len(); j++ {
			if c.due(j) < d {
				continue
			}
			more := true
			if c.items[j].ref, more = fn(c.items[j].entry(c.due(j).tick())); !more {
				return false
			}
		}
	}
	return true
}

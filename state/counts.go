package state

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"
)

// Counted is a record, or the stub of one, as it is counted.
type Counted struct {
	Key    Key
	Offset int64 // where its current copy lies in the log
	Bytes  int   // of a stub they are not counted
	Stub   bool
}

// Counts are what a store holds of a partition above the watermark of its position: what a [Ledger] begins with. They lie in the store with
// what they count, so that they need not be counted anew.
//
// Both an offset and a stub at it may be there, from when a turn takes a record until that is committed.
type Counts struct {
	records    offsets
	due        agenda
	bytes      int64
	stubs      offsets
	identified bool // something has had an id
	copies     bool // something was a carried copy: its seq lay between these
	first      int64
	last       int64
}

// Copies tells between which seqs carried copies lay; false: there was none.
func (c *Counts) Copies() (first, last int64, ok bool) { return c.first, c.last, c.copies }

func (c *Counts) seeCopy(seq int64) {
	if !c.copies {
		c.copies, c.first, c.last = true, seq, seq
	}
	c.first, c.last = min(c.first, seq), max(c.last, seq)
}

func newCounts() *Counts { return &Counts{records: newOffsets(0), stubs: newOffsets(0)} }

// Has tells whether a record at an offset is counted, or a stub.
func (c *Counts) Has(offset int64, stub bool) bool { return c.of(stub).has(offset) }

func (c *Counts) of(stub bool) *offsets {
	if stub {
		return &c.stubs
	}
	return &c.records
}

// Identified tells whether something that was counted has had an id.
func (c *Counts) Identified() bool { return c.identified }

// Len is how many records and stubs are counted.
func (c *Counts) Len() int { return c.records.count + c.stubs.count }

// Bytes is how many bytes the records have that are counted.
func (c *Counts) Bytes() int64 { return c.bytes }

// First is the smallest offset of what is counted; false when that is nothing.
func (c *Counts) First() (int64, bool) {
	first, ok := c.records.smallest()
	if stub, is := c.stubs.smallest(); is && (!ok || stub < first) {
		first, ok = stub, true
	}
	return first, ok
}

// Below is how many records are counted below an offset, or stubs.
func (c *Counts) Below(offset int64, stub bool) int { return c.of(stub).below(offset) }

// Both gives the offsets at which a record and a stub are counted.
func (c *Counts) Both() (both []int64) {
	c.stubs.each(func(offset int64) {
		if c.records.has(offset) {
			both = append(both, offset)
		}
	})
	return both
}

// Ledger is the ledger of a partition of which nothing else is pending, and nothing below low.
func (c *Counts) Ledger(low int64) *Ledger {
	l := &Ledger{pending: c.records.clone(), unsaved: newOffsets(low), due: c.due.clone(), bytes: c.bytes, stubs: c.stubs.count, Displaced: Displaced{low: low}, low: low}
	c.stubs.each(l.pending.add)
	return l
}

// add counts what is not counted yet.
func (c *Counts) add(x Counted) bool {
	if c.Has(x.Offset, x.Stub) {
		return false
	}
	c.of(x.Stub).add(x.Offset)
	if x.Key.Seq != x.Offset {
		c.seeCopy(x.Key.Seq)
	}
	if !x.Stub {
		c.due.add(x.Key.Due, int64(x.Bytes))
		c.bytes += int64(x.Bytes)
	}
	return true
}

// remove takes back what was counted.
func (c *Counts) remove(x Counted) bool {
	if !c.Has(x.Offset, x.Stub) {
		return false
	}
	c.of(x.Stub).remove(x.Offset)
	if !x.Stub {
		c.due.remove(x.Key.Due, int64(x.Bytes))
		c.bytes -= int64(x.Bytes)
	}
	return true
}

// A change of the counts as the store has it: how far the offset is from that of the change before, shifted by 3 bits for the flags; with
// changeMoved how far seq is below the offset; how far due is from that of the change before; and of a record its bytes. All are varints, signed ones
// but for the last.
const (
	changeRemoves = 1 << iota
	changeStub
	changeMoved
	changeBits = iota
)

// changes are those of one batch, in order.
type changes struct {
	b       []byte
	offset  int64 // of the last one
	due     int64
	highest int64 // offset of what was added; -1: nothing was
}

func (c *changes) append(x Counted, removes bool) {
	flags := int64(0)
	if removes {
		flags |= changeRemoves
	} else {
		c.highest = max(c.highest, x.Offset)
	}
	if x.Stub {
		flags |= changeStub
	}
	if x.Key.Seq != x.Offset {
		flags |= changeMoved
	}
	c.b = binary.AppendVarint(c.b, (x.Offset-c.offset)<<changeBits|flags)
	if x.Key.Seq != x.Offset {
		c.b = binary.AppendVarint(c.b, x.Offset-x.Key.Seq)
	}
	c.b = binary.AppendVarint(c.b, x.Key.Due-c.due)
	if !x.Stub {
		c.b = binary.AppendUvarint(c.b, uint64(x.Bytes))
	}
	c.offset, c.due = x.Offset, x.Key.Due
}

func (c *changes) reset() { *c = changes{b: c.b[:0], highest: -1} }

// eachChange calls fn with the changes of one batch.
func eachChange(b []byte, fn func(x Counted, removes bool)) error {
	r := countsReader{b: b}
	var offset, due int64
	for len(r.b) > 0 {
		head := r.varint()
		offset += head >> changeBits
		x := Counted{Offset: offset, Stub: head&changeStub != 0, Key: Key{Seq: offset}}
		if head&changeMoved != 0 {
			x.Key.Seq -= r.varint()
		}
		due += r.varint()
		if x.Key.Due = due; !x.Stub {
			x.Bytes = int(r.uvarint())
		}
		if r.bad || offset < 0 {
			return fmt.Errorf("%w: a change of the counts ends too early", ErrCorrupt)
		}
		fn(x, head&changeRemoves != 0)
	}
	return nil
}

// countsReader reads numbers; after the first mistake it is bad and gives zeros.
type countsReader struct {
	b   []byte
	bad bool
}

func (r *countsReader) took(n int) bool {
	if n <= 0 {
		r.bad, r.b = true, nil
		return false
	}
	r.b = r.b[n:]
	return true
}

func (r *countsReader) varint() int64 {
	v, n := binary.Varint(r.b)
	if !r.took(n) {
		return 0
	}
	return v
}

func (r *countsReader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if !r.took(n) {
		return 0
	}
	return v
}

// appendPage writes the stretches of a page that hold anything: which one, how many offsets, and these; or bits instead, where that is shorter.
func appendPage(dst []byte, p *page) []byte {
	for i, w := range p.words {
		if w == 0 {
			continue
		}
		dst = append(dst, byte(i))
		if b := p.bitmap(i); b != nil {
			dst = append(dst, pageBitmap)
			for _, bits := range b.words {
				dst = binary.LittleEndian.AppendUint64(dst, bits)
			}
			continue
		}
		dst = append(dst, byte(w.len()))
		for k := range w.len() {
			dst = binary.LittleEndian.AppendUint16(dst, uint16(w.at(k)))
		}
	}
	return dst
}

const pageBitmap = 0xff

// readPage is the inverse, and says how many offsets there are. Those of a stretch come in any order, each of them once.
func readPage(b []byte) (p *page, count int, err error) {
	corrupt := fmt.Errorf("%w: a page of the counts", ErrCorrupt)
	p = new(page)
	for before := -1; len(b) > 0; {
		if len(b) < 2 || int(b[0]) <= before {
			return nil, 0, corrupt
		}
		i, n := int(b[0]), int(b[1])
		before, b = i, b[2:]
		switch {
		case n == pageBitmap && len(b) >= stretchSize/8:
			m := new(bitmap)
			for k := range m.words {
				m.words[k] = binary.LittleEndian.Uint64(b[8*k:])
				m.n += bits.OnesCount64(m.words[k])
			}
			if p.dense == nil {
				p.dense = make([]*bitmap, pageSize)
			}
			p.dense[i], p.words[i] = m, dense<<countShift
			count += m.n
			b = b[stretchSize/8:]
			if m.n == 0 {
				return nil, 0, corrupt
			}
		case 0 < n && n <= few && len(b) >= 2*n:
			for k := range n {
				o := int(binary.LittleEndian.Uint16(b[2*k:]))
				if o >= stretchSize || p.words[i].find(o) >= 0 {
					return nil, 0, corrupt
				}
				p.words[i] = p.words[i].with(o)
			}
			count += n
			b = b[2*n:]
		default:
			return nil, 0, corrupt
		}
		p.used++
	}
	if p.used == 0 {
		return nil, 0, corrupt
	}
	return p, count, nil
}

// appendHead writes what the counts are beside their pages.
func (c *Counts) appendHead(dst []byte, next uint64) []byte {
	dst = binary.AppendUvarint(dst, next)
	if c.identified {
		dst = append(dst, 1)
	} else {
		dst = append(dst, 0)
	}
	if c.copies {
		dst = binary.AppendUvarint(binary.AppendUvarint(append(dst, 1), uint64(c.first)), uint64(c.last))
	} else {
		dst = append(dst, 0)
	}
	from := int64(0)
	for _, b := range c.due.list {
		dst = binary.AppendVarint(dst, b.from-from)
		from = b.from
		dst = binary.AppendUvarint(dst, uint64(bits.TrailingZeros64(uint64(b.width))))
		dst = binary.AppendUvarint(dst, uint64(b.records))
		dst = binary.AppendUvarint(dst, uint64(b.bytes))
	}
	return dst
}

// readHead is the inverse: the number of the first batch of changes that the counts do not have.
func (c *Counts) readHead(b []byte) (next uint64, err error) {
	r := countsReader{b: b}
	next = r.uvarint()
	c.identified = r.uvarint() != 0
	if c.copies = r.uvarint() != 0; c.copies {
		c.first, c.last = int64(r.uvarint()), int64(r.uvarint())
	}
	from := int64(0)
	for len(r.b) > 0 {
		from += r.varint()
		x := bucket{from: from, width: 1 << min(r.uvarint(), 62), records: int64(r.uvarint()), bytes: int64(r.uvarint())}
		n := len(c.due.list)
		if x.records <= 0 || x.bytes < 0 || n > 0 && (x.from < c.due.list[n-1].from || c.due.list[n-1].holds(x.from)) {
			return 0, fmt.Errorf("%w: the head of the counts has %d records with %d bytes in a stretch of due time from %d on", ErrCorrupt, x.records, x.bytes, x.from)
		}
		c.due.list = append(c.due.list, x)
		c.bytes += x.bytes
	}
	if r.bad {
		return 0, fmt.Errorf("%w: the head of the counts", ErrCorrupt)
	}
	return next, nil
}

// whole reports whether the pages have as many records as the head says, whose buckets rise.
func (c *Counts) whole() bool {
	n := int64(0)
	for _, b := range c.due.list {
		n += b.records
	}
	return n == int64(c.records.count) && slices.IsSortedFunc(c.due.list, func(a, b bucket) int { return cmp.Compare(a.from, b.from) })
}

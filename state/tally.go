package state

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"
)

// tally keeps the counts of a partition in the store. Each batch bears what it changes of them, and now and then one bears all of them: when the
// changes since have become as long as that. So what is read at a restart is at most twice what the counts are, and what the store recovers to
// is counted exactly, whichever batch was its last.
//
// It belongs to a handle.
type tally struct {
	counts     *Counts // nil: not read yet
	next       uint64  // number of the next batch of changes
	since      int     // bytes of the changes that the counts on disk do not have
	whole      int     // bytes of the counts on disk
	first      uint64  // number of the first batch of changes on disk
	tail       []above // those that have added something at or above O, in the order of numbers
	open       changes // of the open batch
	identified bool    // something in the open batch has an id
}

// above is the highest offset that a batch of changes has added.
type above struct {
	number  uint64
	highest int64
}

// leastWhole is how long changes may become at least before all counts are written.
const leastWhole = 64 << 10

// The counts of a partition have a part of their own: its number with the second highest bit set. Then comes one of these.
const (
	countsBit = part(1) << 30

	headTag    = 'a' // the counts: number of the first batch of changes that they do not have, and the agenda
	changesTag = 'c' // number (8): what a batch has changed
	pageTag    = 'r' // page (8): offsets of records
	stubsTag   = 's' // page (8): offsets of stubs
)

func appendCounts(dst []byte, p part, tag byte) []byte {
	return append(appendPart(dst, p|countsBit), tag)
}

func countsKey(p part, tag byte, n uint64) []byte {
	return binary.BigEndian.AppendUint64(appendCounts(nil, p, tag), n)
}

// Count adds to the open batch that a record, or a stub, is counted from then on, unless it is.
func (p *Partition) Count(x Counted) { p.change(x, false) }

// Uncount adds to the open batch that it is not counted any more, if it is: what was put is deleted by that batch, or lies at or below the
// watermark of its position.
func (p *Partition) Uncount(x Counted) { p.change(x, true) }

func (p *Partition) change(x Counted, removes bool) {
	c, err := p.Counts()
	if err != nil {
		return // the next Commit says so
	}
	does := c.add
	if removes {
		does = c.remove
	}
	if does(x) {
		p.tally.open.append(x, removes)
	}
}

// Counts are what is counted, the open batch included. They belong to the handle.
func (p *Partition) Counts() (*Counts, error) {
	if p.tally.counts != nil {
		return p.tally.counts, nil
	}
	t, err := readTally(p)
	if err != nil {
		return nil, err
	}
	p.tally = t
	return t.counts, nil
}

// Above gives what was counted by batches that are committed, is still, and lies at or above the offset of the position: the log may be
// read otherwise there. It ends with ok false when that is more than most, or was.
func (p *Partition) Above(most int) (all []Counted, ok bool, err error) {
	c, err := p.Counts()
	if err != nil || len(p.tally.tail) == 0 {
		return nil, err == nil, err
	}
	pos, _ := p.Position()
	found, more := map[Counted]struct{}{}, false
	from, to := countsKey(p.slot.part, changesTag, p.tally.tail[0].number), countsKey(p.slot.part, changesTag, p.tally.next)
	err = p.eachCounts(from, to, func(_, value []byte) error {
		return eachChange(value[1:], func(x Counted, removes bool) {
			switch {
			case x.Offset < pos.Offset:
			case removes:
				delete(found, x)
			case len(found) == most:
				more = true
			default:
				found[x] = struct{}{}
			}
		})
	})
	if err != nil || more {
		return nil, false, err
	}
	for x := range found {
		if c.Has(x.Offset, x.Stub) {
			all = append(all, x)
		}
	}
	slices.SortFunc(all, func(a, b Counted) int { return a.Key.Compare(b.Key) })
	return all, true, nil
}

// readTally reads what is committed of the counts.
func readTally(p *Partition) (t tally, err error) {
	t.counts, t.open.highest = newCounts(), -1
	pos, used := p.Position()
	if !used {
		return t, nil
	}
	var late [][]byte // changes that the counts do not have: pages come after them
	err = p.eachCounts(appendPart(nil, p.slot.part|countsBit), appendCounts(nil, p.slot.part, spoolTag), func(key, value []byte) error {
		return t.read(key[partLen:], value, pos.Offset, &late)
	})
	if err != nil {
		return t, err
	}
	if err := t.replay(late); err != nil {
		p.engine.fail(err)
		return t, p.wrap("count", p.engine.failure())
	}
	return t, nil
}

// eachCounts calls fn with keys of the counts.
func (p *Partition) eachCounts(from, to []byte, fn func(key, value []byte) error) error {
	if err := p.write("count", nil, nil); err != nil {
		return err
	}
	e := p.engine
	if err := e.enter(); err != nil {
		return p.wrap("count", err)
	}
	defer e.leave()
	it, err := e.db.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: to})
	if err == nil {
		for it.First(); it.Valid() && err == nil; it.Next() {
			var value []byte
			if value, err = it.ValueAndErr(); err == nil {
				err = fn(it.Key(), value)
			}
		}
		err = errors.Join(err, it.Error(), it.Close())
	}
	if err != nil {
		e.fail(err) // wrong bytes or a bad disk
		return p.wrap("count", e.failure())
	}
	return nil
}

// replay applies the changes that the counts do not have.
func (t *tally) replay(late [][]byte) error {
	if !t.counts.whole() {
		return fmt.Errorf("%w: the counts do not have what their head says", ErrCorrupt)
	}
	for _, b := range late {
		if b[0] != 0 {
			t.counts.identified = true
		}
		if err := eachChange(b[1:], func(x Counted, removes bool) {
			if removes {
				t.counts.remove(x)
			} else {
				t.counts.add(x)
			}
		}); err != nil {
			return err
		}
	}
	return nil
}

// read takes in one key of the counts. The head comes first, then the changes, then the pages.
func (t *tally) read(key, value []byte, offset int64, late *[][]byte) error {
	tag, n := key[0], uint64(0)
	if tag != headTag {
		if len(key) != 1+8 || len(value) == 0 {
			return fmt.Errorf("%w: %d and %d bytes in the counts", ErrCorrupt, len(key), len(value))
		}
		n = binary.BigEndian.Uint64(key[1:])
	}
	switch tag {
	case headTag:
		next, err := t.counts.readHead(value)
		t.next, t.first, t.whole = next, next, len(value)
		return err
	case changesTag:
		highest := int64(-1)
		if err := eachChange(value[1:], func(x Counted, removes bool) {
			if !removes {
				highest = max(highest, x.Offset)
			}
		}); err != nil {
			return err
		}
		if len(t.tail) > 0 || highest >= offset {
			t.tail = append(t.tail, above{n, highest})
		}
		if t.first = min(t.first, n); n >= t.next {
			t.next = n + 1
			t.since += len(value)
			*late = append(*late, slices.Clone(value))
		}
	case pageTag, stubsTag:
		t.whole += len(value)
		p, count, err := readPage(value)
		if err != nil {
			return err
		}
		t.counts.of(tag == stubsTag).put(int64(n), p, count)
	default:
		return fmt.Errorf("%w: tag %q in the counts", ErrCorrupt, tag)
	}
	return nil
}

// write adds to a batch what the open one changes of the counts, and all of them when that is worth its while. Offset is that of the position.
func (t *tally) write(b *pebble.Batch, p part, offset int64) error {
	for len(t.tail) > 0 && t.tail[0].highest < offset {
		t.tail = t.tail[1:]
	}
	if len(t.open.b) == 0 && !t.identified {
		return nil
	}
	value := make([]byte, 1, 1+len(t.open.b))
	if t.identified {
		value[0] = 1
	}
	value = append(value, t.open.b...)
	if err := b.Set(countsKey(p, changesTag, t.next), value, nil); err != nil {
		return err
	}
	if len(t.tail) > 0 || t.open.highest >= offset {
		t.tail = append(t.tail, above{t.next, t.open.highest})
	}
	t.next++
	t.since += len(value)
	t.identified = false
	t.open.reset()
	if t.since <= max(t.whole, leastWhole) {
		return nil
	}
	return t.writeWhole(b, p)
}

// writeWhole adds all counts to a batch, and deletes the changes that they have, but for those that Above needs.
func (t *tally) writeWhole(b *pebble.Batch, p part) error {
	keep := t.next
	if len(t.tail) > 0 {
		keep = t.tail[0].number
	}
	err := errors.Join(
		b.DeleteRange(countsKey(p, changesTag, t.first), countsKey(p, changesTag, keep), nil),
		b.DeleteRange(appendCounts(nil, p, pageTag), appendCounts(nil, p, stubsTag+1), nil))
	head := t.counts.appendHead(nil, t.next)
	err = errors.Join(err, b.Set(appendCounts(nil, p, headTag), head, nil))
	t.first, t.since, t.whole = keep, 0, len(head)
	for _, tag := range [...]byte{pageTag, stubsTag} {
		of := t.counts.of(tag == stubsTag)
		var buf []byte
		for n, page := range of.pages {
			if page == nil || err != nil {
				continue
			}
			buf = appendPage(buf[:0], page)
			t.whole += len(buf)
			err = b.Set(countsKey(p, tag, uint64(of.first+int64(n))), buf, nil)
		}
	}
	return err
}

package state

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

// trimBytes is how much is put or scanned between two range deletes of a partition. A turn trims hundreds of times a
// second, and each range delete that a memtable holds is looked at by each Scan.
const trimBytes = 1 << 20

// maxBatch keeps the open batch well below the 4 GiB at which pebble panics.
const maxBatch = 1 << 30

// Partition is a handle on one partition's part of the store: records beyond the near window, in the order of their keys.
//
// It belongs to the goroutine that owns the partition and has no lock of its own; only whether it still may write is
// decided under one, together with the write. When one of its methods has returned an error, the handle is of no
// further use, and neither is what was put since the last Commit.
type Partition struct {
	engine *engine
	slot   *slot

	batch *pebble.Batch // the open batch, nil when it is empty
	start []byte        // scratch for keys
	end   []byte

	// What Trim was told, and how far range deletes were written. Scan begins above trimmed, so in between is only
	// disk space that is not given back yet. Invariant: deleted <= trimmed.
	trimmed Key
	deleted Key
	moved   int  // bytes put or scanned since the last range delete
	stale   bool // what an earlier handle left may lie anywhere: the first Trim deletes
}

// Position is what the last Commit wrote, through this handle or an earlier one; false when there was none.
func (p *Partition) Position() (Position, bool) {
	p.slot.mu.Lock()
	defer p.slot.mu.Unlock()
	return p.slot.position, p.slot.used
}

// Put adds a record to the open batch, and copies the value. The key must be above the zero key.
func (p *Partition) Put(key Key, value []byte) error {
	if !(Key{}).Less(key) {
		return fmt.Errorf("state: put %v: a key must be above the zero key", key)
	}
	b, err := p.open("put", keyLen+len(value))
	if err != nil {
		return err
	}
	if !p.trimmed.Less(key) {
		if err := p.untrim(b); err != nil {
			return err
		}
	}
	op := b.SetDeferred(keyLen, len(value))
	putKey(op.Key, p.slot.part, key)
	copy(op.Value, value)
	p.moved += keyLen + len(value)
	return op.Finish()
}

// Delete adds the removal of one record to the open batch.
func (p *Partition) Delete(key Key) error {
	b, err := p.open("delete", keyLen)
	if err != nil {
		return err
	}
	op := b.DeleteDeferred(keyLen)
	putKey(op.Key, p.slot.part, key)
	return op.Finish()
}

// open gives the open batch, with room for so many more bytes.
func (p *Partition) open(what string, more int) (_ *pebble.Batch, err error) {
	if p.batch == nil {
		if p.batch, err = p.newBatch(what); err != nil {
			return nil, err
		}
	}
	if p.batch.Len()+more > maxBatch {
		return nil, p.wrap(what, fmt.Errorf("the open batch would be larger than %d bytes", maxBatch))
	}
	return p.batch, nil
}

// newBatch enters the engine, so that the database is not closed while it makes one.
func (p *Partition) newBatch(what string) (*pebble.Batch, error) {
	if err := p.engine.enter(); err != nil {
		return nil, p.wrap(what, err)
	}
	defer p.engine.leave()
	return p.engine.db.NewBatch(), nil
}

// untrim writes the range delete that is owed, since a record is about to be put below it. That is rare: what comes
// at or below the watermark is late, and does not get here.
func (p *Partition) untrim(b *pebble.Batch) error {
	err := p.deleteRange(b, p.trimmed)
	p.trimmed, p.deleted = Key{}, Key{}
	return err
}

// Commit writes the open batch together with the position that belongs to it: both or neither. It does not wait for
// the disk, only for room when flushes are behind.
func (p *Partition) Commit(pos Position) error {
	b, err := p.open("commit", positionLen)
	if err != nil {
		return err
	}
	p.start = appendPosition(p.start[:0], pos)
	if err := b.Set(positionKey(p.slot.part), p.start, nil); err != nil {
		return p.wrap("commit", err)
	}
	p.batch = nil
	return p.write("commit", b, func(s *slot) { s.position, s.used = pos, true })
}

// Trim removes every record at or below a key. It takes effect for Scan at once; the disk space comes back some time after.
func (p *Partition) Trim(upTo Key) error {
	if !p.trimmed.Less(upTo) {
		return p.check("trim")
	}
	p.trimmed = upTo
	if p.moved < trimBytes && !p.stale {
		return p.check("trim")
	}
	b, err := p.newBatch("trim")
	if err != nil {
		return err
	}
	if err := p.deleteRange(b, upTo); err != nil {
		return p.wrap("trim", err)
	}
	p.moved, p.stale = 0, false
	return p.write("trim", b, nil)
}

// deleteRange adds a range delete up to a key, from where the last one ended: overlapping ones would be cut into ever
// more fragments.
func (p *Partition) deleteRange(b *pebble.Batch, upTo Key) error {
	if p.deleted == (Key{}) {
		p.start = appendPart(p.start[:0], p.slot.part)
	} else {
		p.start = appendAfter(p.start[:0], p.slot.part, p.deleted)
	}
	p.end = appendAfter(p.end[:0], p.slot.part, upTo)
	p.deleted = upTo
	return b.DeleteRange(p.start, p.end, nil)
}

// Drop forgets everything, the open batch and the position included. The handle stays good.
func (p *Partition) Drop() error {
	p.batch = nil
	b, err := p.newBatch("drop")
	if err != nil {
		return err
	}
	if err := forget(b, p.slot.part); err != nil {
		return p.wrap("drop", err)
	}
	p.trimmed, p.deleted, p.moved, p.stale = Key{}, Key{}, 0, false
	return p.write("drop", b, func(s *slot) { s.position, s.used = Position{}, false })
}

// write applies a batch if the handle has not ended, and what it means for the slot with it. Both lie within one lock,
// which Store.Partition takes as well: a write that was on its way when the partition was opened again fails.
func (p *Partition) write(what string, b *pebble.Batch, then func(*slot)) error {
	if err := p.engine.enter(); err != nil {
		return p.wrap(what, err)
	}
	defer p.engine.leave()
	if err := p.engine.makeRoom(); err != nil {
		return p.wrap(what, err)
	}
	p.slot.mu.Lock()
	defer p.slot.mu.Unlock()
	if p.slot.holder != p {
		return p.wrap(what, ErrEnded)
	}
	if err := p.engine.apply(b); err != nil {
		return p.wrap(what, err)
	}
	if then != nil {
		then(p.slot)
	}
	_ = b.Close() // back to pebble's pool; it has nothing to say
	return nil
}

// check is what write would say.
func (p *Partition) check(what string) error {
	if err := p.engine.failure(); err != nil {
		return p.wrap(what, err)
	}
	p.slot.mu.Lock()
	defer p.slot.mu.Unlock()
	if p.slot.holder != p {
		return p.wrap(what, ErrEnded)
	}
	return nil
}

// Scan calls fn for each committed record above a key, in rising order of keys, until fn returns false. The value is
// valid only until fn returns. Deleted ranges lie below the key, so they cost nothing.
func (p *Partition) Scan(after Key, fn func(k Key, value []byte) bool) error {
	if err := p.engine.enter(); err != nil {
		return p.wrap("scan", err)
	}
	defer p.engine.leave()
	if err := p.check("scan"); err != nil {
		return err
	}
	if after.Less(p.trimmed) {
		after = p.trimmed
	}
	iter, err := p.engine.db.NewIter(&pebble.IterOptions{
		LowerBound: appendAfter(nil, p.slot.part, after),
		UpperBound: appendPart(nil, p.slot.part+1),
	})
	if err != nil {
		return p.broken(err)
	}
	err = p.each(iter, fn)
	if err = errors.Join(err, iter.Close()); err != nil {
		return p.broken(err)
	}
	return nil
}

func (p *Partition) each(iter *pebble.Iterator, fn func(k Key, value []byte) bool) error {
	for iter.First(); iter.Valid(); iter.Next() {
		_, k, err := decodeKey(iter.Key())
		if err != nil {
			return err
		}
		value, err := iter.ValueAndErr()
		if err != nil {
			return err
		}
		p.moved += keyLen + len(value)
		if !fn(k, value) {
			return nil
		}
	}
	return nil
}

// broken takes a read error for the failure of the store that it is.
func (p *Partition) broken(err error) error {
	p.engine.fail(err)
	return p.wrap("scan", p.engine.failure())
}

// Bytes is about how much disk the partition's records take, counted in whole tables and without the memtables.
func (p *Partition) Bytes() (uint64, error) {
	if err := p.engine.enter(); err != nil {
		return 0, p.wrap("size", err)
	}
	defer p.engine.leave()
	n, err := p.engine.db.EstimateDiskUsage(appendPart(nil, p.slot.part), appendPart(nil, p.slot.part+1))
	if err != nil {
		return 0, p.wrap("size", err)
	}
	return n, nil
}

func (p *Partition) wrap(what string, err error) error {
	return fmt.Errorf("%s %v: %w", what, p.slot.id, err)
}

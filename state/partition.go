package state

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

// trimBytes is how much is put or scanned between two range deletes of a partition. A turn trims hundreds of times a
// second, and each range delete that a memtable holds is looked at by each Scan.
const trimBytes = 1 << 20

// Partition is a handle on one partition's part of the store: records beyond the near window, in the order of their keys.
//
// It belongs to the goroutine that owns the partition and has no lock of its own; only whether it still may write is
// decided under one, together with the write. When Commit, Trim, Drop, Scan or Get has returned an error, the handle is of
// no further use, and neither is what was put since the last Commit.
type Partition struct {
	engine *engine
	slot   *slot
	batch  *openBatch // nil while it is empty

	// What Trim was told, and how far range deletes were written. Scan begins above trimmed, so in between is only
	// disk space that is not given back yet. Invariant: deleted <= trimmed.
	trimmed Key
	deleted Key
	moved   int  // bytes put or scanned since the last range delete
	stale   bool // what an earlier handle left may lie anywhere: the first Trim deletes

	tally tally
	swept bool // what earlier handles have laid aside is gone
}

// Position is what the last Commit wrote, through this handle or an earlier one; false when there was none.
func (p *Partition) Position() (Position, bool) {
	p.slot.mu.Lock()
	defer p.slot.mu.Unlock()
	return p.slot.position, p.slot.used
}

// Put adds a record to the open batch, and copies the value. The key must be above the zero key. After an error the next Commit fails with it, so who commits
// need not look at it.
func (p *Partition) Put(key Key, value []byte) error {
	b := p.open()
	if !(Key{}).Less(key) {
		return b.fail(p.wrap("put", fmt.Errorf("key %v is not above the zero key", key)))
	}
	if err := b.put(key, value); err != nil {
		return b.fail(p.wrap("put", err))
	}
	b.below = b.below || !p.trimmed.Less(key)
	p.moved += keyLen + len(value)
	return nil
}

// Delete adds the removal of one record to the open batch.
func (p *Partition) Delete(key Key) { p.open().delete(key) }

// open gives the open batch.
func (p *Partition) open() *openBatch {
	if p.batch == nil {
		p.batch = batches.Get().(*openBatch)
	}
	return p.batch
}

// discard empties the open batch of a partition.
func discard(p *Partition) {
	if p.batch != nil {
		p.batch.release()
		p.batch = nil
	}
}

// Commit writes the open batch together with the position that belongs to it: both or neither, and neither where a Put
// of that batch has failed. It does not wait for the disk, only for room when flushes are far behind.
func (p *Partition) Commit(pos Position) error {
	defer discard(p)
	if p.batch != nil && p.batch.err != nil {
		return p.batch.err
	}
	if _, err := p.Counts(); err != nil {
		return err
	}
	return p.write("commit", func(b *pebble.Batch) error {
		open := p.open()
		if open.below {
			// It has a record at or below what was trimmed. That is rare, since what comes at or below the watermark is
			// late and does not get here. What Trim owes goes first, and Scan begins at the start again.
			if err := b.DeleteRange(appendPart(nil, p.slot.part), appendAfter(nil, p.slot.part, p.trimmed), nil); err != nil {
				return err
			}
			p.trimmed, p.deleted = Key{}, Key{}
		}
		return errors.Join(sweep(p, b), open.write(b, p.slot.part), open.writeIDs(b), p.tally.write(b, p.slot.part, pos.Offset), b.Set(positionKey(p.slot.part), appendPosition(nil, pos), nil))
	}, func(s *slot) { s.position, s.used = pos, true })
}

// Trim removes every record at or below a key, also from the open batch. It takes effect for Scan at once. On disk it
// does so some time after, so a later handle may still see what was trimmed through this one: like every owner it
// scans from its watermark.
func (p *Partition) Trim(upTo Key) error {
	if p.batch != nil {
		p.batch.trim(upTo)
	}
	if p.trimmed.Less(upTo) {
		p.trimmed = upTo
	}
	if p.deleted == p.trimmed || p.moved < trimBytes && !p.stale {
		return p.write("trim", nil, nil)
	}
	// Each range delete begins where the one before ended: overlapping ones would be cut into ever more fragments.
	from, to := appendPart(nil, p.slot.part), appendAfter(nil, p.slot.part, p.trimmed)
	if p.deleted != (Key{}) {
		from = appendAfter(nil, p.slot.part, p.deleted)
	}
	p.deleted, p.moved, p.stale = p.trimmed, 0, false
	return p.write("trim", func(b *pebble.Batch) error { return b.DeleteRange(from, to, nil) }, nil)
}

// Drop forgets everything, the open batch and the position included. The handle stays good.
func (p *Partition) Drop() error {
	discard(p)
	p.trimmed, p.deleted, p.moved, p.stale = Key{}, Key{}, 0, false
	p.tally = tally{counts: newCounts(), open: changes{highest: -1}}
	return p.write("drop", func(b *pebble.Batch) error { return forget(b, p.slot.part) },
		func(s *slot) { s.position, s.used, s.durable = Position{}, false, 0 })
}

// write applies a batch if the handle has not ended, and what it means for the slot with it. Both lie within one lock,
// which Store.Partition takes as well: a write that was on its way when the partition was opened again fails. Without
// a fill there is nothing to write, and it tells only whether there could be.
func (p *Partition) write(what string, fill func(*pebble.Batch) error, then func(*slot)) error {
	e := p.engine
	if err := e.enter(); err != nil {
		return p.wrap(what, err)
	}
	defer e.leave()
	var b *pebble.Batch
	if fill != nil {
		b = e.db.NewBatch(pebble.WithMaxRetainedSizeBytes(keptBatch))
		defer b.Close() // back to pebble's pool
		if err := errors.Join(fill(b), e.makeRoom()); err != nil {
			return p.wrap(what, err)
		}
	}
	p.slot.mu.Lock()
	defer p.slot.mu.Unlock()
	if p.slot.holder != p {
		return p.wrap(what, ErrEnded)
	}
	if b == nil {
		return nil
	}
	if err := e.apply(b); err != nil {
		return p.wrap(what, err)
	}
	if then != nil {
		then(p.slot)
	}
	return nil
}

// Scan calls fn for each committed record above a key, in rising order of keys, until fn returns false. The value is
// valid only until fn returns. Deleted ranges lie below the key, so they cost nothing.
func (p *Partition) Scan(after Key, fn func(k Key, value []byte) bool) error {
	if err := p.write("scan", nil, nil); err != nil {
		return err
	}
	e := p.engine
	if err := e.enterToRead(); err != nil {
		return p.wrap("scan", err)
	}
	defer e.leave()
	if err := p.scan(after.Later(p.trimmed), fn); err != nil {
		e.fail(err) // wrong bytes or a bad disk
		return p.wrap("scan", e.failure())
	}
	return nil
}

func (p *Partition) scan(after Key, fn func(k Key, value []byte) bool) error {
	iter, err := p.engine.db.NewIter(&pebble.IterOptions{
		LowerBound: appendAfter(nil, p.slot.part, after),
		UpperBound: appendPart(nil, p.slot.part+1),
	})
	if err != nil {
		return err
	}
	for more := iter.First(); more; more = more && iter.Next() {
		var k Key
		var value []byte
		if _, k, err = decodeKey(iter.Key()); err != nil {
			break
		}
		if value, err = iter.ValueAndErr(); err != nil {
			break
		}
		p.moved += keyLen + len(value)
		more = fn(k, value)
	}
	return errors.Join(err, iter.Close())
}

// Get calls fn for the committed record of a key, and reports whether there is one. The value is valid only until fn returns.
func (p *Partition) Get(key Key, fn func(value []byte)) (found bool, err error) {
	if err := p.write("get", nil, nil); err != nil {
		return false, err
	}
	e := p.engine
	if err := e.enterToRead(); err != nil {
		return false, p.wrap("get", err)
	}
	defer e.leave()
	if !p.trimmed.Less(key) {
		return false, nil
	}
	var at [keyLen]byte
	putKey(at[:], p.slot.part, key)
	value, closer, err := e.db.Get(at[:])
	if errors.Is(err, pebble.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		e.fail(err)
		return false, p.wrap("get", e.failure())
	}
	fn(value)
	return true, closer.Close()
}

// Corrupt says that a value which Scan or Get has given is not one that was put. The store has failed then, as when it finds wrong bytes by itself.
func (p *Partition) Corrupt(err error) error {
	p.engine.fail(fmt.Errorf("%w: %w", ErrCorrupt, err))
	return p.wrap("read", p.engine.failure())
}

func (p *Partition) wrap(what string, err error) error {
	return fmt.Errorf("%s %v: %w", what, p.slot.id, err)
}

package state

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

// spoolTag is that of what an owner lays aside while memory is short, behind what belongs to the counts: number (8).
const spoolTag = 't'

// Spool lays something aside under a number that is new, to be taken back by the same handle. It is not part of what the store holds: a later
// handle drops it with its first batch.
func (p *Partition) Spool(number uint64, value []byte) error {
	return p.write("spool", func(b *pebble.Batch) error {
		return errors.Join(sweep(p, b), b.Set(countsKey(p.slot.part, spoolTag, number), value, nil))
	}, nil)
}

// sweep adds to the first batch of a handle that nothing is left of what earlier ones have laid aside.
func sweep(p *Partition, b *pebble.Batch) error {
	if p.swept {
		return nil
	}
	p.swept = true
	from, to := appendCounts(nil, p.slot.part, spoolTag), appendCounts(nil, p.slot.part, spoolTag+1)
	left := false
	it, err := p.engine.db.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: to})
	if err == nil {
		left = it.First()
		err = errors.Join(it.Error(), it.Close())
	}
	switch {
	case err != nil:
		p.engine.fail(err) // wrong bytes or a bad disk
		return p.engine.failure()
	case left:
		return b.DeleteRange(from, to, nil)
	}
	return nil
}

// Unspool takes it back: fn gets the value, which is valid only until that returns.
func (p *Partition) Unspool(number uint64, fn func(value []byte)) error {
	if err := p.write("unspool", nil, nil); err != nil {
		return err
	}
	e := p.engine
	if err := e.enterToRead(); err != nil {
		return p.wrap("unspool", err)
	}
	defer e.leave()
	key := countsKey(p.slot.part, spoolTag, number)
	value, closer, err := e.db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		err = fmt.Errorf("%w: what was laid aside is not there", ErrCorrupt)
	}
	if err != nil {
		e.fail(err)
		return p.wrap("unspool", e.failure())
	}
	fn(value)
	if err := closer.Close(); err != nil {
		return p.wrap("unspool", err)
	}
	return p.write("unspool", func(b *pebble.Batch) error { return b.Delete(key, nil) }, nil)
}

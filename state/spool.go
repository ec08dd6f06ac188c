package state

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

// spoolTag is that of what an owner lays aside while memory is short, behind what belongs to the counts: number (8).
const spoolTag = 't'

// Spool lays something aside under a number that is new, to be taken back by the same handle. It is not part of what the store holds: a later
// handle drops it.
func (p *Partition) Spool(number uint64, value []byte) error {
	fresh := !p.spooled
	p.spooled = true
	return p.write("spool", func(b *pebble.Batch) error {
		var err error
		if fresh {
			err = b.DeleteRange(appendCounts(nil, p.slot.part, spoolTag), appendCounts(nil, p.slot.part, spoolTag+1), nil)
		}
		return errors.Join(err, b.Set(countsKey(p.slot.part, spoolTag, number), value, nil))
	}, nil)
}

// Unspool takes it back: fn gets the value, which is valid only until that returns.
func (p *Partition) Unspool(number uint64, fn func(value []byte)) error {
	if err := p.write("unspool", nil, nil); err != nil {
		return err
	}
	e := p.engine
	if err := e.enter(); err != nil {
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

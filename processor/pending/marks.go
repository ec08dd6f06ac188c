package pending

import (
	"fmt"

	"github.com/duewheel/duewheel/state"
)

// Checkpoint makes a part without records: a checkpoint that has moved on. Beside a turn
// (at_least_once) it is what the last decision has left: what the turn holds lies above that W, or at
// or above that O, and not below that L.
func (p *Partition) Checkpoint() *Part {
	to := p.done
	if len(p.repeat) == 0 && p.turns == 0 {
		to.Offset = p.position
		if p.queue != nil {
			to.Offset = p.queue.first(p.position)
		} else if len(p.late) > 0 {
			to.Offset = p.late[0].Offset
		}
		p.finish(&to)
	}
	// Otherwise the ledger has given up records that are undecided or to be tried again, so the low
	// water that it knows would leave them behind: that of the last decision stands.
	to.Appended = to.Appended || p.ownEnd > to.Offset
	if to.Offset == p.committed.Offset && to.Watermark == p.committed.Watermark && to.LowWater == p.committed.LowWater {
		return nil
	}
	return &Part{of: p, To: to, held: len(p.held)}
}

// Wrote takes in that a part without records has been written. A turn may have been decided since
// that part was made: then that is the last decision.
func (p *Partition) Wrote(pt *Part) {
	p.written(pt.To, pt.held)
	if pt.To.Offset >= p.done.Offset && !pt.To.Watermark.Less(p.done.Watermark) {
		p.done = pt.To
	}
	if p.turns == 0 && len(p.repeat) == 0 {
		p.planned = p.done
	}
}

// Committed takes in that what was settled last is committed, too.
func (p *Partition) Committed(pt *Part) { p.written(pt.To, len(p.held)) }

// finish fills in what follows from O.
func (p *Partition) finish(to *state.Checkpoint) {
	if p.queue != nil {
		to.LowWater = to.Offset
	} else {
		to.LowWater = max(p.ledger.Low(to.Offset), p.planned.LowWater)
	}
	to.Appended = p.ownEnd > to.Offset
	to.Parsers = append([]state.ParserEpoch(nil), to.Parsers...)
	to.DropParsersBelow(to.LowWater)
}

// written notes that a checkpoint has been committed.
func (p *Partition) written(to state.Checkpoint, releasable int) {
	p.committed = to
	for _, offset := range p.held[:releasable] {
		p.ledger.Release(offset)
	}
	p.held = append(p.held[:0], p.held[releasable:]...)
}

// Settled reports whether the checkpoint says all that has been delivered.
func (p *Partition) Settled() bool {
	return p.turns == 0 && len(p.repeat) == 0 && p.done.Offset == p.committed.Offset && p.done.Watermark == p.committed.Watermark
}

// Counted is how many records are pending by the ledger, which counts nothing of a queue.
func (p *Partition) Counted() int { return p.ledger.Len() }

// trimRecords delivered make a range delete worth its while.
const trimRecords = 100_000

// Tidy deletes from the store, behind the watermark, what was delivered, and writes the position, when
// that is due or worth its while. It reports whether the position was written because it was due.
func (p *Partition) Tidy(due bool) (written bool, err error) {
	if p.store == nil {
		return false, nil
	}
	if p.spent >= trimRecords || p.spent > 0 && due {
		if err := p.Sync(); err != nil {
			return false, err
		}
		if err := p.store.Trim(p.committed.Watermark); err != nil {
			return false, fmt.Errorf("delete delivered records from the store: %w", err)
		}
		p.spent = 0
	}
	if due && p.Far() > 0 {
		return true, p.Flush()
	}
	return false, nil
}

// Flush writes the position to the store, and what it has been told.
func (p *Partition) Flush() error {
	p.dirty = true
	return p.Sync()
}

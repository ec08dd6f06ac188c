package pending

import (
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/state"
)

// Follower is a partition that another replica owns. It takes in the log below the owner's O, so only
// what was accepted, keeps all of it in the local store, and forgets what is at or below W. So it is
// what an owner would inherit that had the partition until then, and the next one has to read only what
// came after.
//
// Invariants: position <= committed.Offset. The ledger counts what the store holds: the records
// from L on that are above W and not resolved; what lies at or above position an owner has left there.
// After each step the store's position is this one. Of what is at or below W the store may hold some that is
// not trimmed yet, and not counted.
type Follower struct {
	p     *Partition
	ahead []*kgo.Record // read, and not accepted by the owner yet
	below               // what it has below L
}

// below says until when a follower keeps what it has below an L: until it has read what O had passed when L was first seen to be above.
type below struct{ low, until int64 }

// Follow makes a follower of a checkpoint, and of what the local store spares it.
func Follow(env Env, c state.Checkpoint, store *state.Partition, got Inherited) (*Follower, error) {
	p, err := New(env, c, Sighting{})
	if err != nil {
		return nil, err
	}
	takeOver(p, store, got)
	p.horizon = state.Key{} // all of it is above that
	return &Follower{p: p}, p.Flush()
}

// Marks returns where it stands.
func (f *Follower) Marks() Marks { return f.p.Marks() }

// Pending is how many records it holds that are not resolved.
func (f *Follower) Pending() int64 { return f.p.Pending() }

// Waiting is how many records wait for the owner to accept them.
func (f *Follower) Waiting() int { return len(f.ahead) }

// Accept takes in a record, or keeps it until the owner has accepted it.
func (f *Follower) Accept(r *kgo.Record) (kept bool, err error) {
	if len(f.ahead) > 0 || r.Offset >= f.p.committed.Offset {
		f.ahead = append(f.ahead, r)
		return true, nil
	}
	return false, f.accept(r)
}

// accept takes in a record below O. What was refused by its owner is passed over, as in every replay, or
// a resolve record follows that says so.
func (f *Follower) accept(r *kgo.Record) error {
	if r.Offset < f.p.committed.LowWater { // what it names lies below L, too
		f.p.Pass(r.Offset+1, r.LeaderEpoch)
		return nil
	}
	_, err := f.p.Accept(r, 0)
	f.p.dirty = true
	return err
}

// Sync writes what was taken in, with the position that belongs to it.
func (f *Follower) Sync() error { return f.p.Sync() }

// Follow takes over the owner's newest checkpoint, and what of the records ahead it covers. It
// reports whether reading has to begin somewhere else.
func (f *Follower) Follow(c state.Checkpoint) (jumped bool, err error) {
	p := f.p
	back := f.leads(c) // it was set back by hand, and may have moved on since
	if err := f.take(c); err != nil {
		return false, err
	}
	if !back {
		if err := f.catchUp(); err != nil {
			return false, err
		}
	}
	if back || f.lingers(c) {
		if err := p.store.Drop(); err != nil {
			return false, err
		}
		p.ledger, p.start, p.position, f.ahead = state.NewLedger(c.LowWater), c.LowWater, c.LowWater, nil
		p.ids, p.identified, f.below = newIDs(), false, below{}
		return true, p.Flush()
	}
	return false, p.Sync()
}

// Advance takes over the owner's last checkpoint, and what of the records ahead it covers, before this replica becomes the owner. Nothing is given up: one that was set back
// is left to that.
func (f *Follower) Advance(c state.Checkpoint) error {
	if f.leads(c) {
		return nil
	}
	if err := f.take(c); err != nil {
		return err
	}
	if err := f.catchUp(); err != nil {
		return err
	}
	return f.p.Sync()
}

// leads reports whether a checkpoint says less than the one that was followed.
func (f *Follower) leads(c state.Checkpoint) bool {
	was := f.p.committed
	return c.Offset < was.Offset || c.Watermark.Less(was.Watermark) || c.LowWater < was.LowWater
}

// take takes over a checkpoint, and forgets what it has resolved.
func (f *Follower) take(c state.Checkpoint) (err error) {
	p := f.p
	if p.parsers, err = parsersOf(p.Route, c); err != nil {
		return err
	}
	if err := f.forget(c.Watermark); err != nil {
		return err
	}
	was := p.committed
	p.dirty = p.dirty || c.Offset != was.Offset || c.Watermark != was.Watermark || c.LowWater != was.LowWater
	p.committed, p.lateUpTo, p.accepted = c, c.Watermark, c.Offset
	p.ledger.Passed(c.Watermark)
	return nil
}

// lingers reports whether the store has something below L whose copy cannot be ahead: it was resolved by what lies below L and is not read, or it was
// read by another parser, as a checkpoint names none that holds below L. A copy that has taken its place lies below O.
func (f *Follower) lingers(c state.Checkpoint) bool {
	first, ok := f.p.ledger.First()
	switch {
	case !ok || first >= c.LowWater:
		f.below = below{}
		return false
	case first >= f.below.low: // what was below that has been read
		f.below = below{c.LowWater, c.Offset}
	}
	return f.p.position >= f.below.until
}

// catchUp takes in what the owner has accepted of the records ahead.
func (f *Follower) catchUp() error {
	n := 0
	for ; n < len(f.ahead) && f.ahead[n].Offset < f.p.committed.Offset; n++ {
		if err := f.accept(f.ahead[n]); err != nil {
			return err
		}
	}
	f.ahead = slices.Delete(f.ahead, 0, n)
	return nil
}

// forget drops what the owner has resolved by moving W.
func (f *Follower) forget(w state.Key) error {
	if !f.p.lateUpTo.Less(w) {
		return nil
	}
	if err := f.p.Sync(); err != nil { // a scan sees what is committed
		return err
	}
	if err := f.uncount(f.p.store, w); err != nil {
		return err
	}
	if err := commitAs(&f.p.window, state.Position.OnTheWay); err != nil { // the stubs of what is trimmed
		return err
	}
	return f.p.store.Trim(w)
}

// uncount takes out of the ledger what the store holds above W and up to another key.
func (f *Follower) uncount(store *state.Partition, upTo state.Key) error {
	p := f.p
	var corrupt error
	err := store.Scan(p.lateUpTo, func(k state.Key, run []byte) bool {
		if upTo.Less(k) {
			return false
		}
		var offset int64
		if offset, corrupt = recordOffset(run); corrupt == nil && p.ledger.Has(offset) {
			stubs{&p.window}.uncount(k, offset, run, true)
			store.Uncount(counted(k, run))
			if stub := p.parsers.leaves(k, run, upTo); stub != (state.Key{}) {
				p.ledger.Remember(offset)
				corrupt = putStub(store, stub, k, run)
				p.dirty, p.identified = true, true
			}
		}
		if corrupt == nil {
			if id := runID(run); id != nil {
				store.DeleteID(id, k)
			}
		}
		return corrupt == nil
	})
	return errors.Join(err, corrupt)
}

// HandOver gives what the follower has counted to the owner to be, as Inherit would from the same
// store, without reading all of it. The store is the owner's by now. It is not ok when the checkpoint
// is not one that could have been followed.
func (f *Follower) HandOver(store *state.Partition, c state.Checkpoint) (got Inherited, ok bool, err error) {
	p := f.p
	pos, used := store.Position()
	switch {
	case !used || pos.Resume != p.position || pos.Offset != p.committed.Offset || pos.Watermark != p.lateUpTo:
		return got, false, nil // another handle has written it
	case p.position < c.LowWater || c.Offset < p.committed.Offset || c.LowWater < p.committed.LowWater || c.Watermark.Less(p.lateUpTo) || c.GivenUp > 0:
		return got, false, nil
	}
	if err := f.uncount(store, c.Watermark); err != nil {
		return got, false, fmt.Errorf("count what is resolved: %w", err)
	}
	if first, some := p.ledger.First(); some && first < c.LowWater {
		return got, false, nil
	}
	if p.identified { // ids in an open batch are not found
		if err := store.Commit(pos.OnTheWay()); err != nil {
			return got, false, fmt.Errorf("keep what is remembered: %w", err)
		}
	}
	return Inherited{ledger: p.ledger, Start: p.position, identified: p.identified, dirty: true, copied: p.copied}, true, nil
}

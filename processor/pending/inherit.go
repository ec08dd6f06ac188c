package pending

import (
	"errors"
	"fmt"

	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
)

// Inherited is what the local store spares a partition that is restored or followed: the log has to
// be read from Start on, and what is pending below it is in the ledger.
type Inherited struct {
	Start  int64 // the log has to be read from here on
	Unused error // why the store was emptied, if it was
	Lagged bool  // because it ended below L: all is read again from there on, with or without it

	ledger     *state.Ledger
	dirty      bool // the store has an open batch
	identified bool // some of what it holds has an id
}

// Pending is how many records it spares.
func (in Inherited) Pending() int { return in.ledger.Len() }

const (
	// forgetAtMost is how many records are deleted from a store one by one before it is cheaper to
	// build it anew. It does not hold for a store that has what the log has lost.
	forgetAtMost = 200_000
	// forgetAtOnce is how many of them are deleted in one batch, which is held in memory.
	forgetAtOnce = 20_000
)

// Inherit looks what the store holds of the records that are pending by a checkpoint, and where the
// log begins and ends. A store that is of no use here is emptied. That may take long: it ends when
// stopped returns an error.
func Inherit(stopped func() error, route *topics.Route, store *state.Partition, c state.Checkpoint, logStart, logEnd int64) (Inherited, error) {
	nothing := Inherited{ledger: state.NewLedger(c.LowWater), Start: c.LowWater}
	ps, err := parsersOf(route, c)
	if err != nil {
		return nothing, err
	}
	pos, ok := store.Position()
	if !ok || pos.Resume < c.LowWater || pos.Resume > logEnd || c.Watermark.Less(pos.Watermark) || pos.Offset > c.Offset {
		if ok {
			nothing.Lagged = pos.Resume < c.LowWater
			nothing.Unused = fmt.Errorf("it resumes at %d with O %d and W %v, and the checkpoint has L %d, O %d and W %v", pos.Resume, pos.Offset, pos.Watermark, c.LowWater, c.Offset, c.Watermark)
		}
		return nothing, store.Drop()
	}
	s := &scan{stopped: stopped, store: store, pos: pos, low: c.LowWater, watermark: c.Watermark, parsers: ps, sole: logStart > c.LowWater}
	// What the store took in before O had passed it may have been read by a parser, or under a
	// configuration, that has never held: it is forgotten and read again. What else it holds from
	// start on is read again, too, gets the same key, and is counted then.
	s.got = Inherited{ledger: state.NewLedger(c.LowWater), Start: max(min(pos.Offset, pos.Resume), c.LowWater)}
	if err := s.run(); err != nil {
		if stopped() != nil || errors.Is(err, state.ErrFailed) && !errors.Is(err, state.ErrCorrupt) {
			return nothing, err
		}
		nothing.Unused = err
		if err := store.Drop(); err != nil {
			return nothing, fmt.Errorf("empty it: %w", err)
		}
		return nothing, nil
	}
	if s.left > 0 { // ids in an open batch are not found
		if err := store.Commit(pos); err != nil {
			return nothing, err
		}
	}
	return s.got, nil
}

// scan walks through what a store holds of a partition.
type scan struct {
	stopped   func() error
	store     *state.Partition
	pos       state.Position
	low       int64 // L
	watermark state.Key
	parsers   parsers
	sole      bool // the log has lost what the store still holds
	got       Inherited
	seen      int
	forgotten int
	left      int
}

func (s *scan) run() error {
	var failed error
	after := s.watermark
	if m := s.parsers.memory(); m > 0 { // what was delivered and is still there has left stubs, or was one that has had its time
		after = state.Key{Due: max(after.Due-m-stubStep, 0)}
		if s.pos.Watermark.Less(after) {
			after = s.pos.Watermark
		}
	}
	err := s.store.Scan(after, func(k state.Key, run []byte) bool {
		if s.seen++; s.seen%1024 == 0 {
			failed = s.stopped()
		}
		if failed == nil {
			failed = s.take(k, run)
		}
		return failed == nil
	})
	if err != nil {
		return err
	}
	return failed
}

func (s *scan) take(k state.Key, run []byte) error {
	var rec Record
	if err := rec.Decode(run); err != nil {
		return err
	}
	at := runIDPlace(run)
	if at != 0 {
		if n := len(rec.id(at)); n == 0 || n > topics.MostID {
			return errNoID
		}
		s.got.identified = true
	}
	resolved, of := !s.watermark.Less(k), leftBy(run)
	switch {
	case resolved:
		if at != 0 {
			s.store.DeleteID(rec.id(at), k)
			s.got.dirty = true
		}
		if rec.Offset < s.low || rec.Offset >= s.got.Start {
			return nil // Trim takes it away
		}
		return s.leave(k, run)
	case s.watermark.Less(of): // what a turn was to deliver that has not happened
		s.store.DeleteID(rec.id(at), k)
		return s.forget(k)
	case rec.Offset < s.low, rec.Offset >= s.pos.Offset:
		// Below L it was resolved while the route had a fixed delay, which leaves W alone.
		if at != 0 {
			s.store.DeleteID(rec.id(at), k)
		}
		return s.forget(k)
	case rec.Offset < s.got.Start && of != (state.Key{}):
		if !s.got.ledger.Has(rec.Offset) {
			s.got.ledger.Remember(rec.Offset)
		}
	case rec.Offset < s.got.Start:
		s.got.ledger.Add(k, rec.Offset, len(run), true)
	}
	return nil
}

// leave keeps the stub of a record that was delivered: the store may have failed before it was written.
func (s *scan) leave(k state.Key, run []byte) error {
	stub := s.parsers.leaves(k, run, s.watermark)
	if stub == (state.Key{}) {
		return nil
	}
	s.got.ledger.Remember(k.Seq)
	s.got.dirty = true
	if err := putStub(s.store, stub, k, run); err != nil {
		return err
	}
	if s.left++; s.left%forgetAtOnce > 0 {
		return nil
	}
	return s.store.Commit(s.pos)
}

// forget deletes a record. The position stays what it is: reading starts below what is deleted.
func (s *scan) forget(k state.Key) error {
	if s.forgotten++; s.forgotten > forgetAtMost && !s.sole {
		return errors.New("most of what it holds was never accepted")
	}
	s.got.dirty = true
	if err := s.store.Delete(k); err != nil || s.forgotten%forgetAtOnce > 0 {
		return err
	}
	return s.store.Commit(s.pos)
}

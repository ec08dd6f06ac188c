package pending

import (
	"errors"
	"fmt"
	"math"

	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
)

// Inherited is what the local store spares a partition that is restored or followed: the log has to
// be read from Start on, and what is pending below it is in the ledger. So is what the store holds below L, until what has
// moved or resolved it has been read.
type Inherited struct {
	Start  int64 // the log has to be read from here on
	Unused error // why the store was emptied, if it was
	Lagged bool  // because it resumes below L: all is read again from there on, with or without it
	Leads  bool  // because it bears a later checkpoint, that was committed: what the group says now was set back, or its brokers have lost what it said

	ledger     *state.Ledger
	dirty      bool // the store is to write: what is not counted any more may be in its open batch, and its position may be one on the way
	identified bool // some of what it holds has an id
	copied     span // the seqs of copies
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

// Fits reports whether a store with such a position may be brought to a checkpoint. One that was written before something was given up would keep that
// position, which a later checkpoint may fit, and lose what lies below the new L. All is read again from there on anyway.
func Fits(pos state.Position, c state.Checkpoint) bool {
	return !c.Watermark.Less(pos.Watermark) && pos.Offset <= c.Offset && pos.LowWater <= c.LowWater && pos.LowWater >= c.GivenUp
}

// Inherit looks what the store holds of the records that are pending by a checkpoint, and where the
// log begins and ends. A store that is of no use here is emptied. That may take long: it ends when
// stopped returns an error.
func Inherit(stopped func() error, route *topics.Route, store *state.Partition, c state.Checkpoint, logStart, logEnd int64) (Inherited, error) {
	return inherit(stopped, route, store, c, logStart, logEnd, forgetAtMost)
}

func inherit(stopped func() error, route *topics.Route, store *state.Partition, c state.Checkpoint, logStart, logEnd int64, most int) (Inherited, error) {
	nothing := Inherited{ledger: state.NewLedger(c.LowWater), Start: c.LowWater}
	ps, err := parsersOf(route, c)
	if err != nil {
		return nothing, err
	}
	pos, ok := store.Position()
	if !ok || pos.Resume > logEnd || !Fits(pos, c) {
		if ok {
			nothing.Leads = Leads(pos, c)
			nothing.Unused = fmt.Errorf("it resumes at %d with L %d, O %d and W %v, and the checkpoint has L %d, O %d and W %v", pos.Resume, pos.LowWater, pos.Offset, pos.Watermark, c.LowWater, c.Offset, c.Watermark)
		}
		return nothing, store.Drop()
	}
	s := &bringing{stopped: stopped, store: store, pos: pos, c: c, begins: logStart, parsers: ps}
	if logStart > c.LowWater {
		most = math.MaxInt // the log has lost what the store still holds
	}
	got, err := s.run(most)
	switch {
	case err == nil:
		return got, nil
	case stopped() != nil, errors.Is(err, state.ErrFailed) && !errors.Is(err, state.ErrCorrupt):
		return nothing, err
	}
	nothing.Unused, nothing.Lagged = err, errors.Is(err, errLags)
	if err := store.Drop(); err != nil {
		return nothing, fmt.Errorf("empty it: %w", err)
	}
	return nothing, nil
}

// Leads reports whether a store bears a later checkpoint than the group tells, which nobody has set back.
func Leads(pos state.Position, c state.Checkpoint) bool {
	return pos.IsCheckpoint() && c.GivenUp == 0 && (pos.Offset > c.Offset || c.Watermark.Less(pos.Watermark))
}

// bringing brings what a store counts from its own position to a checkpoint. It looks at what has changed in between, and not at what is
// pending.
type bringing struct {
	stopped func() error
	store   *state.Partition
	counts  *state.Counts
	pos     state.Position
	c       state.Checkpoint
	begins  int64 // the log
	parsers parsers
	start   int64
	copies  bool // of what had left stubs below L: they leave them where they lie, and are to be read again; or two of one record
	seen    int
	changed int
}

// run is all of it. It fails if there is more to forget than most.
func (s *bringing) run(most int) (got Inherited, err error) {
	if s.counts, err = s.store.Counts(); err != nil {
		return got, err
	}
	s.start = max(min(s.pos.Offset, s.pos.Resume), s.c.LowWater)
	if s.begins > s.c.LowWater { // what lies below cannot be read
		s.start = max(s.start, s.begins)
	}
	for _, step := range []func() error{s.reaches, func() error { return s.forgetAbove(most) }, s.resolve, s.forgetStubsBelow, s.forgetEarly} {
		if err := step(); err != nil {
			return got, err
		}
	}
	if s.copies || s.c.GivenUp > 0 { // what has named that is read again
		s.start = min(s.start, max(s.c.LowWater, s.begins)) // with copies that the log has lost it has lost what they left
	}
	if s.changed > 0 { // ids in an open batch are not found
		if err := s.store.Commit(s.pos.OnTheWay()); err != nil {
			return got, err
		}
	}
	return Inherited{ledger: s.counts.Ledger(s.c.LowWater), Start: s.start, identified: s.counts.Identified(), copied: copiesIn(s.counts)}, nil
}

// errLags: what a store spares is not worth what it costs to take out the rest.
var errLags = errors.New("most of what it holds lies below L, or is read again otherwise")

// reaches returns an error if the store resumes below L, so that all is read again, and the smaller part of what it holds is good: each of the others
// would have to be replaced or taken out.
func (s *bringing) reaches() error {
	if s.pos.Resume >= s.c.LowWater {
		return nil
	}
	good := s.below(max(s.pos.Offset, s.c.LowWater)) - s.below(s.c.LowWater)
	if good > 0 && 2*good >= s.counts.Len() {
		return nil
	}
	return fmt.Errorf("it resumes at %d with O %d, and the checkpoint has L %d: %w", s.pos.Resume, s.pos.Offset, s.c.LowWater, errLags)
}

// below is how much is counted below an offset.
func (s *bringing) below(offset int64) int {
	return s.counts.Below(offset, false) + s.counts.Below(offset, true)
}

// forgetAbove forgets what the store took in before O had passed it. It may have been read by a parser, or under a configuration, that has
// never held, and is read again. What else is read again gets the same key, and is counted already.
func (s *bringing) forgetAbove(most int) error {
	above, ok, err := s.store.Above(most)
	if err == nil && !ok {
		err = errors.New("most of what it holds was never accepted")
	}
	for _, x := range above {
		if err != nil {
			return err
		}
		if was, is := s.original(x); is {
			err = s.restore(x, was)
		} else {
			err = s.forget(x)
		}
	}
	return err
}

// original is the run of a pending record where it was copied from, if its copy is to be read again and that is not: the store has taken the copy
// in before O had passed it.
func (s *bringing) original(x state.Counted) (was []byte, is bool) {
	if !s.c.Watermark.Less(x.Key) {
		return nil, false // the copy will leave its stub
	}
	_, wrong, err := getRun(s.store, x.Key, func(run []byte) {
		of, copied := copiedFrom(run)
		if copied = copied && !isStub(run) && counted(x.Key, run).Offset == x.Offset; copied && of.seq < s.start && of.from >= s.start {
			s.copies = true // it was carried twice since, and where it lay before the first of these copies is not told
		}
		if is = copied && of.from >= s.c.LowWater && of.from < s.start; is {
			was = moved(nil, run, of.from, of)
		}
	})
	return was, is && err == nil && wrong == nil
}

// restore has the store hold a record where it was copied from.
func (s *bringing) restore(x state.Counted, was []byte) error {
	s.store.Uncount(x)
	s.store.Count(counted(x.Key, was))
	return errors.Join(s.store.Put(x.Key, was), s.change())
}

// resolve takes out what W has passed since.
func (s *bringing) resolve() error {
	return s.scan(s.pos.Watermark, func(x state.Counted, run []byte) (bool, error) {
		if s.c.Watermark.Less(x.Key) {
			return false, nil
		}
		s.store.Uncount(x)
		if id := runID(run); id != nil {
			s.store.DeleteID(id, x.Key)
		}
		switch below := x.Offset < s.c.LowWater; {
		case below && s.parsers.leaves(x.Key, run, s.c.Watermark) != (state.Key{}):
			s.copies = true
		case !below && x.Offset < s.start && !s.counts.Has(x.Offset, true):
			if stub := s.parsers.leaves(x.Key, run, s.c.Watermark); stub != (state.Key{}) {
				if err := putStub(s.store, stub, x.Key, run); err != nil {
					return false, err
				}
			}
		}
		return true, s.change()
	})
}

// forgetStubsBelow forgets what lies below L if stubs do: these do not move, and the copy of a record would find one that it has left
// in the place of another.
func (s *bringing) forgetStubsBelow() error {
	if s.counts.Below(s.c.LowWater, true) == 0 {
		return nil
	}
	below := s.below(s.c.LowWater)
	return s.scan(s.c.Watermark, func(x state.Counted, _ []byte) (bool, error) {
		if x.Offset >= s.c.LowWater {
			return true, nil
		}
		below--
		s.copies = s.copies || x.Stub
		return below > 0, s.forget(x)
	})
}

// forgetEarly forgets the stubs of what turns were to deliver that have not happened: their records are pending still, and the first of them.
func (s *bringing) forgetEarly() error {
	both := map[int64]struct{}{}
	for _, offset := range s.counts.Both() {
		both[offset] = struct{}{}
	}
	if len(both) == 0 {
		return nil
	}
	return s.scan(s.c.Watermark, func(x state.Counted, _ []byte) (bool, error) {
		if _, is := both[x.Offset]; !is || x.Stub {
			return true, nil
		}
		delete(both, x.Offset)
		stub := state.Counted{Key: s.parsers.stubOf(x.Key), Offset: x.Offset, Stub: true}
		return len(both) > 0, s.forget(stub)
	})
}

// scan calls fn for what the store holds above a key, until that says otherwise.
func (s *bringing) scan(after state.Key, fn func(x state.Counted, run []byte) (more bool, err error)) error {
	var failed error
	err := s.store.Scan(after, func(k state.Key, run []byte) (more bool) {
		var rec Record
		if failed = valid(&rec, run); failed != nil {
			return false
		}
		if s.seen++; s.seen%1024 == 0 {
			if failed = s.stopped(); failed != nil {
				return false
			}
		}
		more, failed = fn(counted(k, run), run)
		return more && failed == nil
	})
	return errors.Join(err, failed)
}

// forget deletes a record, or a stub.
func (s *bringing) forget(x state.Counted) error {
	if _, wrong, err := getRun(s.store, x.Key, func(run []byte) {
		if id := runID(run); id != nil {
			s.store.DeleteID(id, x.Key)
		}
	}); err != nil || wrong != nil {
		return errors.Join(err, wrong)
	}
	s.store.Uncount(x)
	s.store.Delete(x.Key)
	return s.change()
}

// change writes now and then what has changed. The position stays what it is: reading starts below what is deleted.
func (s *bringing) change() error {
	if s.changed++; s.changed%forgetAtOnce > 0 {
		return nil
	}
	return errors.Join(s.stopped(), s.store.Commit(s.pos.OnTheWay()))
}

func copiesIn(c *state.Counts) (s span) {
	s.first, s.last, s.seen = c.Copies()
	return s
}

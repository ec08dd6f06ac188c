package processor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
)

// standby is a second copy of what is pending in a partition that another replica owns. It reads
// the log into the local store and follows the owner's checkpoints: it takes in what lies below O,
// so only what was accepted, and forgets what is at or below W. So it is what a lane would inherit
// that had owned the partition until then, and who takes over has to read only what came after.
//
// It writes nothing to Kafka. It is guarded by standbys.mu.
//
// Invariants: position <= committed.Offset. The ledger counts what the store holds: the records
// from L to position that are above W and not resolved. After each step the store's position is
// this one. Of what a lane has left there the store may hold more, which is not counted: what lies
// at or above position, until it is read again, and what is at or below W and not trimmed yet.
type standby struct {
	tp    topicPartition
	id    topicID
	mark  topics.Mark
	route *topics.Route
	log   *slog.Logger
	store *state.Partition

	committed state.Checkpoint // as last followed
	parsers   parsers
	ledger    *state.Ledger
	position  int64         // the next offset to be taken in
	ahead     []*kgo.Record // read, and not accepted by the owner yet
	dirty     bool          // position or the open batch has changed since the last commit
	scratch   []byte
}

// open makes a standby of what the local store holds, and of a checkpoint. It may take long, so
// it is called before any other goroutine knows the standby.
func (s *standby) open(ctx context.Context, c state.Checkpoint, logStart int64) (err error) {
	if c.LowWater < logStart {
		return fmt.Errorf("%w: it begins at %d, and %d is needed; what the local store holds is left alone", ErrLogTruncated, logStart, c.LowWater)
	}
	if s.parsers, err = parsersOf(s.route, c); err != nil {
		return err
	}
	got, err := inherit(ctx, s.store, c, logStart, math.MaxInt64, s.log)
	if err != nil {
		return err
	}
	s.committed, s.ledger, s.position, s.dirty = c, got.ledger, got.start, true
	return s.sync()
}

// follow takes over the owner's newest checkpoint, and what of the records ahead it covers. It
// reports whether reading has to begin somewhere else.
func (s *standby) follow(c state.Checkpoint) (jumped bool, err error) {
	if s.parsers, err = parsersOf(s.route, c); err != nil {
		return false, err
	}
	if err := s.forget(c.Watermark); err != nil {
		return false, err
	}
	back := c.Offset < s.committed.Offset || c.Watermark.Less(s.committed.Watermark) // it was set back by hand
	s.dirty = s.dirty || c.Watermark != s.committed.Watermark || c.LowWater != s.committed.LowWater
	s.committed = c
	if !back { // before L is looked at: it mostly lies below what has been read already
		if err := s.catchUp(); err != nil {
			return false, err
		}
	}
	settled := c.LowWater == c.Offset && s.ledger.Len() > 0 // resolved by what lies ahead, or a fixed delay
	if back || settled || s.position < c.LowWater {
		// What is passed over may have resolved what the store holds.
		if err := s.store.Drop(); err != nil {
			return false, err
		}
		s.ledger, s.position, s.ahead, s.dirty = state.NewLedger(c.LowWater), c.LowWater, nil, true
		return true, s.sync()
	}
	return false, s.sync()
}

// catchUp takes in what the owner has accepted of the records ahead.
func (s *standby) catchUp() error {
	n := 0
	for ; n < len(s.ahead) && s.ahead[n].Offset < s.committed.Offset; n++ {
		if err := s.accept(s.ahead[n]); err != nil {
			return err
		}
	}
	s.ahead = slices.Delete(s.ahead, 0, n)
	return nil
}

// read takes in what was read, or keeps it until the owner has accepted it.
func (s *standby) read(rs []*kgo.Record) error {
	for _, r := range rs {
		if len(s.ahead) > 0 || r.Offset >= s.committed.Offset {
			s.ahead = append(s.ahead, r)
			continue
		}
		if err := s.accept(r); err != nil {
			return err
		}
		r.Recycle()
	}
	return s.sync()
}

// accept takes in a record below O. The position moves behind it when all that it does is in the
// open batch: a commit on the way must not say that it was taken in.
func (s *standby) accept(r *kgo.Record) error {
	if r.Offset < s.position {
		return nil
	}
	if err := s.take(r); err != nil {
		return err
	}
	s.position, s.dirty = r.Offset+1, true
	return nil
}

// take does what a record asks for. What was refused by its owner is passed over, or a resolve
// record follows that says so.
func (s *standby) take(r *kgo.Record) error {
	if r.Attrs.IsControl() {
		return nil
	}
	req, err := s.parsers.at(r.Offset).Parse(r.Headers, r.Timestamp.UnixMilli(), r.Offset, s.mark)
	if err != nil {
		return nil // resolved when O passed it
	}
	switch req.Kind {
	case topics.KindOfAnotherGroup:
		return nil
	case topics.KindResolve:
		return s.resolve(state.Key{Due: req.ResolveDue, Seq: req.ResolveSeq})
	}
	key := state.Key{Due: req.Due, Seq: r.Offset}
	if !s.committed.Watermark.Less(key) {
		return nil
	}
	s.scratch = appendRecord(s.scratch[:0], r)
	if err := s.store.Put(key, s.scratch); err != nil {
		return err
	}
	s.ledger.Add(key, r.Offset, len(s.scratch), true)
	return nil
}

// resolve forgets one record.
func (s *standby) resolve(key state.Key) error {
	if !s.committed.Watermark.Less(key) {
		return nil
	}
	if err := s.sync(); err != nil { // a scan sees what is committed
		return err
	}
	held := false
	var corrupt error
	err := s.store.Scan(state.Key{Due: key.Due, Seq: key.Seq - 1}, func(k state.Key, run []byte) bool {
		if held = k == key; held {
			corrupt = s.uncount(k, run)
		}
		return false
	})
	if err = errors.Join(err, corrupt); err != nil || !held {
		return err
	}
	return s.store.Delete(key)
}

// forget drops what the owner has resolved by moving W.
func (s *standby) forget(w state.Key) error {
	if !s.committed.Watermark.Less(w) {
		return nil
	}
	if err := s.sync(); err != nil {
		return err
	}
	if err := s.uncountUpTo(s.store, w); err != nil {
		return err
	}
	return s.store.Trim(w)
}

func (s *standby) uncount(k state.Key, run []byte) error {
	offset, err := recordOffset(run)
	if err == nil && offset < s.position {
		s.ledger.Remove(k, offset, len(run), true)
	}
	return err
}

// uncountUpTo takes out of the ledger what the store holds above W and up to another key.
func (s *standby) uncountUpTo(store *state.Partition, upTo state.Key) error {
	var corrupt error
	err := store.Scan(s.committed.Watermark, func(k state.Key, run []byte) bool {
		if upTo.Less(k) {
			return false
		}
		corrupt = s.uncount(k, run)
		return corrupt == nil
	})
	return errors.Join(err, corrupt)
}

// sync writes what was taken in, with the position that belongs to it.
func (s *standby) sync() error {
	if !s.dirty {
		return nil
	}
	s.dirty = false
	return s.store.Commit(state.Position{Resume: s.position, Offset: s.position, Watermark: s.committed.Watermark, LowWater: s.committed.LowWater})
}

// handOver gives what the standby has counted to the lane that takes over, as inherit would from
// the same store, without reading all of it. The store is the lane's by now. It is not ok when the
// checkpoint is not one that the standby could have followed.
func (s *standby) handOver(store *state.Partition, c state.Checkpoint) (got inherited, ok bool, err error) {
	pos, used := store.Position()
	switch {
	case !used || pos.Resume != s.position || pos.Offset != s.position || pos.Watermark != s.committed.Watermark:
		return got, false, nil // another handle has written it
	case s.position < c.LowWater || c.Offset < s.committed.Offset || c.Watermark.Less(s.committed.Watermark):
		return got, false, nil
	}
	if err := s.uncountUpTo(store, c.Watermark); err != nil {
		return got, false, fmt.Errorf("count what is resolved: %w", err)
	}
	if c.LowWater == c.Offset && s.ledger.Len() > 0 {
		return got, false, nil
	}
	return inherited{ledger: s.ledger, start: s.position}, true, nil
}

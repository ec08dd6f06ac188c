package processor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/duewheel/duewheel/state"
)

// inherited is what the local store spares a partition that is restored or followed: the log has to
// be read from start on, and what is pending below it is in the ledger.
type inherited struct {
	ledger *state.Ledger
	start  int64
	dirty  bool // the store has an open batch
}

const (
	// forgetAtMost is how many records are deleted from a store one by one before it is cheaper to
	// build it anew. It does not hold for a store that has what the log has lost.
	forgetAtMost = 200_000
	// forgetAtOnce is how many of them are deleted in one batch, which is held in memory.
	forgetAtOnce = 20_000
)

// inherit looks what the store holds of the records that are pending by a checkpoint, and where the
// log begins and ends. A store that is of no use here is emptied.
func inherit(ctx context.Context, store *state.Partition, c state.Checkpoint, logStart, logEnd int64, log *slog.Logger) (inherited, error) {
	nothing := inherited{ledger: state.NewLedger(c.LowWater), start: c.LowWater}
	pos, ok := store.Position()
	if !ok || pos.Resume < c.LowWater || pos.Resume > logEnd || c.Watermark.Less(pos.Watermark) || pos.Offset > c.Offset {
		if ok {
			level := slog.LevelInfo
			if pos.Resume < c.LowWater {
				level = slog.LevelDebug // all is read again from L on, with or without it
			}
			log.Log(ctx, level, "the local store is of no use here; rebuilding from the log", "resume", pos.Resume, "low_water", c.LowWater)
		}
		return nothing, store.Drop()
	}
	s := &scan{store: store, pos: pos, low: c.LowWater, sole: logStart > c.LowWater}
	// What the store took in before O had passed it may have been read by a parser, or under a
	// configuration, that has never held: it is forgotten and read again. What else it holds from
	// start on is read again, too, gets the same key, and is counted then.
	s.got = inherited{ledger: state.NewLedger(c.LowWater), start: max(min(pos.Offset, pos.Resume), c.LowWater)}
	if err := s.run(ctx, c.Watermark); err != nil {
		if ctx.Err() != nil || errors.Is(err, state.ErrFailed) && !errors.Is(err, state.ErrCorrupt) {
			return nothing, err
		}
		log.Warn("the local store cannot be used for a partition; rebuilding that from the log", "error", err)
		if err := store.Drop(); err != nil {
			return nothing, fmt.Errorf("empty it: %w", err)
		}
		return nothing, nil
	}
	return s.got, nil
}

// scan walks through what a store holds of a partition.
type scan struct {
	store     *state.Partition
	pos       state.Position
	low       int64 // L
	sole      bool  // the log has lost what the store still holds
	got       inherited
	seen      int
	forgotten int
}

func (s *scan) run(ctx context.Context, after state.Key) error {
	var stopped error
	err := s.store.Scan(after, func(k state.Key, run []byte) bool {
		if s.seen++; s.seen%1024 == 0 && ctx.Err() != nil { // it is not wanted any more
			stopped = ctx.Err()
		} else {
			stopped = s.take(k, run)
		}
		return stopped == nil
	})
	if err != nil {
		return err
	}
	return stopped
}

func (s *scan) take(k state.Key, run []byte) error {
	var rec record
	if err := decodeRecord(run, &rec); err != nil {
		return err
	}
	switch {
	case rec.offset < s.low, rec.offset >= s.pos.Offset:
		// Below L it was resolved while the route had a fixed delay, which leaves W alone.
		return s.forget(k)
	case rec.offset < s.got.start:
		s.got.ledger.Add(k, rec.offset, len(run), true)
	}
	return nil
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

package processor

import (
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

// forgetAtMost is how many records are deleted from a store one by one before it is cheaper, and
// takes less memory, to build it anew.
const forgetAtMost = 200_000

// inherit looks what the store holds of the records that are pending by a checkpoint. A store that
// is of no use here is emptied.
func inherit(store *state.Partition, c state.Checkpoint, logEnd int64, log *slog.Logger) (inherited, error) {
	nothing := inherited{ledger: state.NewLedger(c.LowWater), start: c.LowWater}
	pos, ok := store.Position()
	if !ok || pos.Resume < c.LowWater || pos.Resume > logEnd || c.Watermark.Less(pos.Watermark) || pos.Offset > c.Offset {
		if ok {
			log.Info("local store is of no use here; rebuilding from the log", "resume", pos.Resume, "low_water", c.LowWater)
		}
		return nothing, store.Drop()
	}
	// What the store took in before O had passed it may have been read by a parser, or under a
	// configuration, that has never held: it is forgotten and read again. What else it holds from
	// start on is read again, too, gets the same key, and is counted then.
	got := inherited{ledger: state.NewLedger(c.LowWater), start: max(min(pos.Offset, pos.Resume), c.LowWater)}
	var corrupt error
	forgotten := 0
	err := store.Scan(c.Watermark, func(k state.Key, run []byte) bool {
		var rec record
		if corrupt = decodeRecord(run, &rec); corrupt != nil {
			return false
		}
		switch {
		case rec.offset < c.LowWater, rec.offset >= pos.Offset:
			// Below L it was resolved while the route had a fixed delay, which leaves W alone.
			if forgotten++; forgotten > forgetAtMost {
				corrupt = errors.New("most of what it holds was never accepted")
				return false
			}
			got.dirty = true
			return store.Delete(k) == nil
		case rec.offset < got.start:
			got.ledger.Add(k, rec.offset, len(run), true)
		}
		return true
	})
	if err = errors.Join(err, corrupt); err != nil {
		log.Warn("local store cannot be used; rebuilding from the log", "error", err)
		if err := store.Drop(); err != nil {
			return nothing, fmt.Errorf("empty it: %w", err)
		}
		return nothing, nil
	}
	return got, nil
}

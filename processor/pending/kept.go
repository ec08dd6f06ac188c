package pending

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/wheel"
)

// keep makes a record pending, which goes to a target with a number: in memory up to the horizon, in the store above it.
func (w *window) keep(r *kgo.Record, key state.Key, who identity, to number) error {
	written := r.Timestamp.UnixMilli()
	w.longest.see(key.Due, written)
	if w.ledger.Has(r.Offset) { // only what the store holds can be known before it is read
		if held, err := w.keepAgain(r, key, who, to); held || err != nil {
			return err
		}
	}
	if w.horizon.Less(key) {
		w.scratch = appendRecord(w.scratch[:0], r, who.at)
		return w.keepFar(key, r.Offset, w.scratch, who, written)
	}
	if who.id != nil {
		w.ids.add(who.id, indexEntry{key: key, written: written})
	}
	run := w.near.record(r, key, who.at).to(to)
	w.pend(key, r.Offset, weight(w.near.get(run)), run)
	return nil
}

// keepAgain is keep for a record that the store may hold, and the ledger count already: it is read again because of others. If what the store
// holds is the stub of the record, a turn was to deliver that and did not.
func (w *window) keepAgain(r *kgo.Record, key state.Key, who identity, to number) (held bool, err error) {
	counts, err := w.store.Counts()
	switch {
	case err != nil:
		return false, err
	case counts.Has(r.Offset, false):
		if !w.horizon.Less(key) {
			w.wheel.Add(wheel.Tick(key.Due), key.Seq, uint64(w.near.record(r, key, who.at).to(to)|storedBit))
		}
		return true, nil
	}
	stubs{w}.deleteEarly(key, r.Offset, who.id)
	return false, nil
}

// deleteEarly deletes the stub of a record that lies at an offset and was not delivered.
func (w stubs) deleteEarly(key state.Key, offset int64, id []byte) {
	stub := w.parsers.stubOf(key)
	w.ledger.Expire(offset)
	w.store.Uncount(state.Counted{Key: stub, Offset: offset, Stub: true})
	w.store.DeleteID(id, stub)
	w.store.Delete(stub)
	w.dirty = true
}

// keepFar makes a record pending whose key is above the horizon.
func (w *window) keepFar(key state.Key, offset int64, run []byte, who identity, written int64) error {
	if err := w.put(run, who.id, indexEntry{key: key, written: written}, false); err != nil {
		return fmt.Errorf("store record %d: %w", offset, err)
	}
	w.ledger.Add(key, offset, weight(run), true)
	beyond{w}.add(key.Seq, offset)
	scouting{w}.takeIn(key, run)
	return nil
}

// pend keeps a record that is to be delivered later.
func (w *window) pend(key state.Key, offset int64, bytes int, r ref) {
	w.wheel.Add(wheel.Tick(key.Due), key.Seq, uint64(r))
	w.ledger.Add(key, offset, bytes, r.stored())
}

// Sync writes what the store's open batch holds, with the position that belongs to it.
func (w *window) Sync() error {
	if err := w.drops.apply(w); err != nil {
		return err
	}
	return w.commit()
}

func (w *window) commit() error {
	return commitAs(w, func(pos state.Position) state.Position { return pos })
}

// commitAs is commit where the position is to say something else of what is in the store.
func commitAs(w *window, as func(state.Position) state.Position) error {
	w.ids.absent = nil
	if !w.dirty {
		return nil
	}
	w.dirty = false
	if err := w.store.Commit(as(resting(w))); err != nil {
		return err
	}
	w.forgetDeleted()
	if !w.deciding {
		w.ids.written()
	}
	return nil
}

// resting is the position that belongs to what the store has been told. It bears no checkpoint that says that something was given up: a position
// cannot say so, and who goes on from it would pass over the copies of that.
func resting(w *window) state.Position {
	pos := state.Position{
		Resume:    w.drops.resume(w.ledger.Resume(w.position)),
		Offset:    w.committed.Offset,
		Epoch:     w.committed.Epoch,
		Watermark: w.committed.Watermark,
		LowWater:  w.committed.LowWater,
		Parsers:   state.ParserList(w.committed.Parsers),
	}
	if w.committed.GivenUp > 0 {
		return pos.OnTheWay()
	}
	return pos
}

// trimRecords delivered make a range delete worth its while.
const trimRecords = 100_000

// Tidy deletes from the store, behind the watermark, what was delivered, when that is due or worth its while, and writes the position, when that is
// due and says something new: also where the store holds nothing, since it is the way on when the group's offsets have expired.
func (w *window) Tidy(due bool) error {
	if w.store == nil {
		return nil
	}
	if w.spent >= trimRecords || w.spent > 0 && due {
		if err := w.Flush(); err != nil { // what is trimmed is not counted any more, and lies behind the W of the position
			return err
		}
		if err := w.store.Trim(w.committed.Watermark); err != nil {
			return fmt.Errorf("delete delivered records from the store: %w", err)
		}
		w.spent = 0
	}
	if !due {
		return nil
	}
	if pos, _ := w.store.Position(); pos == resting(w) && !w.dirty {
		return nil
	}
	return w.Flush()
}

// uncountPassed has the store's next batch say that what W has passed is not counted any more.
func (w *window) uncountPassed() {
	n := 0
	for ; n < len(w.passed) && !w.committed.Watermark.Less(w.passed[n].Key); n++ {
		w.store.Uncount(w.passed[n])
	}
	w.passed = append(w.passed[:0], w.passed[n:]...)
}

// Flush writes the position to the store, and what it has been told.
func (w *window) Flush() error {
	w.dirty = true
	return w.Sync()
}

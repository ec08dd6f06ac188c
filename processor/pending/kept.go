package pending

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/wheel"
)

// keep makes a record pending: in memory up to the horizon, in the store above it.
func (w *window) keep(r *kgo.Record, key state.Key) error {
	w.longest.see(key.Due, r.Timestamp.UnixMilli())
	if !w.horizon.Less(key) {
		run := w.near.record(r, key)
		w.pend(key, r.Offset, len(w.near.get(run)), run)
		return nil
	}
	w.scratch = AppendRecord(w.scratch[:0], r)
	if w.store != nil { // else the log has it
		if err := w.store.Put(key, w.scratch); err != nil {
			return fmt.Errorf("store record %d: %w", r.Offset, err)
		}
		w.dirty = true
	}
	w.ledger.Add(key, r.Offset, len(w.scratch), true)
	return nil
}

// pend keeps a record that is to be delivered later.
func (w *window) pend(key state.Key, offset int64, bytes int, r ref) {
	w.wheel.Add(wheel.Tick(key.Due), key.Seq, uint64(r))
	w.ledger.Add(key, offset, bytes, r.stored())
}

// takeDue moves what is due into items, at most records and about bytes of it, and returns them
// with the bytes that they take. What is moved no longer counts as pending.
func (w *window) takeDue(now int64, items []Item, records int, bytes int64) ([]Item, int64) {
	var took int64
	var buf [256]wheel.Entry
	for records > 0 && took < bytes {
		n := min(records, len(buf))
		if each := w.ledger.Bytes() / int64(max(w.ledger.Len(), 1)); each > 0 {
			n = int(min(int64(n), (bytes-took)/each+1))
		}
		got := w.wheel.Take(wheel.Tick(now), buf[:0], n)
		w.near.touch(got)
		for _, e := range got {
			r := ref(e.Ref)
			run := w.near.get(r)
			offset, err := recordOffset(run)
			if err != nil {
				panic("pending: BUG: " + err.Error())
			}
			it := Item{ref: r, Run: run, Key: state.Key{Due: int64(e.Due), Seq: e.Seq}, Offset: offset, stored: r.stored()}
			// Not pending any more. What only memory holds goes on holding the store's resume
			// back, until it is released.
			w.ledger.Remove(it.Key, offset, len(run), true)
			items = append(items, it)
			took += int64(len(run))
		}
		records -= len(got)
		if len(got) < n {
			break
		}
	}
	return items, took
}

// drop takes a record away for good: what it names is not pending any more.
func (w *window) drop(key state.Key) error {
	if !w.judge.Less(key) {
		return nil
	}
	u, near := w.wheel.Remove(wheel.Tick(key.Due), key.Seq)
	if near {
		r := ref(u)
		run := w.near.get(r)
		offset, err := recordOffset(run)
		if err != nil {
			return fmt.Errorf("resolve a record: %w", err)
		}
		w.ledger.Remove(key, offset, len(run), r.stored())
		w.near.release(r)
	}
	if w.store == nil {
		return nil
	}
	if far := w.horizon.Less(key); !near && (far || !w.live) {
		// Before it is live, what the store holds below start is not in the wheel either.
		if err := w.Sync(); err != nil {
			return err
		}
		_, err := w.store.Get(key, func(run []byte) {
			if offset, err := recordOffset(run); err == nil && (offset < w.start || far && offset < w.position) {
				w.ledger.Remove(key, offset, len(run), true)
			}
		})
		if err != nil {
			return fmt.Errorf("look for a resolved record in the store: %w", err)
		}
	}
	// The store may hold it from an earlier life even when it was in the wheel.
	w.dirty = true
	return w.store.Delete(key)
}

// Sync writes what the store's open batch holds, with the position that belongs to it.
func (w *window) Sync() error {
	if !w.dirty {
		return nil
	}
	w.dirty = false
	return w.store.Commit(state.Position{
		Resume:    w.ledger.Resume(w.position),
		Offset:    w.committed.Offset,
		Watermark: w.committed.Watermark,
		LowWater:  w.committed.LowWater,
	})
}

// trimRecords delivered make a range delete worth its while.
const trimRecords = 100_000

// Tidy deletes from the store, behind the watermark, what was delivered, and writes the position, when
// that is due or worth its while. It reports whether the position was written because it was due.
func (w *window) Tidy(due bool) (written bool, err error) {
	if w.store == nil {
		return false, nil
	}
	if w.spent >= trimRecords || w.spent > 0 && due {
		if err := w.Sync(); err != nil {
			return false, err
		}
		if err := w.store.Trim(w.committed.Watermark); err != nil {
			return false, fmt.Errorf("delete delivered records from the store: %w", err)
		}
		w.spent = 0
	}
	if due && w.Far() > 0 {
		return true, w.Flush()
	}
	return false, nil
}

// Flush writes the position to the store, and what it has been told.
func (w *window) Flush() error {
	w.dirty = true
	return w.Sync()
}

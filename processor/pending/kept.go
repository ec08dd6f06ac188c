package pending

import (
	"fmt"
	"math"
	"slices"

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

// drop takes a record away for good, before anything is taken or written: what it names is not pending any more.
func (w *window) drop(key state.Key) {
	if w.judge.Less(key) {
		w.drops.keys = append(w.drops.keys, key)
	}
}

// drops are keys of records that are to be taken away for good.
type drops struct{ keys []state.Key }

// apply takes them away, all at once.
func (d *drops) apply(w *window) error {
	if len(d.keys) == 0 {
		return nil
	}
	keys := d.keys
	d.keys = nil
	slices.SortFunc(keys, state.Key.Compare)
	keys = slices.Compact(keys)
	found := sift(w.wheel, keys, math.MaxInt64)
	far := keys[:0:0]
	for _, key := range keys {
		r, near := found.take(key)
		if near {
			run := w.near.get(r)
			offset, err := recordOffset(run)
			if err != nil {
				return fmt.Errorf("resolve a record: %w", err)
			}
			w.ledger.Remove(key, offset, len(run), r.stored())
			w.near.release(r)
		}
		// Before it is live, what the store holds below start is not in the wheel either. And it may hold a record from an
		// earlier life even when that was in the wheel.
		if w.store != nil && !near && (w.horizon.Less(key) || !w.live) {
			far = append(far, key)
		} else if w.store != nil {
			w.dirty = true
			if err := w.store.Delete(key); err != nil {
				return err
			}
		}
	}
	return d.far(w, far)
}

// far takes away what only the store may hold.
func (d *drops) far(w *window, keys []state.Key) error {
	if len(keys) == 0 {
		return nil
	}
	if err := w.commit(); err != nil { // else what was put lately is not found
		return err
	}
	for _, key := range keys {
		_, err := w.store.Get(key, func(run []byte) {
			if offset, err := recordOffset(run); err == nil && (offset < w.start || w.horizon.Less(key) && offset < w.position) {
				w.ledger.Remove(key, offset, len(run), true)
			}
		})
		if err == nil {
			err = w.store.Delete(key)
		}
		if err != nil {
			return fmt.Errorf("look for a resolved record in the store: %w", err)
		}
	}
	w.dirty = true
	return nil
}

// sifted is what was found in the wheel of some keys, and is there no more.
type sifted struct {
	wheel *wheel.Wheel
	found map[state.Key]ref // nil: each is looked for by itself
	since int64             // so is one from this offset on: it may have come into the wheel since
}

// siftFrom is how many keys are worth a look at all that the wheel holds: one alone may lie in a slot with as much.
const siftFrom = 16

// sift looks for keys in the wheel.
func sift(w *wheel.Wheel, keys []state.Key, since int64) sifted {
	s := sifted{wheel: w, since: since}
	if len(keys) < siftFrom {
		return s
	}
	wanted := make(map[state.Key]struct{}, len(keys))
	for _, key := range keys {
		wanted[key] = struct{}{}
	}
	s.found = map[state.Key]ref{}
	var rest []wheel.Entry
	w.TakeFrom(w.Now(), func(e wheel.Entry) {
		key := state.Key{Due: int64(e.Due), Seq: e.Seq}
		if _, is := wanted[key]; is {
			s.found[key] = ref(e.Ref)
		} else {
			rest = append(rest, e)
		}
	})
	for _, e := range rest {
		w.Add(e.Due, e.Seq, e.Ref)
	}
	return s
}

// take takes the record of a key out of the wheel, if it is there.
func (s *sifted) take(key state.Key) (r ref, near bool) {
	if r, near = s.found[key]; near {
		delete(s.found, key)
		return r, true
	}
	if s.found == nil || key.Seq >= s.since {
		u, near := s.wheel.Remove(wheel.Tick(key.Due), key.Seq)
		return ref(u), near
	}
	return 0, false
}

// giveBack puts into the wheel what was not taken.
func (s *sifted) giveBack() {
	for key, r := range s.found {
		s.wheel.Add(wheel.Tick(key.Due), key.Seq, uint64(r))
	}
}

// Sync writes what the store's open batch holds, with the position that belongs to it.
func (w *window) Sync() error {
	if err := w.drops.apply(w); err != nil {
		return err
	}
	return w.commit()
}

func (w *window) commit() error {
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

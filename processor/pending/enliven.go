package pending

import (
	"fmt"
	"slices"

	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/wheel"
)

// Enliven is a step at the end of a catch-up, and reports whether it was the last one: the partition is live. What the store held below start has not
// been read again: what of it is at or below the horizon has to be brought into memory. What it holds from start on is either in memory, having been
// read again, or has been put there again above the horizon. No more is brought than Load brings in a step: where there is more, the horizon is made
// nearer first, and what memory alone has above it goes to the store, in steps.
func (w *window) Enliven(room Room) (live bool, err error) {
	if err := w.drops.apply(w); err != nil {
		return false, err
	}
	if err := (moving{w}).forgetBelow(w.committed.LowWater); err != nil {
		return false, err
	}
	if w.HasFar() {
		if err := w.Sync(); err != nil {
			return false, err
		}
		if lowered, err := (enlivening{w}).lower(room); !lowered || err != nil {
			return false, err
		}
		if err := (enlivening{w}).bring(); err != nil {
			return false, err
		}
	}
	w.live = true
	return true, nil
}

// enlivening is what a window does at the end of a catch-up.
type enlivening struct{ *window }

// missing goes through what the store alone has up to the horizon, in the order of keys. What it has beside that is counted in passed.
func (w enlivening) missing(visit func(k state.Key, run []byte, passed int) bool) error {
	passed := 0
	err := w.scan(w.lateUpTo, func(k state.Key, run []byte) bool {
		if w.horizon.Less(k) {
			return false
		}
		if offset, err := recordOffset(run); err != nil || offset >= w.start && !w.skips(offset) {
			passed++
			return true
		}
		return visit(k, run, passed)
	})
	if err != nil {
		return fmt.Errorf("load records from the store: %w", err)
	}
	return nil
}

// skips reports whether what lies at an offset was not read again.
func (w enlivening) skips(offset int64) bool {
	_, is := slices.BinarySearch(w.skipped, offset)
	return is
}

// lower makes the horizon so near that what is missing up to there may be brought in one step. It reports whether it is.
func (w enlivening) lower(room Room) (lowered bool, err error) {
	records, bytes := room.step()
	n, enough := 0, false
	var first state.Key // of what is too much
	err = w.missing(func(k state.Key, run []byte, passed int) bool {
		if enough = n == records || bytes < 0 || passed > mostPassed; enough {
			first = k
			return false
		}
		n, bytes = n+1, bytes-int64(len(run))
		return true
	})
	if err != nil || !enough {
		return !enough, err
	}
	from := max(first.Due, w.near.lastStretches(SpillBytes, w.horizon.Due))
	if all, err := w.spillSome(from, SpillBytes); !all {
		return false, err
	}
	return from == first.Due, w.spillFrom(from)
}

// mostPassed is how many records that are in memory may come before one that is missing, for that to be brought.
const mostPassed = 4 * LoadRecords

// bring brings what is missing into memory.
func (w enlivening) bring() error {
	return w.missing(func(k state.Key, run []byte, _ int) bool {
		r, has := uint64(0), false
		if len(w.skipped) > 0 { // what the log has lost may be a copy, and what it is of was read again
			r, has = w.wheel.Remove(wheel.Tick(k.Due), k.Seq)
		}
		if !has {
			r = uint64(bring(w.window, k, run))
		}
		w.wheel.Add(wheel.Tick(k.Due), k.Seq, r)
		return true
	})
}

// skip takes in that the log has nothing from the position up to an offset. What is counted there was not aborted, so compaction has taken it, or
// damage. The store has it, and it will not be read again.
func (w *window) skip(upTo int64) {
	if w.live || w.store == nil {
		return
	}
	for at, is := w.ledger.Next(w.position); is && at < upTo; at, is = w.ledger.Next(at + 1) {
		w.skipped = append(w.skipped, at)
	}
}

// TakeSkipped is where the log has lost from its midst, in the catch-up, what the store has; it is told once.
func (w *window) TakeSkipped() (offsets []int64) {
	offsets, w.skipped = w.skipped, nil
	return offsets
}

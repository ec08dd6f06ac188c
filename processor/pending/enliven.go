package pending

import (
	"fmt"
	"math"
	"slices"

	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/wheel"
)

// Enliven is a step at the end of a catch-up, and reports whether it was the last one: the partition is live. What the store held below start has not
// been read again: what of it is at or below the horizon has to be brought into memory. What it holds from start on is either in memory, having been
// read again, or has been put there again above the horizon. No more is brought than Load brings in a step: where there is more, the horizon is made
// nearer first, and what memory alone has above it goes to the store, in steps.
func (w *window) Enliven(room Room) (live bool, err error) {
	w.skipped.upTo(w.position, w.ledger)
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
		if offset, err := recordOffset(run); err != nil || offset >= w.start && !w.skipped.has(offset) {
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
		if w.skipped.any() { // what the log has lost may be a copy, and what it is of was read again
			r, has = w.wheel.Remove(wheel.Tick(k.Due), k.Seq)
		}
		if !has {
			r = uint64(bring(w.window, k, run))
		}
		w.wheel.Add(wheel.Tick(k.Due), k.Seq, r)
		return true
	})
}

// skipped is where the log has nothing, in a catch-up, and the ledger counts something. That was not aborted, so compaction has taken it, or damage. The
// store has it, as it was counted before it could be read again. nil: there is none to look for.
type skipped struct {
	next int64 // the first offset that was counted and is not reached yet: nothing that is not read is counted since
	at   []int64
}

func newSkipped(from int64, l *state.Ledger) *skipped {
	s := &skipped{}
	s.seek(from, l)
	return s
}

// seek looks for the next offset, from another one on.
func (s *skipped) seek(from int64, l *state.Ledger) {
	next, is := l.Next(from)
	if !is {
		next = math.MaxInt64
	}
	s.next = next
}

// upTo takes in that nothing was read up to an offset.
func (s *skipped) upTo(offset int64, l *state.Ledger) {
	for s != nil && s.next < offset {
		if l.Has(s.next) { // nothing has resolved it since
			s.at = append(s.at, s.next)
		}
		s.seek(s.next+1, l)
	}
}

// read is upTo for an offset at which a record was read.
func (s *skipped) read(offset int64, l *state.Ledger) {
	if s.upTo(offset, l); s != nil && s.next == offset {
		s.seek(offset+1, l)
	}
}

func (s *skipped) any() bool { return s != nil && len(s.at) > 0 }

func (s *skipped) has(offset int64) bool {
	if !s.any() {
		return false
	}
	_, is := slices.BinarySearch(s.at, offset)
	return is
}

// TakeSkipped is where the log has lost from its midst, in the catch-up, what the store has; it is told once.
func (w *window) TakeSkipped() (offsets []int64) {
	if w.skipped.any() {
		offsets = w.skipped.at
	}
	w.skipped = nil
	return offsets
}

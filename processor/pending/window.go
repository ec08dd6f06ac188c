package pending

import (
	"fmt"
	"math"

	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/wheel"
)

const (
	// LoadRecords is how many records are loaded from the store in one step, of all partitions of an owner: some ms of work.
	LoadRecords = 20_000
	// loadBytes is what those may take, in bytes of each.
	loadBytes = 400
	// SpillBytes is how much of a partition goes to the store in one step at most, which takes some ms, too.
	SpillBytes = 2 << 20
	// LeastWindow is how far ahead a live partition keeps its records in memory at least, in ms. It pauses
	// reading instead.
	LeastWindow = 1000
)

// Room is how much memory there is for pending records, and how far ahead they are kept in it.
type Room struct {
	Window int64 // ms ahead of the clock
	Most   int64 // ms: the window when there is enough
	Budget int64 // bytes, for all partitions of the owner
	Used   int64 // of that
	Share  int64 // of one partition
	Step   int   // records that one partition may load in one step; 0: [LoadRecords]
	Spill  int64 // bytes that one partition gives back in one step, about; 0: all that it is to
}

// Lacks reports whether Load has something to bring to a partition, or to look for.
func (r Room) Lacks(p *Partition, now int64) bool {
	_, _, scouts := scouting{&p.window}.needed(now, r)
	return scouts || r.lacks(&p.window, now)
}

// lacks reports whether the store has something for which the horizon is too near, and there is room for it. Where memory is short a partition
// keeps what a step brings, or half of its share, so that what is due at one instant is streamed: it takes neither the place of what is read nor
// that of other partitions.
func (r Room) lacks(w *window, now int64) bool {
	if !w.live || !w.HasFar() || w.horizon.Due >= max(now, w.lateUpTo.Due)+r.Window-r.Window/8 {
		return false
	}
	near := w.wheel.upToHorizon()
	return !r.short() || near == 0 || near <= LoadRecords && w.near.bytes < r.Share/2
}

// short reports whether memory is short.
func (r Room) short() bool { return r.Used > r.Budget/2 }

// Ample reports whether what has paused for lack of memory may be read again.
func (r Room) Ample() bool { return r.Used < r.Budget*3/4 }

func (r Room) step() (records int, bytes int64) {
	if records = r.Step; records == 0 {
		records = LoadRecords
	}
	return records, min(r.Budget/8, r.Share/2, int64(records)*loadBytes)
}

// window keeps the pending records, split by key: those up to the horizon are in the wheel and in memory, those
// above it in the store.
//
// Invariants: every key that only the store holds is above horizon. So is every key in memory that came early, which the store holds too; all others are
// at or below it.
type window struct {
	index
	parsers    *parsers
	wheel      timetable
	near       *near
	horizon    state.Key // what has a key above it is in the store
	ledger     *state.Ledger
	skipped    *skipped
	spent      int             // records delivered that the store still holds
	passed     []state.Counted // of them, in the order of keys: the store counts them until W is written
	longest    longestWait
	remembered longestWait // of stubs
	stored     storedDue
	drops      drops
	shortened  int64 // memory taken when the horizon was last made nearer (storeless.go)
	scratch    []byte
	copyRun    []byte                 // scratch
	forgone    bool                   // it had a store, and goes on without
	sure       bool                   // without a store: it catches up, and what it has taken away is in dropped
	dropped    map[state.Key]struct{} // what lies beyond its horizon may still be counted
	lost       lost
	own        ownCopies
	takers     takers
}

// Load brings what is due soon from the store into the wheel, ahead of need: the upper wheel
// cascades into the lower one.
func (w *window) Load(now int64, room Room) error {
	if !w.live {
		return nil
	}
	if err := w.drops.apply(w); err != nil {
		return err
	}
	if w.store == nil {
		if w.Far() == 0 {
			w.horizon = farthest
		}
		return nil
	}
	target := max(now, w.lateUpTo.Due) + room.Window
	if w.Far() == 0 && w.horizon.Due < target-room.Window/8 {
		w.raise(state.Key{Due: target, Seq: math.MaxInt64})
		return nil
	}
	if !room.lacks(w, now) {
		return scouting{w}.step(now, room)
	}
	if err := w.Sync(); err != nil {
		return err
	}
	if err := w.loadUpTo(target, room); err != nil {
		return err
	}
	return scouting{w}.step(now, room)
}

// raise moves the horizon ahead: all up to there is in memory.
func (w *window) raise(to state.Key) {
	w.horizon = to
	for _, e := range w.wheel.passed() {
		w.wheel.place(e)
	}
	scouting{w}.upTo(w.wheel.scouted)
}

// loadUpTo moves the horizon to a due time, or as far as one step may bring.
func (w *window) loadUpTo(target int64, room Room) error {
	records, atMost := room.step()
	var last state.Key
	var e wheel.Entry // the last one
	var bytes int64
	n, more := 0, false
	from := w.horizon
	if from.Less(w.lateUpTo) {
		from = w.lateUpTo // what is at or below W is delivered, or in the turn in flight
	}
	err := w.scan(from, func(k state.Key, run []byte) bool {
		if k.Due > target {
			return false
		}
		if _, is := w.gone[k]; is || w.wheel.has(k) {
			return true
		}
		if more = n == records || bytes > atMost; more {
			return false
		}
		n, bytes, last = n+1, bytes+int64(len(run)), k
		e = wheel.Entry{Due: wheel.Tick(k.Due), Seq: k.Seq, Ref: uint64(bring(w, k, run))}
		w.wheel.place(e)
		return true
	})
	if err != nil {
		if n > 0 {
			w.raise(last) // as far as it got, for an owner that goes on without the store
		}
		return fmt.Errorf("load records from the store: %w", err)
	}
	if !more {
		last = state.Key{Due: target, Seq: math.MaxInt64}
	} else if w.wheel.several {
		w.wheel.loads = w.wheel.lineOf(e)
	}
	w.raise(last)
	return nil
}

// bring puts what the store holds into memory, with the number of where it goes if that may be asked for when it is due.
func bring(w *window, k state.Key, run []byte) ref {
	r := w.near.put(k.Due, run, true)
	if w.wheel.several {
		r = r.to(w.wheel.goesTo(k.Due, run))
	}
	return r
}

// batchBytes is how much of what is spilled goes to the store in one batch, which is in memory as often as three times.
const batchBytes = 256 << 10

// spillSome puts records into the store that are due at or after dueMillis and are in memory only, where they stay: about so many bytes of them. It
// reports whether that was the last of them, and they may all be let go.
func (w *window) spillSome(dueMillis, bytes int64) (all bool, err error) {
	batch := int64(0)
	all = w.wheel.Update(wheel.Tick(dueMillis), func(e wheel.Entry) (uint64, bool) {
		r := ref(e.Ref)
		if r.stored() {
			return e.Ref, true
		}
		run := w.near.get(r)
		if err = w.spill(keyOfEntry(e), run); err != nil {
			return e.Ref, false
		}
		w.ledger.Stored(counted(keyOfEntry(e), run).Offset)
		if batch += int64(len(run)); batch > batchBytes {
			bytes, batch = bytes-batch, 0
			err = w.commit()
		}
		return uint64(r | storedBit), err == nil && bytes > batch
	})
	if err == nil {
		err = w.Sync()
	}
	if err != nil {
		return false, fmt.Errorf("spill records to the store: %w", err)
	}
	return all, nil
}

// Saving has the store hold what memory holds, where it stays: the log has lost it, or may before the next start.
type Saving struct{ *Partition }

// Some is a step of that, of about so many bytes. It reports whether it was the last one.
func (p Saving) Some(bytes int64) (all bool, err error) {
	if !p.live || p.store == nil {
		return true, nil
	}
	return p.spillSome(0, bytes)
}

// Reaches is up to which offset nothing that is pending is in memory alone.
func (p Saving) Reaches() int64 { return p.ledger.Resume(p.position) }

// spillFrom moves every near record due at or after dueMillis to the store.
func (w *window) spillFrom(dueMillis int64) error {
	if w.horizon.Due < dueMillis && w.wheel.nothing() {
		return nil
	}
	err, spilled := error(nil), 0
	w.wheel.TakeFrom(wheel.Tick(dueMillis), func(e wheel.Entry) {
		r := ref(e.Ref)
		run := w.near.get(r)
		if !r.stored() && err == nil {
			err = w.spill(state.Key{Due: int64(e.Due), Seq: e.Seq}, run)
			spilled += len(run)
		}
		evict(w, e)
		if spilled > batchBytes && err == nil {
			err, spilled = w.commit(), 0
		}
	})
	if dueMillis <= w.horizon.Due {
		w.horizon = state.Key{Due: dueMillis - 1, Seq: math.MaxInt64}
	}
	if spilled := (state.Key{Due: dueMillis - 1, Seq: math.MaxInt64}); spilled.Less(w.wheel.scouted) {
		scouting{w}.upTo(spilled)
	}
	if err != nil {
		return fmt.Errorf("spill records to the store: %w", err)
	}
	return w.Sync()
}

// Memory is what the pending records take. With a store, so do their ids; without one these are not counted, because nothing can give them back before
// their records are resolved.
func (w *window) Memory() int64 {
	takes := w.near.bytes + int64(w.wheel.Bytes())
	if w.store != nil {
		takes += int64(w.ids.len()) * idBytes
	}
	return takes
}

// Far is how many pending records only the store holds, or only the log.
func (w *window) Far() int { return w.ledger.Len() - w.wheel.Len() }

// HasFar reports whether only the store holds some of them.
func (w *window) HasFar() bool { return w.store != nil && w.Far() > 0 }

// Counted is how many records are pending by the ledger, which counts nothing of a queue.
func (w *window) Counted() int { return w.ledger.Waiting() }

package state

import (
	"math"
	"time"
)

// Ledger counts what is pending in one partition, by its place in the log and by stretch of due time, and so knows the low
// water, from where a replay gives what the store has not, and how much is due when. Each call costs a few
// nanoseconds, and memory is bounded by how far the log is pending, at a bit or so for each offset, and by how far ahead.
//
// It belongs to the goroutine that owns the partition, and has no lock.
type Ledger struct {
	pending offsets // records that are pending, wherever they are held
	unsaved offsets // what only memory holds: the store does not have it
	due     agenda
	bytes   int64
	kept    int   // of pending: what Withhold was told of
	stubs   int   // of pending: what Remember was told of
	low     int64 // the highest low water given so far. Invariant: no record below it is pending

	overtakers overtakers // what was resolved before W passed it
	overtook   overtakers // and what was noted before these
	Displaced  Displaced  // of what is pending, as far as whoever adds it tells
}

// NewLedger is the ledger of a partition of which nothing below low is pending: the low water of its checkpoint.
func NewLedger(low int64) *Ledger {
	return &Ledger{pending: newOffsets(low), unsaved: newOffsets(low), overtakers: overtakers{offsets: newOffsets(low)}, overtook: overtakers{offsets: newOffsets(low)}, Displaced: Displaced{low: low}, low: low}
}

// Add counts a record that became pending; offset is where its current copy lies in the log. Stored tells that the store
// holds it, or will with the batch that is open; otherwise only memory does.
func (l *Ledger) Add(k Key, offset int64, bytes int, stored bool) {
	l.pending.add(offset)
	if !stored {
		l.unsaved.add(offset)
	}
	l.due.add(k.Due, int64(bytes))
	l.bytes += int64(bytes)
}

// Remove takes back an Add, with the same values, and stored as it is by now.
func (l *Ledger) Remove(k Key, offset int64, bytes int, stored bool) {
	l.pending.remove(offset)
	if !stored {
		l.unsaved.remove(offset)
	}
	l.due.remove(k.Due, int64(bytes))
	l.bytes -= int64(bytes)
}

// Move says that the current copy of a pending record lies at another offset, and whether the store holds it by now. It may be counted there
// already, too.
func (l *Ledger) Move(k Key, from, to int64, bytes int, stored bool) {
	l.pending.remove(from)
	if l.pending.has(to) {
		l.due.remove(k.Due, int64(bytes))
		l.bytes -= int64(bytes)
	} else {
		l.pending.add(to)
	}
	if l.unsaved.has(from) {
		l.unsaved.remove(from)
		if !stored {
			l.unsaved.add(to)
		}
	}
}

// Withhold is Remove for a record that is not pending any more because of one whose own outcome is not decided: both Low and Resume stay
// as they are until Forget.
func (l *Ledger) Withhold(k Key, offset int64, bytes int) {
	l.due.remove(k.Due, int64(bytes))
	l.bytes -= int64(bytes)
	l.kept++
}

// Forget takes back what Withhold has kept.
func (l *Ledger) Forget(offset int64) {
	l.pending.remove(offset)
	if l.unsaved.has(offset) {
		l.unsaved.remove(offset)
	}
	l.kept--
}

// Remember counts a record that was delivered, and has left something that Low stays at or below: not its bytes, nor when that is due.
// The store holds it, if there is one.
func (l *Ledger) Remember(offset int64) {
	l.pending.add(offset)
	l.stubs++
}

// Expire takes back a Remember.
func (l *Ledger) Expire(offset int64) {
	l.pending.remove(offset)
	l.stubs--
}

// WithholdStub is Withhold for what Remember was told of.
func (l *Ledger) WithholdStub() {
	l.stubs--
	l.kept++
}

// Overtake notes that a record is resolved although the watermark has not passed it: what has a smaller key is pending. A few bits are kept of it until
// the watermark has passed it, and for as long again as it took to come from there to here at most. What came into the log very long ago, and was carried
// since, is not noted.
func (l *Ledger) Overtake(k Key) {
	if l.low-k.Seq >= longAgo || l.overtook.has(k.Seq) && !l.overtook.farthest.Less(k) {
		return
	}
	if !l.overtakers.has(k.Seq) {
		l.overtakers.add(k.Seq)
	}
	if l.overtakers.farthest.Less(k) {
		l.overtakers.farthest = k
	}
}

// overtakers are what was resolved before the watermark passed it, with the greatest key. There are two generations, so that what is noted
// meanwhile does not keep what was noted before.
type overtakers struct {
	offsets  // the seqs
	farthest Key
}

// longAgo is so many offsets that noting one that lies so far below the others takes 128 KiB.
const longAgo = 1 << 32

// Overtaken tells whether Overtake was told of a record with that seq.
func (l *Ledger) Overtaken(seq int64) bool {
	return l.overtakers.count > 0 && l.overtakers.has(seq) || l.overtook.count > 0 && l.overtook.has(seq)
}

// Passed takes in how far the watermark has come.
func (l *Ledger) Passed(w Key) {
	for l.overtakers.count+l.overtook.count > 0 && !w.Less(l.overtook.farthest) {
		l.overtook, l.overtakers = l.overtakers, overtakers{offsets: newOffsets(l.low)}
	}
}

// Has tells whether the record whose current copy lies at an offset was added, and not taken back.
func (l *Ledger) Has(offset int64) bool { return l.pending.has(offset) }

// Stored tells that the store holds a pending record from now on.
func (l *Ledger) Stored(offset int64) { l.unsaved.remove(offset) }

// Hold keeps Resume at or below an offset whose record is not pending but must be seen by a replay all the same, because
// its outcome is not decided: a late or refused record before its offset is committed. No offset is held twice, nor one
// that only memory holds anyway.
func (l *Ledger) Hold(offset int64) { l.unsaved.add(offset) }

// Release takes back a Hold.
func (l *Ledger) Release(offset int64) { l.unsaved.remove(offset) }

// Low is the low water: the offset of the first pending record, or end when nothing is pending. It is exact, since retention
// may cut the log anywhere below. It is at most end, which is the offset up to which everything has been accepted, and
// never goes back.
func (l *Ledger) Low(end int64) int64 {
	low := end
	if start, ok := l.pending.smallest(); ok {
		low = min(start, end)
	}
	l.low = max(l.low, low)
	return min(l.low, end)
}

// First is the smallest offset that is counted, which is no low water yet while a part of the log is still to be read; false when there is none.
func (l *Ledger) First() (int64, bool) { return l.pending.smallest() }

// Resume is the same over what only memory holds: a replay from here gives what the store has not. It goes back when an
// offset is held.
func (l *Ledger) Resume(end int64) int64 {
	if start, ok := l.unsaved.smallest(); ok {
		return min(start, end)
	}
	return end
}

// Len is the number of pending records, and of those that are remembered.
func (l *Ledger) Len() int { return l.pending.count - l.kept }

// Waiting is the number of pending records.
func (l *Ledger) Waiting() int { return l.Len() - l.stubs }

// Last is when the last pending record is due, or a little earlier; 0 when nothing is pending.
func (l *Ledger) Last() int64 {
	if n := len(l.due.list); n > 0 {
		return l.due.list[n-1].from
	}
	return 0
}

// Bytes is the sum of what was given to Add.
func (l *Ledger) Bytes() int64 { return l.bytes }

// Agenda tells for each duration how much is due by then: from the beginning of time until now plus the duration.
// A bucket across that instant counts in proportion.
func (l *Ledger) Agenda(now int64, within ...time.Duration) []Stretch {
	out := make([]Stretch, len(within))
	for i, d := range within {
		to := now + d.Milliseconds()
		records, bytes := l.due.until(to)
		out[i] = Stretch{From: math.MinInt64, To: to + 1, Records: records, Bytes: bytes}
	}
	return out
}

// Displaced are records that are pending and lie at another offset than their seq by now, as far as the ledger was told of them. A few bits are kept of
// each for good; what came into the log very long ago is not noted.
type Displaced struct {
	seqs offsets
	low  int64 // the low water when the ledger was made
}

// Add notes one.
func (d *Displaced) Add(seq int64) {
	if d.low-seq < longAgo && !d.seqs.has(seq) {
		d.seqs.add(seq)
	}
}

// Has tells whether one was added, or may have been.
func (d *Displaced) Has(seq int64) bool { return d.low-seq >= longAgo || d.seqs.has(seq) }

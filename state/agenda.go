package state

import (
	"fmt"
	"slices"
)

const (
	// unitBits: the narrowest bucket of due time is 1024 ms.
	unitBits = 10
	// agendaPrecision: a bucket is made at most a 64th as wide as its distance from the first one. That is 64 to 128
	// buckets for each doubling of the distance, 1300 for a year.
	agendaPrecision = 64
	// maxBuckets is reached only when something is added far ahead of dense buckets: then they are merged until a half is left.
	maxBuckets = 2048
)

// Stretch is a stretch of due time and what is pending in it.
type Stretch struct {
	From, To int64 // milliseconds since 1970, To not included
	Records  int64
	Bytes    int64
}

// bucket counts records by due time. Invariant: records > 0; the width is a power of two of units, and from a multiple of it.
type bucket struct {
	from    int64
	width   int64
	records int64
	bytes   int64
}

func (b *bucket) holds(due int64) bool { return b.from <= due && due-b.from < b.width }

// agenda is the table of pending records by due time: a sorted list of buckets that do not overlap. They are narrow
// near the first one and wide far away: a second wide for the first minutes, half a minute after an hour,
// 17 minutes after a day, some days after a year.
//
// A bucket keeps its width while anything is in it, since what it holds cannot be told apart: one that was made
// far ahead is still wide when its time comes. Its size, not its precision, is what is bounded.
type agenda struct {
	list []bucket
	last int // where the last one was found: due times come in runs
}

// search gives the bucket that holds a due time, or the place where it belongs.
func (a *agenda) search(due int64) (int, bool) {
	if a.last < len(a.list) && a.list[a.last].holds(due) {
		return a.last, true
	}
	lo, hi := 0, len(a.list)
	for lo < hi {
		if mid := (lo + hi) / 2; a.list[mid].from <= due {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo > 0 && a.list[lo-1].holds(due) {
		a.last = lo - 1
		return a.last, true
	}
	return lo, false
}

func (a *agenda) add(due int64, bytes int64) {
	i, ok := a.search(due)
	if !ok {
		if len(a.list) >= maxBuckets {
			a.merge()
			a.add(due, bytes)
			return
		}
		a.list = slices.Insert(a.list, i, a.fit(i, due))
		a.last = i
	}
	a.list[i].records++
	a.list[i].bytes += bytes
}

func (a *agenda) remove(due int64, bytes int64) {
	i, ok := a.search(due)
	if !ok {
		panic(fmt.Sprintf("state: BUG: nothing is pending around due time %d", due))
	}
	b := &a.list[i]
	b.records--
	b.bytes -= bytes
	switch {
	case b.records > 0:
	case i == 0: // the usual case: what is due first goes first, and nothing is moved
		a.list = a.list[1:]
		if len(a.list) == 0 {
			a.list = nil
		}
	default:
		a.list = slices.Delete(a.list, i, i+1)
	}
}

// fit is a new bucket for a due time at place i: as wide as its distance allows, and clear of its neighbours.
func (a *agenda) fit(i int, due int64) bucket {
	b := bucket{from: due &^ (1<<unitBits - 1), width: 1 << unitBits}
	if i == 0 {
		return b
	}
	first := a.list[0].from
	for {
		from, width := b.from&^(2*b.width-1), 2*b.width
		prev := a.list[i-1]
		if width > (from-first)/agendaPrecision || prev.from+prev.width > from ||
			i < len(a.list) && a.list[i].from-from < width {
			return b
		}
		b.from, b.width = from, width
	}
}

// merge joins neighbours until at most half of the buckets are left, the far ones first.
func (a *agenda) merge() {
	for precision := int64(agendaPrecision); len(a.list) > maxBuckets/2; precision /= 2 {
		first := a.list[0].from
		var out []bucket
		for _, b := range a.list {
			b = widen(b, first, max(precision, 1))
			if n := len(out) - 1; n >= 0 && out[n].holds(b.from) {
				out[n].records += b.records
				out[n].bytes += b.bytes
				continue
			}
			out = append(out, b)
		}
		a.list = out
		if precision <= 1 {
			break
		}
	}
	a.last = 0
}

// widen is the widest bucket around b that its distance from the first one allows. Buckets are halves of halves, so
// two widened ones are equal, one within the other, or apart.
func widen(b bucket, first, precision int64) bucket {
	for {
		from, width := b.from&^(2*b.width-1), 2*b.width
		if width > (from-first)/precision {
			return b
		}
		b.from, b.width = from, width
	}
}

func (a *agenda) clone() agenda { return agenda{list: slices.Clone(a.list)} }

// until is what is due at or before an instant. Of a bucket across the instant it counts the share that lies before it.
func (a *agenda) until(instant int64) (records, bytes int64) {
	for i := range a.list {
		b := &a.list[i]
		if b.from > instant {
			break
		}
		share := 1.0
		if past := instant - b.from + 1; past < b.width {
			share = float64(past) / float64(b.width)
		}
		records += int64(share * float64(b.records))
		bytes += int64(share * float64(b.bytes))
	}
	return records, bytes
}

package pending

import (
	"iter"
	"math"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
)

// Carrying is what a partition does so that some of it is carried.
type Carrying struct{ *Partition }

// May reports whether something of it may be carried now: not while a part that carries is undecided.
func (p Carrying) May() bool {
	return p.live && !p.leaving && !p.Ordered() && p.marks.carrying == nil
}

// Copy reports whether a record of the log is pending where it lies, and what a copy of it has to say: its headers as they were written, and where
// it comes from. What O has not passed by the last checkpoint is not carried.
func (p Carrying) Copy(r *kgo.Record) (written []kgo.RecordHeader, c topics.Copy, is bool) {
	if !p.live || p.Ordered() || r.Attrs.IsControl() || r.Offset >= p.committed.Offset || !p.ledger.Has(r.Offset) {
		return nil, c, false
	}
	if written, c, is = p.Mark.Copied(r.Headers, r.Offset); !is {
		req, err := p.parsers.at(r.Offset).Parse(r.Headers, topics.StampOf(r), r.Offset, p.Mark)
		if err != nil || req.Kind != topics.KindRequest {
			return nil, c, false
		}
		c = topics.Copy{Seq: r.Offset, Due: req.Due, Timestamp: r.Timestamp.UnixMilli()}
	}
	c.From = r.Offset
	key := state.Key{Due: c.Due, Seq: c.Seq}
	_, gone := p.gone[key]
	return written, c, !gone && p.lateUpTo.Less(key)
}

// Take makes a part that resolves nothing, beside which copies are appended, in the order of the log that they are copied from. L stays at or below the first
// of these until O has passed the copies.
func (p Carrying) Take(copies iter.Seq[topics.Copy]) *Part {
	to := p.done
	if !p.again.any() && p.turns == 0 {
		to.Offset = p.order.offset()
		p.finish(&to)
	}
	for c := range copies {
		if p.own.add(c); p.carrying == nil {
			p.carrying = &c.From
		}
	}
	return &Part{of: p.Partition, from: p.lateUpTo, To: to, Carries: true}
}

// Done takes in what became of such a part: the copies lie below an offset, or it is 0, and there are none.
func (p Carrying) Done(end int64) {
	if end > 0 {
		p.holds.add(*p.carrying, end)
	}
	p.carrying = nil
}

// heldLow is how far L may rise with that O because of copies that O has not passed.
func (m *marks) heldLow(offset int64) int64 {
	low := int64(math.MaxInt64)
	if m.carrying != nil {
		low = *m.carrying
	}
	return min(low, m.holds.low(offset))
}

// Wanted are the first offsets, up to so many, from one on and below another, at which something lies that may be pending: all else need not be read.
func (p Carrying) Wanted(from, to int64, most int) (offsets []int64) {
	if !p.live || p.Ordered() {
		return nil
	}
	for to = min(to, p.committed.Offset); len(offsets) < most; from++ {
		at, ok := p.ledger.Next(from)
		if !ok || at >= to {
			break
		}
		offsets, from = append(offsets, at), at
	}
	return offsets
}

// holds keep L at or below places that copies were made of, until O has passed the copies.
//
// Invariant: both low and end rise from each one to the next.
type holds []hold

type hold struct {
	low int64
	end int64 // the copies lie below
}

// add keeps L at or below an offset until O has reached another one. What was added before goes on: a turn with copies ends behind the last of them, and each that
// is read is added, too.
func (hs *holds) add(low, end int64) {
	n := len(*hs)
	for ; n > 0 && (*hs)[n-1].low >= low; n-- {
		end = max(end, (*hs)[n-1].end)
	}
	if *hs = (*hs)[:n]; n == 0 || (*hs)[n-1].end < end {
		*hs = append(*hs, hold{low, end})
	}
}

// low is how far L may rise with that O.
func (hs holds) low(offset int64) int64 {
	for _, h := range hs {
		if h.end > offset {
			return h.low
		}
	}
	return math.MaxInt64
}

// passed forgets what O has passed.
func (hs *holds) passed(offset int64) {
	n := 0
	for n < len(*hs) && (*hs)[n].end <= offset {
		n++
	}
	*hs = (*hs)[n:]
}

// ownCopies are the records of which this replica itself has appended copies that it has not read yet. It knows of them what it would have to
// look up of others: whoever may write the topic may claim anything in the headers of a copy.
type ownCopies map[state.Key]original

// original is what a copy is of.
type original struct {
	from int64 // where it lay
	by   int64 // above 0: the offset of what has taken it away since
}

// mostOwnCopies bounds what memory they take, at some 50 B each; the others are looked up.
const mostOwnCopies = 100_000

func (o *ownCopies) add(c topics.Copy) {
	if *o == nil {
		*o = ownCopies{}
	}
	if len(*o) < mostOwnCopies {
		(*o)[state.Key{Due: c.Due, Seq: c.Seq}] = original{from: c.From}
	}
}

// takeAway notes what has cancelled or replaced a record.
func (o ownCopies) takeAway(k state.Key, by int64) {
	if of, is := o[k]; is {
		of.by = by
		o[k] = of
	}
}

// take reports whether a copy is one of them, which is not asked again, and what has taken its record away; 0: nothing.
func (o ownCopies) take(k state.Key, from int64) (own bool, by int64) {
	of, is := o[k]
	if !is || of.from != from {
		return false, 0
	}
	delete(o, k)
	return true, of.by
}

// takers are what was read in the catch-up and takes records away that W has not passed, by the keys of these, until all is decided: copies may come that ask
// for it. Below 0 it is a resolve record that does not say by what: then whatever names the record may have come too late.
type takers map[state.Key]int64

// mostTakers bounds what memory they take.
const mostTakers = 10_000

func (ts *takers) add(k state.Key, by int64) {
	if *ts == nil {
		*ts = takers{}
	}
	if was, is := (*ts)[k]; is {
		(*ts)[k] = min(was, by) // the first one
	} else if len(*ts) < mostTakers {
		(*ts)[k] = by
	}
}

package pending

import (
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
	return written, c, !gone && p.judge.Less(key)
}

// Take makes a part that resolves nothing, beside which copies are appended of records from an offset on. L stays at or below that until
// O has passed the copies.
func (p Carrying) Take(from int64) *Part {
	to := p.done
	if !p.again.any() && p.turns == 0 {
		to.Offset = p.order.offset()
		p.finish(&to)
	}
	p.carrying = &from
	return &Part{of: p.Partition, from: p.judge, To: to, Carries: true}
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

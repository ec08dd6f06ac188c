package processor

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/histogram"
	"github.com/duewheel/duewheel/processor/targets"
	"github.com/duewheel/duewheel/state"
)

// intake takes in what a fetch has brought of one partition. What other goroutines read, and what is the same for neighbours, it touches once for
// all of it and not for each record.
type intake struct {
	*kit
	p                       *partition
	accepted, late, overdue int64
	requested               histogram.Tally
	target                  *targets.Target // of the last record
}

func (k *kit) intake(p *partition) *intake {
	return &intake{kit: k, p: p, requested: histogram.Tally{Of: p.stats.requested}}
}

// all takes in records one after the other, up to an error, and gives back their memory.
func (in *intake) all(rs []*kgo.Record, now int64, err error) error {
	defer in.end()
	if len(rs) > 0 {
		in.p.tellHole(rs[0].Offset)
	}
	for _, r := range rs {
		if err == nil {
			if err = in.accept(r, now); err != nil && in.without(in.p, err) == nil {
				err = in.accept(r, now) // it was not taken in
			}
		}
		r.Recycle() // what was accepted has been copied
	}
	return err
}

// tellHole says so where the log does not have the record that L names, which is pending. It was not aborted, and the log begins no higher, so compaction has
// removed it, or damage, and nothing tells of what else that has taken. What was given up leaves no such record.
func (p *partition) tellHole(first int64) {
	if p.phase != PhaseCatchUp {
		return // it has begun to read long ago
	}
	m := p.Marks()
	if c := m.Committed; m.Position == c.LowWater && c.LowWater < min(c.Offset, first) && c.GivenUp == 0 {
		p.log.Error("the log has lost a pending record from its midst, and maybe others: is the topic compacted, or was it?", "offset", c.LowWater, "next", first)
	}
}

// tellSkipped says where the log had nothing that was pending, and the store had it.
func tellSkipped(p *partition) {
	if at := p.TakeSkipped(); len(at) > 0 {
		p.log.Error("the log has lost pending records from its midst, which the local store has: they are delivered; others may be lost: is the topic compacted, or was it?", "records", len(at), "offset", at[0])
	}
}

// accept takes in one record.
func (in *intake) accept(r *kgo.Record, now int64) error {
	a, err := in.p.Accept(r, now)
	if a.New {
		in.accepted++
	}
	if a.Late {
		in.late++
	}
	if a.Overdue {
		in.overdue++
	}
	if a.Asks {
		in.requested.Observe(a.Delay)
	}
	if a.Missed != "" {
		in.p.missed, in.p.missedBy = in.p.missed+1, a.Missed
	}
	if a.Unparsed != nil {
		in.counters.refused.add(string(a.Unparsed.Code), 1)
	}
	if a.Target != nil && (in.target == nil || in.target.Name != string(a.Target)) {
		in.target = in.targets.Of(a.Target) // looked up by the time it is due
	}
	return err
}

// end says what was taken in to those who count it.
func (in *intake) end() {
	stats := in.p.stats
	stats.accepted.Add(in.accepted)
	stats.late.Add(in.late)
	stats.lateOnArrival.Add(in.overdue)
	in.requested.Add()
}

// without makes a live partition go on without the store when that is what the error asks for; the others do when they meet the failure, too.
func (k *kit) without(p *partition, err error) error {
	if err == nil || !p.live() || !errors.Is(err, state.ErrFailed) {
		return err
	}
	k.store.Failed(err)
	p.Forgo()
	return nil
}

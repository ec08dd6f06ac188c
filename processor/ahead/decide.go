package ahead

import (
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
)

// ask is what a record does to the one that it names.
type ask struct {
	offset int64
	names  state.Key // zero: an id says it
	id     uint64
	asked  int64 // ms: above 0, it takes nothing away that was written later
	entry  int32 // its own place, and 1; 0: it is none that waits
	what   What
	must   bool // it waits only if it takes something away
	at     int64
}

func (p *Partition) askOf(r *kgo.Record, q *topics.Request, what What) ask {
	a := ask{offset: r.Offset, asked: q.Asked, what: what, at: r.Timestamp.UnixMilli()}
	switch {
	case q.Named != nil:
		a.id = p.hash(q.Named)
	case what == Cancels || q.Replaces:
		a.names = state.Key{Due: q.Handle.Due, Seq: q.Handle.Offset}
	default:
		a.id = p.hash(q.ID)
	}
	return a
}

// remove ends what is named, and reports whether there was anything.
func (p *Partition) remove(a *ask) (hit bool) {
	p.trace.named(a)
	if a.id == 0 {
		place, has := p.find(a.names.Seq)
		if !has || a.names.Seq >= a.offset || !p.waits(place) || p.at(place).due != a.names.Due {
			return false
		}
		p.end(place)
		return true
	}
	for place := range p.named(a.id) { // what comes later is not read, or waits for its own answer
		if e := p.at(place); (a.asked <= 0 || e.written <= a.asked) && p.waits(place) {
			p.end(place)
			hit = true
		}
	}
	return hit
}

// waits reports whether a record is pending, or late, and not resolved.
func (p *Partition) waits(place int32) bool {
	e := p.at(place)
	return e.condition == isHeld && !p.passed(e)
}

// passed reports whether the checkpoint says that a record is resolved.
func (p *Partition) passed(e *entry) bool {
	if p.queue {
		return e.offset < p.checkpoint.Offset
	}
	return e.offset < p.checkpoint.Offset && !p.checkpoint.Watermark.Less(state.Key{Due: e.due, Seq: e.offset})
}

// Decide ends the reading: it answers what is asked at or above O, in the order of the log, and leaves out what is resolved.
func (p *Partition) Decide() {
	asks := p.asks
	p.asks = nil
	p.each(func(place int32, e *entry) {
		for len(asks) > 0 && asks[0].offset < e.offset {
			p.answer(&asks[0])
			asks = asks[1:]
		}
		switch {
		case e.condition == isGone: // by what was answered just now
		case p.passed(e):
			p.end(place)
		case e.condition == isAsking && e.flags&twin != 0:
			p.admit(place, e)
		}
	})
	for i := range asks {
		p.answer(&asks[i])
	}
}

// answer decides what a record does that names others.
func (p *Partition) answer(a *ask) {
	hit := p.remove(a) || p.told[a.offset]
	if a.entry == 0 {
		return
	}
	place := a.entry - 1
	e := p.at(place)
	switch {
	case e.condition == isGone:
	case a.must && !hit && (p.env.Route == nil || !p.env.Route.ReplacesLate):
		p.drop(place, topics.TooLateToReplace(nil, false))
	default:
		e.condition = isHeld
	}
}

// admit decides on a record whose id may be taken.
func (p *Partition) admit(place int32, e *entry) {
	for other := range p.named(e.id) {
		if p.at(other).offset >= e.offset || !p.waits(other) {
			continue
		}
		why := topics.Duplicate(nil, true)
		why.Message = "another record with its id is pending"
		if e.flags&ignores != 0 {
			p.end(place)
			p.trace.refused(e.offset, why)
			return
		}
		p.drop(place, why)
		return
	}
	e.condition = isHeld
}

// drop ends a request that is dead-lettered.
func (p *Partition) drop(place int32, why *topics.Refusal) {
	p.refused++
	p.trace.refused(p.at(place).offset, why)
	p.end(place)
}

package ahead

import (
	"cmp"

	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
)

// question is what a record does to the one that it names, or to those that have its id.
type question struct {
	offset    int64
	names     state.Key // zero: an id says it
	id        uint64
	writtenBy int64 // ms: above 0, it takes nothing away that was written later
	entry     int32 // one more than its own place; 0: it does not wait itself
	what      What
	must      bool // it waits only if it takes something away
	at        int64
}

// remove ends what is named, and what is remembered of it, and reports whether it waited.
func (p *Partition) remove(q *question) (hit bool) {
	p.trace.question(q)
	if q.id == 0 {
		place, has := p.find(q.names.Seq)
		if !has {
			p.lost.names(&p.basis, q.names)
		}
		return has && q.names.Seq < q.offset && p.at(place).due == q.names.Due && p.takeOut(place)
	}
	for place := range p.withID(q.id) { // what comes later is not read, or waits for its own answer
		if e := p.at(place); q.writtenBy <= 0 || e.written <= q.writtenBy {
			hit = p.takeOut(place) || hit
		}
	}
	return hit
}

// takeOut ends a record that waits, or is remembered, and reports whether it waited.
func (p *Partition) takeOut(place int32) (waited bool) {
	waited = p.waits(p.at(place), p.key(p.at(place)))
	if waited || p.remembers(p.at(place), p.key(p.at(place))) {
		p.end(place)
	}
	return waited
}

// decision answers the open questions.
type decision struct{ *Partition }

// Decide ends the reading: it answers the questions at or above O, in the order of the log, and leaves out what is resolved.
func (p *Partition) Decide() { decision{p}.decide() }

func (p decision) decide() {
	questions := p.questions
	p.questions = nil
	p.each(func(place int32, e *entry) {
		for len(questions) > 0 && questions[0].offset < e.offset {
			p.answer(&questions[0])
			questions = questions[1:]
		}
		switch {
		case e.condition == isGone: // by what was answered just now
		case p.remembers(e, p.key(e)):
			e.condition = isRemembered
		case p.passed(e, p.key(e)):
			p.end(place)
		case e.condition == isUndecided && e.flags&copied != 0:
			p.stand(place, e)
		case e.condition == isUndecided && e.flags&dedup != 0:
			p.admit(place, e)
		}
	})
	for i := range questions {
		p.answer(&questions[i])
	}
}

// answer decides what a record does that names others.
func (p decision) answer(q *question) {
	hit := p.remove(q) || p.confirmed[q.offset]
	if q.entry == 0 {
		return
	}
	place := q.entry - 1
	e := p.at(place)
	switch {
	case e.condition == isGone:
	case q.must && !hit && !p.blind && (p.env.Route == nil || !p.env.Route.ReplacesLate):
		p.drop(place, cmp.Or(p.env.Route, &topics.Route{}).TooLateToReplace(nil, false))
	default:
		e.condition = isHeld
	}
}

// admit decides on a record whose id may be taken.
func (p decision) admit(place int32, e *entry) {
	for other := range p.withID(e.id) {
		o := p.at(other)
		remembered := p.remembers(o, p.key(o)) && e.written <= p.rememberedUntil(p.key(o)).Due
		if p.seq(o) >= e.offset || !p.waits(o, p.key(o)) && !remembered {
			continue
		}
		why := topics.Duplicate(nil, false, remembered)
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
func (p decision) drop(place int32, why *topics.Refusal) {
	p.refused++
	p.trace.refused(p.at(place).offset, why)
	p.end(place)
}

package pending

import (
	"slices"
	"time"

	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
)

// settings are those of a route that its parser depends on. A scope has some, and others in which an owner may find it configured. What holds for a record is what
// the owner was told that has found O at or below it, and O has passed it.
type settings struct {
	onDuplicate topics.OnDuplicate
	remember    time.Duration
	jitter      time.Duration
}

// since says from which offset on settings hold.
type since struct {
	from int64
	settings
}

// settled are the settings that hold at an offset, as far as any owner has begun.
func (v *life) settled(offset int64) settings {
	for _, s := range slices.Backward(v.held) {
		if offset >= s.from {
			return s.settings
		}
	}
	return v.usual
}

// remembers reports whether ids are, anywhere.
func (v *life) remembers() bool {
	return slices.ContainsFunc(v.held, func(s since) bool { return s.remember > 0 })
}

// replaces reports whether an entry takes away what has its id, whether it says so or not.
func (v *life) replaces(e *entry) bool {
	return e.hasID() && v.settled(e.Offset).onDuplicate == topics.DuplicateReplaces
}

// configured: an owner begins, with settings that hold for what no other one has accepted.
func (v *life) configured(c state.Checkpoint) {
	from := c.Offset
	if len(c.Parsers) == 0 { // all that tells is gone
		from = 0
	}
	v.held = slices.DeleteFunc(v.held, func(s since) bool { return s.from >= from })
	v.held = append(v.held, since{from, v.usual})
	if v.changed {
		v.held[len(v.held)-1].settings = v.others
	}
	if v.settled(c.LowWater) != v.settled(c.Offset) {
		v.note("read by others")
	}
	for offset := from; offset < v.end(); offset++ {
		v.putOff(&v.log[offset])
	}
}

// owns is what an owner is told that begins.
func (v *life) owns() Env {
	if v.changed {
		return v.otherwise
	}
	return v.env
}

// putOff adds jitter to when a request is due, where that is what holds.
func (v *life) putOff(e *entry) {
	if !e.request() || e.what == unparsable || e.due == 0 || v.queue {
		return
	}
	p, err := topics.ParserFor(mustRoute(v.routeWith(v.settled(e.Offset))).Spec())
	v.must(err)
	e.due = e.asked + p.Jitter(testMark, e.Offset)
}

// routeWith is the route of a scope with some settings.
func (s *scope) routeWith(of settings) topics.Route {
	r := testRoute(true)
	r.Target, r.OnDuplicate, r.Remember, r.Jitter = "orders", of.onDuplicate, of.remember, of.jitter
	r.ReplacesLate, r.CancelsAnswered = s.forgiving, s.forgiving
	return r
}

package pending

import (
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
)

// settings are those of a route that its parser depends on. A scope has some, and others in which an owner may find it configured. What holds for a record is what
// the owner was told that has found O at or below it, and O has passed it.
type settings struct {
	fixed       bool // the delay
	prefix      bool // another one than is usual
	keyed       bool // the key of a record is its id
	retry       bool // records come back that a consumer could not process
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
	v.holds(c)
	if v.settled(c.LowWater) != v.settled(c.Offset) {
		v.note("read by others")
	}
	for offset := range v.end() {
		v.putOff(&v.log[offset])
	}
}

// holds has the settings hold that an owner is told, from O on; or from the end of the log, where what lies before it was written for a queue.
func (v *life) holds(c state.Checkpoint) {
	if len(c.Parsers) == 0 { // all that tells is gone
		v.held = []since{{0, v.told()}}
		return
	}
	v.hold(c, v.told())
}

func (v *life) hold(c state.Checkpoint, told settings) {
	was := v.held
	if len(was) == 0 {
		v.holdFrom(c.Offset, told)
		return
	}
	last := was[len(was)-1]
	if last.settings == told {
		return
	}
	if last.fixed && c.LowWater == c.Offset {
		v.holdFrom(max(v.end(), last.from), told)
		return
	}
	mayHaveActed := v.atLeastOnce && c.Offset < v.end()
	v.held = nil
	for i, h := range was {
		if i < len(was)-1 && (was[i+1].from <= c.Offset || h.fixed) {
			v.held = append(v.held, h)
			continue
		}
		if h.from < c.Offset {
			v.held = append(v.held, h)
		}
		now := told
		if mayHaveActed {
			now = told.namingAs(h.settings)
		}
		v.holdFrom(max(h.from, c.Offset), now)
	}
	if mayHaveActed {
		v.holdFrom(max(v.end(), last.from), told)
	}
}

func (v *life) holdFrom(from int64, of settings) {
	v.held = slices.DeleteFunc(v.held, func(s since) bool { return s.from >= from })
	if n := len(v.held); n == 0 || v.held[n-1].settings != of {
		v.held = append(v.held, since{from, of})
	}
}

// namingAs are settings under which records have their ids, and take the place of others, as they did under former ones.
func (s settings) namingAs(former settings) settings {
	if s.fixed || s.retry || former.fixed || former.retry {
		return s
	}
	if s.keyed == former.keyed && s.onDuplicate == former.onDuplicate {
		return s
	}
	s.keyed, s.onDuplicate = former.keyed, former.onDuplicate
	if s.onDuplicate == topics.DuplicateReplaces {
		s.remember = 0
	}
	return s
}

// heldBy has the settings hold that parsers are of.
func (v *life) heldBy(parsers []state.ParserEpoch) {
	v.held = nil
	for _, e := range parsers {
		for _, of := range []settings{v.usual, v.others, v.usual.namingAs(v.others), v.others.namingAs(v.usual)} {
			if mustRoute(v.routeWith(of)).Spec() == e.Spec {
				v.held = append(v.held, since{e.From, of})
				break
			}
		}
	}
	if len(v.held) < len(parsers) {
		v.fail("nobody was configured so that parsers are %v", parsers)
	}
}

// told are the settings of an owner that begins.
func (v *life) told() settings {
	if v.changed {
		return v.others
	}
	return v.usual
}

// owns is what an owner is told that begins.
func (v *life) owns() Env {
	if v.changed {
		return v.otherwise
	}
	return v.env
}

// routeWith is the route of a scope with some settings.
func (s *scope) routeWith(of settings) topics.Route {
	r := testRoute(true)
	r.Target, r.OnDuplicate, r.Remember, r.Jitter = "orders", of.onDuplicate, of.remember, of.jitter
	r.Keyed = of.keyed
	if r.ReplacesLate, r.CancelsAnswered = s.forgiving && !of.fixed, s.forgiving && !of.fixed; of.fixed {
		r.Delay = secondDue * time.Millisecond
	}
	if of.retry {
		r.Retry = &topics.Retrying{Backoff: topics.Backoff{Initial: triesAgain * time.Millisecond, Factor: 1, Max: triesAgain * time.Millisecond}, MaxAttempts: 3}
		r.ReplacesLate = false
	}
	if of.prefix {
		r.Prefix = otherPrefix
	}
	return r
}

// another has owners find the route configured as another sort, or with another prefix.
func (s *scope) another(r *rand.Rand) {
	one := func(of int) bool { return r.IntN(of) == 0 }
	if one(2) {
		s.sorts += string("glf"[r.IntN(3)]) + string("glf"[r.IntN(3)])
		if s.others = (settings{fixed: true}); one(3) && !s.followed {
			s.fixed, s.others = true, settings{onDuplicate: s.onDuplicate, remember: s.remember}
			s.onDuplicate, s.remember = 0, 0
		}
		if s.most.carries > 0 && one(2) {
			s.most.resets = max(s.most.resets, 1)
		}
	}
	if one(3) && !s.fixed && !s.others.fixed {
		s.sorts = "pjznbadN"[r.IntN(8):] + s.sorts + "N"
		if s.others.keyed = true; one(2) {
			s.keyed, s.others.keyed = true, one(2)
		}
	}
	if one(4) && !s.fixed && !s.keyed {
		s.others = settings{retry: true, prefix: s.others.prefix}
		s.most.resets = 0 // else what was carried would have another key than it
		s.sorts = strings.Map(func(sort rune) rune {
			if strings.ContainsRune("qQxRnZ", sort) || strings.ContainsRune("kcv", sort) && (!s.stored || s.most.failures > 0) {
				return -1 // what a handle names has another key by now, and without a store it is not known which
			}
			return sort
		}, s.sorts)
	}
	if one(2) {
		s.sorts += string("AX"[r.IntN(2)])
		if s.others.prefix = true; one(3) {
			s.prefix, s.others.prefix = true, false
		}
	}
}

package pending

import (
	"fmt"
	"math"

	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/wheel"
)

// scouting is what a window does so that the records of one target do not wait in the store for those of another one. Where loading has stopped for
// lack of room, it goes on alone from the horizon: it reads what comes next in the store, and brings so much of each target early that none has
// more than its share of an eighth of the partition's, and nothing of the one that is loaded just now. What does not fit is left behind, and is
// looked for again, from where that begins, when there is little left of the target.
//
// A partition that has seen one target has nothing to look for.
type scouting struct{ *window }

const (
	// scoutAhead is how far ahead of the clock that is done, in ms.
	scoutAhead = 10_000
	// scoutPart is what part of the records that are loaded in a step are read in one: some ms of work.
	scoutPart = 4
	// fewInLine is how many due records of a target in memory are so few that it is looked for more.
	fewInLine = 5000
)

// needed reports whether there is something to look for, from where on and up to where.
func (w scouting) needed(now int64, room Room) (from, until state.Key, is bool) {
	if !w.live || !w.HasFar() || !room.short() || room.Used > room.Budget {
		return from, until, false
	}
	ahead := min(max(room.Most, room.Window), scoutAhead)
	until = state.Key{Due: max(now, w.lateUpTo.Due) + ahead, Seq: math.MaxInt64}
	first := w.first()
	from = first.Later(w.wheel.scouted)
	if is = from.Due < until.Due-ahead/8; first.Due >= until.Due {
		return from, until, false
	}
	for _, l := range w.wheel.lines {
		if l.left != (state.Key{}) && w.runsLow(l) && l.left.Later(first).Less(from) {
			from, is = l.left.Later(first), true
		}
	}
	return from, until, is
}

// first is where what only the store has begins.
func (w scouting) first() state.Key { return w.horizon.Later(w.lateUpTo) }

// share is how many bytes of one target there may be.
func (w scouting) share() int64 { return w.wheel.most / int64(max(len(w.wheel.lines), 2)) }

// takes reports whether there is room for more of a target. What is loaded next is not brought early.
func (w scouting) takes(l *line) bool {
	return l != w.wheel.loads && l.early < w.share() && w.wheel.bytes < w.wheel.most
}

// runsLow reports whether little is left in memory of a target, and nothing else brings more.
func (w scouting) runsLow(l *line) bool {
	return l != w.wheel.loads && l.n < fewInLine && l.early <= w.share()/2 && w.wheel.bytes < w.wheel.most
}

// step looks at what comes next.
func (w scouting) step(now int64, room Room) error {
	t := &w.wheel
	t.most = room.Share / 8
	from, until, is := w.needed(now, room)
	switch {
	case !is:
		return nil
	case !t.several && t.numbers.given == 1: // all of it goes to one target, and is loaded in time
		t.scouted, t.line(1).left = until, w.first()
		return nil
	}
	if err := w.Sync(); err != nil {
		return err
	}
	for _, l := range t.lines {
		if l.left != (state.Key{}) {
			l.left = l.left.Later(w.first())
		}
	}
	records, _ := room.step()
	records = max(records/scoutPart, 1)
	last, end := from, until
	refused := map[*line]bool{}
	err := w.scan(from, func(k state.Key, run []byte) bool {
		if until.Less(k) {
			return false
		}
		if records--; records < 0 {
			end = last
			return false
		}
		before := last
		last = k
		if _, gone := w.gone[k]; gone || t.has(k) || isStub(run) {
			return true
		}
		n := t.goesTo(k.Due, run)
		switch l := t.line(n); {
		case refused[l], l.left != (state.Key{}) && l.left.Less(from): // what comes before it is not here
		case w.takes(l):
			t.Add(wheel.Tick(k.Due), k.Seq, uint64(w.near.put(k.Due, run, true).to(n)))
		default:
			refused[l], l.left = true, before
		}
		return true
	})
	if err != nil {
		return fmt.Errorf("look for records of other targets in the store: %w", err)
	}
	for _, l := range t.lines {
		if l.left != (state.Key{}) && !l.left.Less(from) && !refused[l] {
			l.left = l.left.Later(end)
		}
	}
	w.upTo(t.scouted.Later(end))
	return nil
}

// takeIn brings a record early that has come, if its place was passed. It is in the store, or its open batch.
func (w scouting) takeIn(key state.Key, run []byte) {
	t := &w.wheel
	if !w.live || !t.several || t.scouted.Less(key) {
		return
	}
	n := t.goesTo(key.Due, run)
	switch l := t.line(n); {
	case l.left != (state.Key{}) && l.left.Less(key):
	case w.takes(l):
		t.Add(wheel.Tick(key.Due), key.Seq, uint64(w.near.put(key.Due, run, true).to(n)))
	default:
		l.left = state.Key{Due: key.Due, Seq: key.Seq - 1}
	}
}

// upTo takes in up to where it is known what the store has above the horizon.
func (w scouting) upTo(key state.Key) {
	t := &w.wheel
	if t.scouted = key; !w.horizon.Less(key) {
		t.scouted = state.Key{}
	}
	for _, l := range t.lines {
		if !l.left.Less(t.scouted) {
			l.left = state.Key{}
		}
	}
}

// end has nothing early any more.
func (w scouting) end() {
	for key := range w.wheel.above {
		r, _ := w.wheel.Remove(wheel.Tick(key.Due), key.Seq)
		evict(w.window, wheel.Entry{Due: wheel.Tick(key.Due), Seq: key.Seq, Ref: r})
	}
	w.upTo(state.Key{})
}

package pending

import (
	"cmp"
	"slices"

	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/wheel"
)

// ration is how much a part may take.
type ration struct {
	records int
	bytes   int64
	stubs   int  // beside the records
	beside  bool // nothing of the longest line, unless much is late
	// Above 0: only of what lies below this offset, and all of it overtakes;
	below int64
	but   number // what goes to this target does not,
	looks int    // and so many entries are looked at for that.
}

func (l *ration) left() bool { return l.records > 0 && l.bytes > 0 }

// fits reports whether a part may take all of some entries.
func (t *timetable) fits(all []wheel.Entry, most ration) bool {
	for i, e := range all {
		if !most.left() {
			return false
		}
		t.near.touch(i, all)
		t.count(e, &most)
	}
	return true
}

// count counts what is taken.
func (t *timetable) count(e wheel.Entry, left *ration) {
	run := t.near.get(ref(e.Ref))
	if left.stubs > 0 && isStub(run) {
		left.stubs--
		return
	}
	left.records--
	left.bytes -= int64(len(run))
}

// share takes from lines no less than an equal share of each, if it has as much: those that have least come first, and what they leave is shared
// among the others (max-min fairness). Where there are more lines than records to take, those come first that wait longest. The first of all is
// taken in any case, so that W moves; not beside another part, which has seen to that: then the longest line is left out. Beside a list of what is late,
// where W stays, each line gives what may overtake.
func (t *timetable) share(now wheel.Tick, left ration, out []wheel.Entry) []wheel.Entry {
	first := t.firstLine()
	var but *line
	if left.but > 0 {
		but = t.line(left.but)
	}
	for n := -1; left.left() && len(out) > n && (n < 0 || left.below == 0); {
		n = len(out)
		order := t.sharers[:0]
		for _, l := range t.lines {
			if l.n > 0 && l.blocks[0][0].Due <= now && l != but {
				order = append(order, l)
			}
		}
		if t.sharers = order; left.beside && left.below == 0 { // else it is the list of what is late that is longest
			order = withoutLongest(order)
		}
		few := len(order) <= left.records
		slices.SortFunc(order, func(a, b *line) int {
			if few {
				return cmp.Compare(a.n, b.n)
			}
			return a.head().Compare(b.head())
		})
		for i, l := range order {
			if left.left() || l == first && left.records > 0 && n == 0 && !left.beside && left.below == 0 {
				out = t.from(l, now, &left, len(order)-i, out)
			}
		}
	}
	return out
}

// withoutLongest leaves out the line that is longest.
func withoutLongest(lines []*line) []*line {
	if len(lines) == 0 {
		return nil
	}
	longest := slices.MaxFunc(lines, func(a, b *line) int { return cmp.Compare(a.n, b.n) })
	return slices.DeleteFunc(lines, func(l *line) bool { return l == longest })
}

// from takes from a line one of so many shares of what is left, but one record at least. What never overtakes waits until it is the first of all, and
// beside a list of what is late for the end of that.
func (t *timetable) from(l *line, now wheel.Tick, left *ration, shares int, out []wheel.Entry) []wheel.Entry {
	was := ration{records: max(left.records/shares, 1), bytes: max(left.bytes/int64(shares), 1), stubs: left.stubs}
	mine, others := was, t.firstBeside(l)
	take := func(e wheel.Entry) {
		t.queued--
		t.early.forget(keyOfEntry(e))
		t.count(e, &mine)
		out = append(out, e)
	}
	if left.below > 0 {
		most := max(left.looks/shares, 1)
		left.looks -= l.pick(most, picking{t, now, left.below}.of(&mine, take))
	}
	for i := 0; left.below == 0 && mine.left() && l.n > 0 && l.blocks[0][0].Due <= now && (t.inOrder(l.head(), others) || t.overtakes(l.blocks[0][0])); i++ {
		if i%touchAhead == 0 {
			t.near.touch(0, l.blocks[0])
		}
		take(l.pop())
	}
	left.records -= was.records - mine.records
	left.bytes -= was.bytes - mine.bytes
	left.stubs = mine.stubs
	return out
}

// picking is what is taken of a line beside a list of what is late.
type picking struct {
	*timetable
	now   wheel.Tick
	below int64
}

// of says of entries, one after the other, whether they are taken: not what has to wait, nor what is due together with that and comes behind it.
func (p picking) of(left *ration, take func(wheel.Entry)) func(wheel.Entry) (takes, goOn bool) {
	waits, waiting := wheel.Tick(0), false
	return func(e wheel.Entry) (takes, goOn bool) {
		if !left.left() || e.Due > p.now {
			return false, false
		}
		if waiting && e.Due == waits {
			return false, true
		}
		if takes = liesBelow(p.timetable, e, p.below) && p.overtakes(e); takes {
			take(e)
		} else {
			waits, waiting = e.Due, true
		}
		return takes, true
	}
}

// liesBelow reports whether the log holds a record below an offset, and has always.
func liesBelow(t *timetable, e wheel.Entry, offset int64) bool {
	place, err := recordOffset(t.near.get(ref(e.Ref)))
	return err == nil && e.Seq < offset && place < offset
}

// overtakes reports whether an entry may be taken while a smaller key waits. A stub may not, nor may what leaves one: a resolve record would say that
// there is none.
func (t *timetable) overtakes(e wheel.Entry) bool {
	if t.parsers.memory() == 0 {
		return true // nothing leaves a stub
	}
	run := t.near.get(ref(e.Ref))
	return !isStub(run) && t.parsers.leaves(keyOfEntry(e), run, state.Key{}) == (state.Key{})
}

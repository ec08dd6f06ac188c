package pending

import (
	"cmp"
	"slices"
	"unsafe"

	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
	"github.com/duewheel/duewheel/wheel"
)

// timetable is what memory holds of what is pending, by key. It is in a wheel; and of several targets, what is due and did not fit into
// a part is in lines, one for each target. Parts take of the lines in equal shares, so that what is due of one target does not wait for all that
// is due of another one. What a part takes is in order as long as no smaller key waits. What goes beyond *overtakes*: W cannot say
// that it is resolved, so a resolve record does.
//
// Invariants: what is in the wheel has a key above sorted, and at or below the horizon. What has a key at or below both is in lines; what came early
// may be, too.
type timetable struct {
	*wheel.Wheel
	sorted state.Key
	early
	numbers numbers       // of targets
	lines   []*line       // that are used; the first is of what goes nowhere. Nil: none is
	byTo    []*line       // by the number of their target
	queued  int           // in lines
	loads   *line         // of what was loaded last
	sharers []*line       // scratch
	taken   []wheel.Entry // scratch

	several bool // it goes to several targets, or may

	near    *near
	parsers *parsers
	mark    topics.Mark
	rec     Record         // scratch
	req     topics.Request // scratch
}

const (
	// mostLines are so many that further targets share theirs.
	mostLines = 256
	// sortAtOnce is how many entries go from the wheel into lines for a part, at least.
	sortAtOnce = 5000
	// sortAhead is as many times what the part may take of records of which it is known where they go, and parseAhead of others, each of which
	// is parsed. As long as something due is in the wheel, what is due of other targets may be behind it.
	sortAhead  = 20
	parseAhead = 2
	// mostScratch are so many entries of scratch that it is kept.
	mostScratch = 4096
)

// sees takes in where a record goes.
func (t *timetable) sees(target []byte) number {
	n := t.numbers.number(target)
	t.several = t.several || t.numbers.given > 1
	return n
}

// Len is how many entries it holds.
func (t *timetable) Len() int { return t.Wheel.Len() + t.queued + t.waiting.n }

// upToHorizon is how many of them are not early.
func (t *timetable) upToHorizon() int { return t.Len() - len(t.above) }

// Bytes is the memory that it takes.
func (t *timetable) Bytes() int {
	return t.Wheel.Bytes() + (t.queued+t.waiting.n+cap(t.taken))*int(unsafe.Sizeof(wheel.Entry{})) + len(t.above)*earlyBytes
}

// Next is when the first entry is due.
func (t *timetable) Next() (wheel.Tick, bool) {
	due, ok := t.Wheel.Next()
	for _, l := range [...]*line{&t.waiting, t.firstLine()} {
		if l != nil && l.n > 0 && (!ok || l.blocks[0][0].Due < due) {
			due, ok = l.blocks[0][0].Due, true
		}
	}
	return due, ok
}

// Now is where it begins: nothing is due before.
func (t *timetable) Now() wheel.Tick {
	if due, ok := t.Next(); ok {
		return min(due, t.Wheel.Now())
	}
	return t.Wheel.Now()
}

// firstLine is the one with the smallest key; nil where nothing is in lines.
func (t *timetable) firstLine() *line {
	if t.queued == 0 {
		return nil
	}
	first := t.lines[0]
	for _, l := range t.lines[1:] {
		if l.n > 0 && (first.n == 0 || l.head().Less(first.head())) {
			first = l
		}
	}
	return first
}

// firstBeside is the smallest key in lines other than one; the greatest that there is if they are empty.
func (t *timetable) firstBeside(other *line) state.Key {
	first := farthest
	for _, l := range t.lines {
		if l != other && l.n > 0 && l.head().Less(first) {
			first = l.head()
		}
	}
	return first
}

// Add puts an entry in.
func (t *timetable) Add(due wheel.Tick, seq int64, r uint64) {
	if e := (wheel.Entry{Due: due, Seq: seq, Ref: r}); t.horizon.Less(keyOfEntry(e)) {
		t.early.add(e, t.lineOf(e), len(t.near.get(ref(r))))
	} else {
		t.place(e)
	}
}

// place puts an entry in that is not early.
func (t *timetable) place(e wheel.Entry) {
	if t.sorted.Less(keyOfEntry(e)) {
		t.Wheel.Add(e.Due, e.Seq, e.Ref)
		return
	}
	t.queue(e, t.lineOf(e))
}

// Remove takes one entry out.
func (t *timetable) Remove(due wheel.Tick, seq int64) (uint64, bool) {
	key := state.Key{Due: int64(due), Seq: seq}
	if ref, ok := t.unqueue(key); ok || !t.sorted.Less(key) {
		return ref, ok
	}
	return t.Wheel.Remove(due, seq)
}

// TakeFrom removes every entry that is due at a tick or later, and calls fn for each.
func (t *timetable) TakeFrom(due wheel.Tick, fn func(wheel.Entry)) {
	t.Wheel.TakeFrom(due, fn)
	both := func(e wheel.Entry) {
		t.early.forget(keyOfEntry(e))
		fn(e)
	}
	for _, l := range t.lines {
		before := l.n
		l.takeFrom(due, both)
		t.queued -= before - l.n
	}
	t.waiting.takeFrom(due, both)
}

// queue puts an entry into a line.
func (t *timetable) queue(e wheel.Entry, l *line) {
	l.add(e)
	t.queued++
}

// unqueue takes an entry out that is not in the wheel.
func (t *timetable) unqueue(key state.Key) (ref uint64, ok bool) {
	if t.waiting.n > 0 {
		ref, ok = t.waiting.remove(key)
	}
	for i := 0; !ok && t.queued > 0 && i < len(t.lines); i++ {
		if ref, ok = t.lines[i].remove(key); ok {
			t.queued--
		}
	}
	if ok {
		t.early.forget(key)
	}
	return ref, ok
}

// lineOf is the line in which a record waits.
func (t *timetable) lineOf(e wheel.Entry) *line {
	r := ref(e.Ref)
	if n := r.number(); n > 0 {
		return t.line(n)
	}
	return t.line(t.goesTo(int64(e.Due), t.near.get(r)))
}

// goesTo is the number of the target of a record, which is parsed; 0: it goes nowhere.
func (t *timetable) goesTo(due int64, run []byte) number {
	if isStub(run) || t.rec.Decode(run) != nil {
		return 0
	}
	rec := &t.rec
	req := &t.req
	if t.parsers.at(rec.Offset).Again(req, rec.Headers, topics.Stamp{Key: rec.Key, NoValue: rec.Value == nil}, due, rec.Offset, &t.mark) != nil {
		return 0 // it is dead-lettered
	}
	return t.numbers.number(req.Target)
}

// line is that of a target.
func (t *timetable) line(n number) *line {
	if t.lines == nil {
		nowhere := &line{}
		t.lines, t.byTo = []*line{nowhere}, []*line{nowhere}
	}
	if more := int(n) + 1 - len(t.byTo); more > 0 {
		t.byTo = append(t.byTo, make([]*line, more)...)
	}
	if t.byTo[n] == nil && len(t.lines) < mostLines {
		t.byTo[n] = &line{}
		t.lines = append(t.lines, t.byTo[n])
	} else if t.byTo[n] == nil {
		t.byTo[n] = slices.MinFunc(t.lines[1:], func(a, b *line) int { return cmp.Compare(a.n, b.n) }) // never one of which very much is due
	}
	return t.byTo[n]
}

// dropLines gives up all lines, which are empty. Where there are no numbers left, and no ref bears one, they are given anew.
func dropLines(t *timetable) {
	t.lines, t.byTo, t.sharers, t.loads = nil, nil, nil, nil
	if t.numbers.given == mostNumbers-1 && t.Wheel.Len() == 0 {
		t.numbers = numbers{seed: t.numbers.seed}
	}
}

// due takes what is due and fits: first what is in order, then what overtakes, each in the order of keys; and says how much of it is in order, which is
// something if anything is due. What it returns is good until it is called again.
func (t *timetable) due(now wheel.Tick, most ration) (entries []wheel.Entry, inOrder int) {
	if !most.left() {
		return nil, 0
	}
	due := nextOf(t, now, most)
	if t.queued == 0 && t.fits(due, most) {
		t.taken = due
		return due, len(due)
	}
	due = sortAll(t, now, due, most)
	if t.queued > 0 && t.inOrder(t.firstLine().head(), farthest) { // else the store has what comes first
		due = t.share(now, most, due)
	}
	t.taken = due
	slices.SortFunc(due, compareEntries)
	for rest := t.firstBeside(nil); inOrder < len(due) && t.inOrder(keyOfEntry(due[inOrder]), rest); {
		inOrder++
	}
	if t.queued == 0 && t.early.nothing() {
		dropLines(t)
	}
	return due, inOrder
}

// overtakers takes of what is due and may overtake as much as fits, of what lies below what is late next and goes elsewhere: it overtakes
// what waits elsewhere. What it returns is good until it or due is called again.
func overtakers(t *timetable, now wheel.Tick, most ration, next *held) []wheel.Entry {
	most.below, most.but, most.looks = next.offset, next.goesTo(), max(sortAtOnce, sortAhead*most.records)
	due := sortAll(t, now, nextOf(t, now, most), most)
	t.taken = t.share(now, most, due)
	slices.SortFunc(t.taken, compareEntries)
	return t.taken
}

// nextOf takes the next due entries out of the wheel, as many as may have to be parsed, into scratch. What is early and due by now is in a line then.
func nextOf(t *timetable, now wheel.Tick, most ration) []wheel.Entry {
	if cap(t.taken) > mostScratch {
		t.taken = nil
	}
	due := t.Wheel.Take(now, t.taken[:0], max(sortAtOnce, parseAhead*most.records))
	for e, l := range t.early.due(now) {
		t.queue(e, l)
	}
	return due
}

// sortAll puts entries into their lines, and what is due behind them, as much as is to be sorted at once. It returns their memory.
func sortAll(t *timetable, now wheel.Tick, due []wheel.Entry, most ration) []wheel.Entry {
	left, parses := max(sortAtOnce, sortAhead*most.records), max(sortAtOnce, parseAhead*most.records)
	for len(due) > 0 {
		left, parses = left-len(due), parses-t.sort(due)
		due = t.Wheel.Take(now, due[:0], min(left, parses))
	}
	return due[:0]
}

// sort puts entries into their lines, and returns how many had to be parsed for that.
func (t *timetable) sort(due []wheel.Entry) (parsed int) {
	for i, e := range due {
		if ref(e.Ref).number() == 0 {
			if parsed%touchAhead == 0 {
				t.near.fetch(0, due[i:])
			}
			parsed++
		}
		t.queue(e, t.lineOf(e))
	}
	t.sorted = keyOfEntry(due[len(due)-1])
	return parsed
}

// inOrder reports whether all that has a smaller key than an entry that is due is taken, if what is in other lines has greater keys than one: what is
// in the wheel, and what only the store has.
func (t *timetable) inOrder(key, others state.Key) bool {
	if !key.Less(others) || t.horizon.Less(key) {
		return false
	}
	next, ok := t.Wheel.Next()
	return !ok || !t.sorted.Less(key) || key.Due < int64(next)
}

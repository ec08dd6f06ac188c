package pending

import (
	"cmp"
	"slices"

	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/wheel"
)

// line is what waits of one target, in the order of keys. Most of it is added at the end and taken from the front. It is made of blocks,
// so that what comes in between moves little.
type line struct {
	blocks [][]wheel.Entry // none is empty
	n      int

	early int64     // bytes of its target that are in memory early
	left  state.Key // not zero: of what the store has of its target above that, little is in memory early
}

// lineBlock is how many entries a block has at most: 12 KiB.
const lineBlock = 512

func keyOfEntry(e wheel.Entry) state.Key { return state.Key{Due: int64(e.Due), Seq: e.Seq} }

func compareEntries(a, b wheel.Entry) int {
	if a.Due != b.Due {
		return cmp.Compare(a.Due, b.Due)
	}
	return cmp.Compare(a.Seq, b.Seq)
}

// head is the key of its first entry. There must be one.
func (l *line) head() state.Key { return keyOfEntry(l.blocks[0][0]) }

func (l *line) add(e wheel.Entry) {
	l.n++
	i := len(l.blocks)
	if i > 0 && compareEntries(l.blocks[i-1][len(l.blocks[i-1])-1], e) > 0 {
		i = l.blockOf(e)
	}
	if i == len(l.blocks) {
		if i == 0 || len(l.blocks[i-1]) == lineBlock {
			l.blocks = append(l.blocks, make([]wheel.Entry, 0, lineBlock))
		} else {
			i--
		}
		l.blocks[i] = append(l.blocks[i], e)
		return
	}
	if b := l.blocks[i]; len(b) == lineBlock {
		l.blocks = slices.Insert(l.blocks, i+1, slices.Clone(b[lineBlock/2:]))
		l.blocks[i] = b[: lineBlock/2 : lineBlock/2]
		i = l.blockOf(e)
	}
	at, _ := slices.BinarySearchFunc(l.blocks[i], e, compareEntries)
	l.blocks[i] = slices.Insert(l.blocks[i], at, e)
}

// blockOf is the first block that ends at or behind an entry.
func (l *line) blockOf(e wheel.Entry) int {
	i, _ := slices.BinarySearchFunc(l.blocks, e, func(b []wheel.Entry, e wheel.Entry) int { return compareEntries(b[len(b)-1], e) })
	return i
}

// pop takes the first entry. There must be one.
func (l *line) pop() wheel.Entry {
	e := l.blocks[0][0]
	l.n--
	if l.blocks[0] = l.blocks[0][1:]; len(l.blocks[0]) == 0 {
		l.blocks = l.blocks[1:]
	}
	return e
}

// pick looks at the first entries, so many at most and as long as it is told to go on, and takes those out that fn says. It returns at how many it has
// looked.
func (l *line) pick(most int, fn func(wheel.Entry) (takes, goOn bool)) (looked int) {
	goOn := true
	for i := 0; i < len(l.blocks) && goOn && looked < most; i++ {
		kept := l.blocks[i][:0]
		for _, e := range l.blocks[i] {
			takes := false
			if goOn = goOn && looked < most; goOn {
				takes, goOn = fn(e)
				looked++
			}
			if takes {
				l.n--
			} else {
				kept = append(kept, e)
			}
		}
		l.blocks[i] = kept
	}
	l.blocks = slices.DeleteFunc(l.blocks, func(b []wheel.Entry) bool { return len(b) == 0 })
	return looked
}

func (l *line) remove(key state.Key) (ref uint64, ok bool) {
	e := wheel.Entry{Due: wheel.Tick(key.Due), Seq: key.Seq}
	i := l.blockOf(e)
	if i == len(l.blocks) {
		return 0, false
	}
	at, ok := slices.BinarySearchFunc(l.blocks[i], e, compareEntries)
	if !ok {
		return 0, false
	}
	ref = l.blocks[i][at].Ref
	l.n--
	if l.blocks[i] = slices.Delete(l.blocks[i], at, at+1); len(l.blocks[i]) == 0 {
		l.blocks = slices.Delete(l.blocks, i, i+1)
	}
	return ref, true
}

// takeFrom removes what is due at a tick or later, and calls fn for each.
func (l *line) takeFrom(due wheel.Tick, fn func(wheel.Entry)) {
	i := l.blockOf(wheel.Entry{Due: due, Seq: -1})
	if i == len(l.blocks) {
		return
	}
	at, _ := slices.BinarySearchFunc(l.blocks[i], wheel.Entry{Due: due, Seq: -1}, compareEntries)
	gone := slices.Concat(append([][]wheel.Entry{l.blocks[i][at:]}, l.blocks[i+1:]...)...)
	l.n -= len(gone)
	if l.blocks[i] = l.blocks[i][:at]; at > 0 {
		i++
	}
	clear(l.blocks[i:])
	l.blocks = l.blocks[:i]
	for _, e := range gone {
		fn(e)
	}
}

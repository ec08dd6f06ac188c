package pending

import (
	"iter"

	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/wheel"
)

// early is what memory holds although it lies above the horizon. Where so much is due of one target that loading stops in the middle of it, a few
// records of each target are brought early, so that none waits for what the store has of another one (scouting.go). The store holds them too, so
// that nothing rests on what is here or is not: what the horizon passes is here already, or is loaded.
//
// Invariants: above has every key in memory that is above the horizon, and no other, and keys has the same. What is in waiting is in above. The store holds, or its open
// batch, what is in above.
type early struct {
	horizon *state.Key
	above   map[state.Key]earlyEntry
	keys    line  // of above, in their order
	waiting line  // of them, what is in no line since it was not due yet
	bytes   int64 // of all
	most    int64 // so many there may be

	scouted state.Key // up to here it is known what the store has above the horizon: it is early, or its line is left behind. Zero: nothing is
}

// earlyEntry is what is known of one that is early.
type earlyEntry struct {
	of    *line // of its target
	bytes int64
}

// earlyBytes is what one takes in memory, about, beside its record and its place in a line.
const earlyBytes = 88

func (x *early) add(e wheel.Entry, of *line, bytes int) {
	if x.above == nil {
		x.above = map[state.Key]earlyEntry{}
	}
	x.above[keyOfEntry(e)] = earlyEntry{of, int64(bytes)}
	x.keys.add(e)
	of.early += int64(bytes)
	x.bytes += int64(bytes)
	x.waiting.add(e)
}

// has reports whether the record of a key is early.
func (x *early) has(key state.Key) bool {
	_, is := x.above[key]
	return is
}

// forget takes in that an entry is not early any more, if it was.
func (x *early) forget(key state.Key) {
	if e, is := x.above[key]; is {
		delete(x.above, key)
		x.keys.remove(key)
		e.of.early -= e.bytes
		x.bytes -= e.bytes
	}
}

// due takes out of waiting what is due by now, and gives the line of each.
func (x *early) due(now wheel.Tick) iter.Seq2[wheel.Entry, *line] {
	return func(yield func(wheel.Entry, *line) bool) {
		for x.waiting.n > 0 && x.waiting.blocks[0][0].Due <= now {
			e := x.waiting.pop()
			if !yield(e, x.above[keyOfEntry(e)].of) {
				return
			}
		}
	}
}

// passed takes in that the horizon has risen, and returns what it has passed that is in no line.
func (x *early) passed() (out []wheel.Entry) {
	for x.keys.n > 0 && !x.horizon.Less(x.keys.head()) {
		x.forget(keyOfEntry(x.keys.pop()))
	}
	for x.waiting.n > 0 && !x.horizon.Less(x.waiting.head()) {
		out = append(out, x.waiting.pop())
	}
	return out
}

// nothing reports whether nothing is early, nor scouted.
func (x *early) nothing() bool { return len(x.above) == 0 && x.scouted == state.Key{} }

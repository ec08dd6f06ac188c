package pending

import (
	"slices"

	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/wheel"
)

// sifted is what was found in the wheel of some keys, and is there no more. What is in lines is found there.
type sifted struct {
	wheel *timetable
	found map[state.Key]ref // nil: each is looked for by itself
	since int64             // so is one from this offset on: it may have come into the wheel since
}

// siftFrom is how many keys are looked for together, which costs as much as the slots of the wheel hold in which they may lie, and for many as much as
// for one.
const siftFrom = 2

// sift looks for keys in the wheel.
func sift(w *timetable, keys []state.Key, since int64) sifted {
	s := sifted{wheel: w, since: since}
	var near []wheel.Entry
	for _, key := range keys {
		if !w.horizon.Less(key) && w.sorted.Less(key) { // what lies above is early, or only the store has it, and what was sorted is in a line
			near = append(near, wheel.Entry{Due: wheel.Tick(key.Due), Seq: key.Seq})
		}
	}
	if len(near) < siftFrom {
		return s
	}
	slices.SortFunc(near, compareEntries)
	s.found = map[state.Key]ref{}
	w.Wheel.RemoveAll(near, func(e wheel.Entry) { s.found[keyOfEntry(e)] = ref(e.Ref) })
	return s
}

// take takes the record of a key out of the wheel, if it is there.
func (s *sifted) take(key state.Key) (r ref, near bool) {
	if r, near = s.found[key]; near {
		delete(s.found, key)
		return r, true
	}
	var u uint64
	if s.found == nil || key.Seq >= s.since {
		u, near = s.wheel.Remove(wheel.Tick(key.Due), key.Seq)
	} else {
		u, near = s.wheel.unqueue(key)
	}
	return ref(u), near
}

// keep puts a record of a key back that was changed, to be found again.
func (s *sifted) keep(key state.Key, r ref) {
	if s.found != nil && key.Seq < s.since {
		s.found[key] = r
		return
	}
	s.putBack(key, r)
}

// putBack takes back that a record was taken.
func (s *sifted) putBack(key state.Key, r ref) { s.wheel.Add(wheel.Tick(key.Due), key.Seq, uint64(r)) }

// giveBack puts into the wheel what was not taken.
func (s *sifted) giveBack() {
	for key, r := range s.found {
		s.wheel.Add(wheel.Tick(key.Due), key.Seq, uint64(r))
	}
}

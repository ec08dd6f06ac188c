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

// siftFrom is how many keys are worth a look at all that the wheel holds: one alone may lie in a slot with as much.
const siftFrom = 16

// sift looks for keys in the wheel.
func sift(w *timetable, keys []state.Key, since int64) sifted {
	s := sifted{wheel: w, since: since}
	keys = slices.DeleteFunc(slices.Clone(keys), w.horizon.Less) // what lies above is early, or only the store has it
	if len(keys) < siftFrom {
		return s
	}
	wanted := make(map[state.Key]struct{}, len(keys))
	for _, key := range keys {
		wanted[key] = struct{}{}
	}
	s.found = map[state.Key]ref{}
	var rest []wheel.Entry
	w.Wheel.TakeFrom(w.Wheel.Now(), func(e wheel.Entry) {
		key := state.Key{Due: int64(e.Due), Seq: e.Seq}
		if _, is := wanted[key]; is {
			s.found[key] = ref(e.Ref)
		} else {
			rest = append(rest, e)
		}
	})
	for _, e := range rest {
		w.Wheel.Add(e.Due, e.Seq, e.Ref)
	}
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

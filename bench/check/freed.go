package check

import "maps"

// freed are the ids of a partition that were given up lately, by hash: what was delivered was seen before all was read that was written before that, so
// what comes of the delay topic may have been left out because of it.
type freed struct{ now, before map[uint64]struct{} }

func (f *freed) note(id uint64) {
	if f.now == nil {
		f.now = make(map[uint64]struct{})
	}
	f.now[id] = struct{}{}
}

func (f *freed) has(id uint64) bool {
	_, now := f.now[id]
	_, before := f.before[id]
	return now || before
}

// ended takes in that it is known where the delay topic ends after all that has arrived, and whether all was read that lay below the end before this one.
func (f *freed) ended(read bool) {
	if read || f.before == nil {
		f.now, f.before = nil, f.now
		return
	}
	maps.Copy(f.before, f.now)
	f.now = nil
}

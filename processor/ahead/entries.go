package ahead

import (
	"cmp"
	"iter"
	"slices"

	"github.com/duewheel/duewheel/state"
)

// condition is what has become of an entry.
type condition uint8

const (
	isHeld       condition = iota
	isUndecided            // at or above O, with an id or in the place of another one: not decided yet
	isRemembered           // delivered, and its id counts as taken for some time (ids.remember)
	isGone                 // resolved, taken away or refused
)

// entry is a record that is pending, or was.
type entry struct {
	offset  int64
	due     int64  // ms
	written int64  // ms: its timestamp; of one that is due at once, when its backoff would be over
	id      uint64 // hash of its id; 0: it has none
	before  int32  // one more than the place of the one before it with the same hash; 0: there is none
	size    int32  // bytes of key, value and headers
	target  int32  // place of the name
	condition
	flags
}

// flags are what is known of an entry beside.
type flags uint8

const (
	atOnce  flags = 1 << iota // of a retry route, which has not seen it yet
	dedup                     // undecided: whether its id is taken
	ignores                   // undecided: it is left out if that is so, and not dead-lettered
	chosen                    // it is one of those that were asked for
	copied                    // it is a carried copy: its seq is in seqs. Undecided: whether it stands for its record
)

const chunk = 4096 // entries: 192 KiB

// entries are those of a partition in the order of the log, in chunks that are never copied.
type entries struct {
	chunks [][]entry
	n      int
	gone   int
	ids    map[uint64]int32 // by hash: one more than the last place with that id
	seqs   map[int64]int64  // by the offset of a copy: that of the record that it stands for
	copies map[int64]int64  // by the offset of a record: that of the copy that stands for it
}

// seq is the offset at which the log had a record first.
func (es *entries) seq(e *entry) int64 {
	if e.flags&copied != 0 {
		return es.seqs[e.offset]
	}
	return e.offset
}

// key is that of a record.
func (es *entries) key(e *entry) state.Key { return state.Key{Due: e.due, Seq: es.seq(e)} }

// addCopy appends the entry of a copy that stands for a record, or may.
func (es *entries) addCopy(e entry, seq int64) {
	e.flags |= copied
	if es.seqs == nil {
		es.seqs, es.copies = map[int64]int64{}, map[int64]int64{}
	}
	es.seqs[e.offset] = seq
	es.add(e)
	if e.condition != isUndecided {
		es.copies[seq] = e.offset
	}
}

func (es *entries) at(i int32) *entry { return &es.chunks[i/chunk][i%chunk] }

// add appends an entry, and returns its place.
func (es *entries) add(e entry) int32 {
	if es.n%chunk == 0 {
		es.chunks = append(es.chunks, make([]entry, 0, chunk))
	}
	place := int32(es.n)
	if e.id != 0 {
		if es.ids == nil {
			es.ids = map[uint64]int32{}
		}
		e.before = es.ids[e.id]
		es.ids[e.id] = place + 1
	}
	last := len(es.chunks) - 1
	es.chunks[last] = append(es.chunks[last], e)
	es.n++
	return place
}

// find is the place of what stands for the record that the log had at an offset first.
func (es *entries) find(seq int64) (int32, bool) {
	if at, is := es.copies[seq]; is {
		return es.findAt(at)
	}
	place, has := es.findAt(seq)
	return place, has && es.at(place).flags&copied == 0 // which lies there, and was first elsewhere
}

// findAt is the place of what lies at an offset.
func (es *entries) findAt(offset int64) (int32, bool) {
	c, _ := slices.BinarySearchFunc(es.chunks, offset, func(c []entry, offset int64) int { return cmp.Compare(c[len(c)-1].offset, offset) })
	if c == len(es.chunks) {
		return 0, false
	}
	i, found := slices.BinarySearchFunc(es.chunks[c], offset, func(e entry, offset int64) int { return cmp.Compare(e.offset, offset) })
	return int32(c*chunk + i), found
}

// withID are the places of what has an id, the last first.
func (es *entries) withID(id uint64) iter.Seq[int32] {
	return func(yield func(int32) bool) {
		for next := es.ids[id]; next > 0; {
			place := next - 1
			next = es.at(place).before
			if !yield(place) {
				return
			}
		}
	}
}

// end ends an entry.
func (es *entries) end(place int32) {
	if e := es.at(place); e.condition != isGone {
		e.condition = isGone
		es.gone++
	}
}

// each calls fn with all that are not gone.
func (es *entries) each(fn func(place int32, e *entry)) {
	for c, entries := range es.chunks {
		for i := range entries {
			if e := &entries[i]; e.condition != isGone {
				fn(int32(c*chunk+i), e)
			}
		}
	}
}

// tidy gives back the memory of what is gone, once that is most of it. Places change.
func (es *entries) tidy() {
	if es.gone < 16*chunk || es.gone < es.n/2 {
		return
	}
	old := es.chunks
	*es = entries{seqs: es.seqs, copies: es.copies}
	for c, all := range old {
		for _, e := range all {
			if e.condition != isGone {
				es.add(e)
			}
		}
		old[c] = nil
	}
}

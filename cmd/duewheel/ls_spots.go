package main

import (
	"cmp"
	"container/heap"
	"slices"

	"github.com/duewheel/duewheel/processor/ahead"
)

// spotsOf are the spots of a partition, all of them: 24 bytes each, mostly.
type spotsOf struct {
	of    int32
	got   *ahead.Looked
	brief []briefSpot
	odd   []oddSpot
}

type briefSpot struct {
	due, offset  int64
	odd          uint32 // one more than the index of what differs; 0: it lies where the log had it first, and is due by its own time
	late, atOnce bool
}

// oddSpot is what a copy has, or a record that is due at another time than its own.
type oddSpot struct{ key, place int64 }

func newSpotsOf(of int32, got *ahead.Looked) *spotsOf {
	return &spotsOf{of: of, got: got, brief: make([]briefSpot, 0, got.Count())}
}

func (s *spotsOf) add(p spot) {
	b := briefSpot{due: p.due, offset: p.offset, late: p.late, atOnce: p.atOnce}
	if p.key != p.due || p.place != p.offset {
		s.odd = append(s.odd, oddSpot{p.key, p.place})
		b.odd = uint32(len(s.odd))
	}
	s.brief = append(s.brief, b)
}

func (s *spotsOf) first() spot {
	b := s.brief[0]
	p := spot{due: b.due, key: b.due, offset: b.offset, place: b.offset, of: s.of, late: b.late, atOnce: b.atOnce}
	if b.odd > 0 {
		p.key, p.place = s.odd[b.odd-1].key, s.odd[b.odd-1].place
	}
	return p
}

// spotsByDue is a heap of partitions: first the one that has what is due first.
type spotsByDue []*spotsOf

func (s spotsByDue) Len() int      { return len(s) }
func (s spotsByDue) Swap(i, j int) { s[i], s[j] = s[j], s[i] }
func (s spotsByDue) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(s[i].brief[0].due, s[j].brief[0].due), compareNames(s[i].got, s[j].got)) < 0
}
func (s *spotsByDue) Push(x any) { *s = append(*s, x.(*spotsOf)) }
func (s *spotsByDue) Pop() any {
	last := (*s)[len(*s)-1]
	*s = (*s)[:len(*s)-1]
	return last
}

// merged returns the spots of partitions one after the other, in the order in which they are due. It is the only one to use them then.
func merged(all []*spotsOf) (next func() (spot, bool)) {
	var rest spotsByDue
	for _, s := range all {
		slices.SortFunc(s.brief, func(a, b briefSpot) int {
			return cmp.Or(cmp.Compare(a.due, b.due), cmp.Compare(a.offset, b.offset))
		})
		if len(s.brief) > 0 {
			rest = append(rest, s)
		}
	}
	heap.Init(&rest)
	return func() (p spot, more bool) {
		if len(rest) == 0 {
			return p, false
		}
		s := rest[0]
		p = s.first()
		if s.brief = s.brief[1:]; len(s.brief) > 0 {
			heap.Fix(&rest, 0)
		} else {
			heap.Pop(&rest)
		}
		return p, true
	}
}

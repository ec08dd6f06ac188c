package check

import (
	"cmp"
	"hash/maphash"
	"slices"
	"strings"
)

// Found is what was found of one kind of fault. In what order topics are read is chance, and so is in which order faults are found; which of them are kept is not.
type Found struct {
	Count int64
	First []Fault // those of the first requests, by topic, partition and offset; at most Config.Keep
	Sum   uint64  // of the places of all: another one where they are as many as before, and not the same
}

var placeSeed = maphash.MakeSeed()

func (f *Found) count(of Source) {
	f.Count++
	f.Sum += maphash.Comparable(placeSeed, of)
}

func (f *Found) clone() *Found {
	copied := *f
	copied.First = slices.Clone(f.First)
	return &copied
}

// mayKeep tells whether a fault, of which no detail is known, may be one of the first.
func (f *Found) mayKeep(one *Fault, most int) bool {
	return len(f.First) < most || comparePlaces(one, &f.First[most-1]) <= 0
}

// add keeps a fault. Up to as many again are kept as are asked for, so that they are sorted now and then only. Invariant: the first of them are in order once there
// are as many as are asked for.
func (f *Found) add(one Fault, most int) {
	f.First = append(f.First, one)
	if n := len(f.First); n == most || n == 2*most {
		f.sort(most)
	}
}

// sort leaves the first. A copy of f may share what it has.
func (f *Found) sort(most int) {
	f.First = slices.SortedFunc(slices.Values(f.First), func(a, b Fault) int { return cmp.Or(comparePlaces(&a, &b), strings.Compare(a.Detail, b.Detail)) })
	f.First = f.First[:min(len(f.First), most)]
}

// comparePlaces orders faults by the request that they are of, and then by what has arrived.
func comparePlaces(a, b *Fault) int {
	return cmp.Or(compareSources(a.Source, b.Source), compareSources(a.at(), b.at()))
}

// at is where a record lies on seeing which the fault was found; zero where there is none.
func (f *Fault) at() Source {
	if f.Arrived == nil {
		return Source{}
	}
	return Source{f.Arrived.Topic, f.Arrived.Partition, f.Arrived.Offset}
}

func compareSources(a, b Source) int {
	return cmp.Or(strings.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Offset, b.Offset))
}

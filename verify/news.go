package verify

import (
	"cmp"
	"slices"
	"strings"
)

// Differs tells whether there are more, fewer or others of a kind than in a report before.
func (f Found) Differs(before Found) bool {
	return f.Count != before.Count || f.sum != before.sum || !slices.EqualFunc(f.First, before.First, f.same)
}

// New is the first of those that are kept that was not there in a report before, as far as that is known. Of what was not kept then it is not: it may have
// been there.
func (f Found) New(before Found) (one Fault, is bool) {
	for _, one := range f.First {
		known := slices.ContainsFunc(before.First, func(was Fault) bool { return f.same(one, was) })
		if n := len(before.First); !known && (before.Count == int64(n) || n > 0 && one.comesBefore(before.First[n-1])) {
			return one, true
		}
	}
	return Fault{}, false
}

// same tells whether two faults are one that was found twice: what is said of it may have changed meanwhile, and so has where a log is cut.
func (f Found) same(a, b Fault) bool {
	return a.Topic == b.Topic && a.Partition == b.Partition && a.At == b.At && (a.Offset == b.Offset || f.Kind == kindCut)
}

func (f Fault) comesBefore(other Fault) bool {
	return cmp.Or(strings.Compare(f.Topic, other.Topic), cmp.Compare(f.Partition, other.Partition), cmp.Compare(f.Offset, other.Offset)) < 0
}

package pending

import (
	"bytes"
	"hash/maphash"
)

// number is that of a target; 0 is of what goes nowhere, or where it is not known.
type number uint16

// mostNumbers are so many, with 0, that further targets share theirs.
const mostNumbers = 1 << 13

// numbers are those of the targets that a partition has seen, from 1 on. Refs bear them, so that records of which very many are due at once
// go into lines without being looked at.
type numbers struct {
	named map[string]number
	given int    // the last that was given
	last  []byte // the target that was asked for last
	was   number // its number
}

// number is the number of a target, which stays the same while any ref bears it.
func (t *numbers) number(target []byte) number {
	if t.given > 0 && bytes.Equal(t.last, target) {
		return t.was
	}
	n, is := t.named[string(target)]
	switch {
	case is:
	case t.given == mostNumbers-1:
		n = number(1 + maphash.Bytes(lineSeed, target)%(mostNumbers-1))
	default:
		if t.named == nil {
			t.named = map[string]number{}
		}
		t.given++
		n = number(t.given)
		t.named[string(target)] = n
	}
	t.last, t.was = append(t.last[:0], target...), n
	return n
}

var lineSeed = maphash.MakeSeed()

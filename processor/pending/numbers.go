package pending

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
)

// number is that of a target; 0 is of what goes nowhere, or where it is not known.
type number uint16

// mostNumbers are so many, with 0, that further targets share theirs.
const mostNumbers = 1 << 13

// numbers are those of the targets that a partition has seen, from 1 on. Refs bear them, so that records of which very many are due at once
// go into lines without being looked at.
type numbers struct {
	seed  uint64 // of those that are shared
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
		n = t.shared(target)
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

// shared is the number of a target when all are given. It follows from the target and from a seed that no producer knows: who may choose what targets are called
// could else choose one that has the number of another target, and have that wait for whatever it writes.
func (t *numbers) shared(target []byte) number {
	sum := sha256.Sum256(append(binary.LittleEndian.AppendUint64(nil, t.seed), target...))
	return number(1 + binary.LittleEndian.Uint64(sum[:])%(mostNumbers-1))
}

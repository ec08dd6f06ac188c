package pending

import (
	"strconv"
	"testing"
)

// Which targets share a number follows from the seed, and from nothing else: a partition that is told the same again gives them the same.
func TestSharedNumbersFollowFromTheSeed(t *testing.T) {
	const many = 2 * mostNumbers
	given := func(seed uint64) (all []number) {
		of := numbers{seed: seed}
		for i := range many {
			all = append(all, of.number([]byte("t"+strconv.Itoa(i))))
		}
		return all
	}
	one, again, other := given(1), given(1), given(2)
	same := 0
	for i := range one {
		equal(t, "number of t"+strconv.Itoa(i), again[i], one[i])
		if i >= mostNumbers && other[i] == one[i] {
			same++
		}
	}
	if same > many/100 {
		t.Errorf("%d targets have the same shared number with another seed", same)
	}
}

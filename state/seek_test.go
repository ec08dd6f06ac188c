package state

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// The next offset is found wherever it lies: in the same word or bitmap, behind many that are empty, in another page, or nowhere.
func TestOffsetsNext(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, spread := range []int64{100, 5_000, 3_000_000} {
		set, list := newOffsets(1_000_000), []int64{}
		for range 400 {
			if o := 1_000_000 + rng.Int64N(spread); !slices.Contains(list, o) {
				list = append(list, o)
				set.add(o)
			}
			if len(list) == int(spread) {
				break
			}
		}
		slices.Sort(list)
		for range 20_000 {
			from := 999_000 + rng.Int64N(spread+2000)
			i, _ := slices.BinarySearch(list, from)
			got, ok := set.next(from)
			if ok != (i < len(list)) || ok && got != list[i] {
				t.Fatalf("spread over %d: the next from %d is %d, %v; want number %d of %d", spread, from, got, ok, i, len(list))
			}
		}
	}
	empty := newOffsets(0)
	if _, ok := empty.next(0); ok {
		t.Error("there is one where there is none")
	}
}

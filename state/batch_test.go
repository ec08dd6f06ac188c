package state

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// What a batch writes is in the order of keys, and of that in which it was told where they are the same, however it was told.
func TestBatchesAreSorted(t *testing.T) {
	const start = 1_750_000_000_000
	for _, c := range []struct {
		name    string
		next    func(rng *rand.Rand, i int) Key
		ordered bool // by the log
	}{
		{"as it was read", func(rng *rand.Rand, i int) Key { return Key{start + rng.Int64N(1000), int64(i)} }, true},
		{"all due at one instant", func(_ *rand.Rand, i int) Key { return Key{start, int64(i)} }, true},
		{"one key again and again", func(rng *rand.Rand, i int) Key { return Key{start + int64(i%3), int64(i / 5)} }, true},
		{"before 1970", func(rng *rand.Rand, i int) Key { return Key{rng.Int64N(2000) - 1000, int64(i)} }, true},
		{"years ahead", func(rng *rand.Rand, i int) Key { return Key{start + rng.Int64N(1<<43), int64(i)} }, true},
		{"as far as can be", func(rng *rand.Rand, i int) Key { return Key{rng.Int64() - rng.Int64(), int64(i)} }, false},
		{"the ends of time", func(_ *rand.Rand, i int) Key { return Key{[]int64{math.MaxInt64, math.MinInt64}[i%2], int64(i)} }, false},
		{"out of the order of the log", func(rng *rand.Rand, i int) Key { return Key{start + rng.Int64N(10), rng.Int64N(50)} }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, 2))
			b := new(openBatch)
			for range 2 { // the memory is used again
				b.ops = b.ops[:0]
				for i := range 1 + rng.IntN(500) + 200 {
					if key := c.next(rng, i); rng.IntN(4) == 0 {
						b.delete(key)
					} else {
						must(t, b.put(key, []byte{byte(i)}))
					}
				}
				want := slices.SortedFunc(slices.Values(b.ops), op.compare)
				if !slices.Equal(want, b.ops) && b.order() != c.ordered {
					t.Errorf("ordered by due time alone: %v", !c.ordered)
				}
				b.sort()
				if !slices.Equal(b.ops, want) {
					t.Fatal("not in order")
				}
			}
		})
	}
}

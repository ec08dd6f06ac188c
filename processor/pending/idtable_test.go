package pending

import (
	"maps"
	"testing"

	"pgregory.net/rapid"

	"github.com/duewheel/duewheel/state"
)

// Against a map, with hashes that collide in their pieces and slots.
func TestIDTable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var x idTable
		want := map[idHash]indexEntry{}
		hashes := rapid.Custom(func(t *rapid.T) idHash {
			return idHash{rapid.Uint64Range(0, 40).Draw(t, "slot"), rapid.SampledFrom([]uint64{1 << 63, 1<<63 | 64, 1<<63 | 1}).Draw(t, "piece")}
		})
		for range rapid.IntRange(0, 200).Draw(t, "steps") {
			h := hashes.Draw(t, "hash")
			if rapid.IntRange(0, 4).Draw(t, "what") < 3 {
				e := indexEntry{state.Key{Due: rapid.Int64().Draw(t, "due"), Seq: int64(len(want))}, rapid.Int64Range(-1<<50, 1<<50).Draw(t, "written"), rapid.Bool().Draw(t, "stub")}
				x.put(h, e)
				want[h] = e
			} else {
				x.remove(h)
				delete(want, h)
			}
			got, has := x.find(h)
			if e, is := want[h]; has != is || got != e {
				t.Fatalf("found %+v, %v, and not %+v, %v", got, has, e, is)
			}
		}
		if got := maps.Collect(x.all()); !maps.Equal(got, want) || x.len() != len(want) {
			t.Fatalf("%d, and %d of %v are not %v", x.len(), len(got), got, want)
		}
		for h := range want {
			if _, has := x.find(h); !has {
				t.Fatalf("%x is not found", h)
			}
		}
	})
}

// What a table takes follows what is in it, in both directions, and a piece that grows is a small part of it.
func TestIDTableSize(t *testing.T) {
	var x idTable
	ids := newIDs()
	id := make([]byte, 8)
	name := func(i int) idHash {
		for b := range id {
			id[b] = byte(i >> (8 * b))
		}
		return ids.hash(id)
	}
	slots := func() (all, most int) {
		for i := range x.pieces {
			all, most = all+len(x.pieces[i].slots), max(most, len(x.pieces[i].slots))
		}
		return all, most
	}
	const n = 200_000
	for i := range n {
		x.put(name(i), indexEntry{key: state.Key{Seq: int64(i)}})
	}
	if all, most := slots(); all > 3*n || most > 3*all/idPieces {
		t.Errorf("%d slots for %d, at most %d in a piece", all, n, most)
	}
	for i := range n {
		x.remove(name(i))
	}
	if all, _ := slots(); all > idPieces*8*leastSlots || x.len() != 0 {
		t.Errorf("%d slots for %d", all, x.len())
	}
}

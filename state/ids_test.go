package state

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"pgregory.net/rapid"
)

// TestIDs compares what is found by ids with a map, whatever is put, taken back, dropped and read again.
func TestIDs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fs := vfs.NewMem()
		open := func() *Store {
			s, err := Open(Options{Dir: "store", FS: fs, MemoryBudget: 1 << 20})
			must(t, err)
			return s
		}
		s := open()
		defer func() { s.Close() }()
		type entry struct {
			id  string
			key Key
		}
		parts := []*Partition{openPartition(t, s, orders(0)), openPartition(t, s, orders(1))}
		want := []map[entry]int64{{}, {}}
		ids := rapid.SampledFrom([]string{"a", "ab", "b", "a\x00", "\xff", "\x00", fmt.Sprintf("%0256d", 7), fmt.Sprintf("%016d", 7)})
		keys := rapid.Custom(func(t *rapid.T) Key {
			return Key{Due: rapid.Int64Range(1, 4).Draw(t, "due"), Seq: rapid.Int64Range(0, 300).Draw(t, "seq")}
		})
		for range rapid.IntRange(1, 12).Draw(t, "batches") {
			n := rapid.IntRange(0, 1).Draw(t, "partition")
			p := parts[n]
			for range rapid.IntRange(0, 10).Draw(t, "ops") {
				e := entry{ids.Draw(t, "id"), keys.Draw(t, "key")}
				if rapid.Bool().Draw(t, "deleteID") {
					p.DeleteID([]byte(e.id), e.key)
					delete(want[n], e)
					continue
				}
				written := rapid.Int64Range(-1, 1<<40).Draw(t, "written")
				p.PutID([]byte(e.id), e.key, written)
				must(t, p.Put(e.key, []byte("x")))
				want[n][e] = written
			}
			must(t, p.Commit(Position{}))
			switch rapid.IntRange(0, 9).Draw(t, "then") {
			case 0:
				must(t, p.Drop())
				clear(want[n])
			case 1:
				must(t, s.Flush())
			case 2:
				must(t, s.Close())
				s = open()
				parts = []*Partition{openPartition(t, s, orders(0)), openPartition(t, s, orders(1))}
			}
			for n, p := range parts {
				got := map[entry]int64{}
				all := []string{"a", "ab", "b", "a\x00", "\xff", "\x00", fmt.Sprintf("%0256d", 7), fmt.Sprintf("%016d", 7), "never"}
				must(t, p.FindIDs(func(yield func(int, []byte) bool) {
					for i, id := range all {
						if !yield(i, []byte(id)) {
							return
						}
					}
				}, func(i int, k Key, written int64) { got[entry{all[i], k}] = written }))
				if !maps.Equal(got, want[n]) {
					t.Fatalf("partition %d: found %v, want %v", n, got, want[n])
				}
				records := 0
				must(t, p.Scan(Key{}, func(Key, []byte) bool { records++; return true }))
				if len(slices.Collect(maps.Keys(want[n]))) > 0 && records == 0 {
					t.Fatal("ids without records")
				}
			}
		}
	})
}

// TestTrimmedIsNotFound: what is at or below the watermark is not pending, whatever a crash has left of its id.
func TestTrimmedIsNotFound(t *testing.T) {
	s := openStore(t, Options{Dir: t.TempDir()})
	p := openPartition(t, s, orders(0))
	for seq := range int64(3) {
		k := Key{Due: 10, Seq: seq}
		must(t, p.Put(k, []byte("x")))
		p.PutID([]byte("id"), k, 5)
	}
	must(t, p.Commit(Position{}))
	must(t, p.Trim(Key{Due: 10, Seq: 1}))
	var got []int64
	must(t, p.FindIDs(slices.All([][]byte{[]byte("id")}), func(_ int, k Key, _ int64) { got = append(got, k.Seq) }))
	if !slices.Equal(got, []int64{2}) {
		t.Errorf("found %v, want 2 alone", got)
	}
}

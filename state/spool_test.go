package state

import (
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// What an owner has laid aside is of use to itself alone. The next handle gives it back with its first batch, whether it lays something aside or not, also
// after a restart; what it lays aside itself stays until it takes it.
func TestLaidAsideIsGivenBack(t *testing.T) {
	fs := vfs.NewMem()
	s := openStore(t, Options{Dir: "s", FS: fs, MemoryBudget: 1 << 20})
	id := PartitionID{Topic: "t", Group: "g"}
	aside := func(p *Partition) (n int) {
		it, err := p.engine.db.NewIter(&pebble.IterOptions{LowerBound: appendCounts(nil, p.slot.part, spoolTag), UpperBound: appendCounts(nil, p.slot.part, spoolTag+1)})
		must(t, err)
		for it.First(); it.Valid(); it.Next() {
			n++
		}
		must(t, it.Close())
		return n
	}
	lay := func(p *Partition, from, to uint64) {
		for n := from; n < to; n++ {
			must(t, p.Spool(n, []byte("records")))
		}
	}
	for _, restarts := range []bool{false, true} {
		p := openPartition(t, s, id)
		lay(p, 0, 3)
		must(t, p.Commit(Position{}))
		if n := aside(p); n != 3 {
			t.Errorf("of three that are laid aside %d are left", n)
		}
		if restarts {
			must(t, s.Close())
			s = openStore(t, Options{Dir: "s", FS: fs, MemoryBudget: 1 << 20})
		}
		next := openPartition(t, s, id)
		must(t, next.Commit(Position{}))
		if n := aside(next); n != 0 {
			t.Errorf("restarted: %v: %d are left of what an earlier handle has laid aside", restarts, n)
		}
		lay(next, 0, 2)
		must(t, next.Commit(Position{}))
		must(t, next.Unspool(0, func([]byte) {}))
		must(t, next.Commit(Position{}))
		if n := aside(next); n != 1 {
			t.Errorf("restarted: %v: %d are left of two, one of which was taken back", restarts, n)
		}
	}
	must(t, s.Close())
}

package state

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// due is the key of what is due at an instant.
func due(at int64) Key { return Key{Due: at, Seq: 1} }

// putAll puts what is due at some instants, and commits it.
func putAll(t *testing.T, p *Partition, at ...int64) {
	t.Helper()
	for _, at := range at {
		must(t, p.Put(due(at), []byte("value")))
	}
	must(t, p.Commit(Position{}))
}

// holds fails unless a scan from the beginning gives what is due at these instants.
func holds(t *testing.T, what string, p *Partition, want ...int64) {
	t.Helper()
	got := []int64{}
	must(t, p.Scan(Key{}, func(k Key, _ []byte) bool { got = append(got, k.Due); return true }))
	if fmt.Sprint(got) != fmt.Sprint(append([]int64{}, want...)) {
		t.Errorf("%s it holds what is due at %v, want %v", what, got, want)
	}
}

func memStore(t *testing.T) *Store {
	return openStore(t, Options{Dir: "store", FS: vfs.NewMem(), MemoryBudget: 4 << 20})
}

// doomedStore is one that a test has fail.
func doomedStore(t *testing.T) *Store {
	t.Helper()
	s, err := Open(Options{Dir: "store", FS: vfs.NewMem(), MemoryBudget: 4 << 20})
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// A batch that does not have all that was put is not committed, even if nothing has looked at the error of the put: not the position either, which would say
// that all of it is there. What is put after that has a batch of its own.
func TestCommitFailsAfterAPut(t *testing.T) {
	for name, put := range map[string]func(*Partition) error{
		"a batch that is too large": func(p *Partition) error { return p.Put(due(2), make([]byte, maxBatch)) }, // which is not copied
		"the zero key":              func(p *Partition) error { return p.Put(Key{}, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			s := memStore(t)
			p := openPartition(t, s, orders(0))
			must(t, p.Put(due(1), nil))
			err := put(p)
			must(t, p.Put(due(3), nil))
			if failed := p.Commit(Position{Resume: 7}); err == nil || !errors.Is(failed, err) {
				t.Errorf("the put failed with %v, and the commit with %v", err, failed)
			}
			if pos, used := p.Position(); used {
				t.Errorf("it stands at %v", pos)
			}
			p = openPartition(t, s, orders(0))
			holds(t, "after that", p)
			putAll(t, p, 4)
			holds(t, "with the next batch", p, 4)
		})
	}
}

// What is put below what was trimmed is held, and does not bring back what was trimmed.
func TestPutBelowWhatWasTrimmed(t *testing.T) {
	s := memStore(t)
	p := openPartition(t, s, orders(0))
	putAll(t, p, 5, 9)
	must(t, p.Trim(due(7)))
	putAll(t, p, 6)
	holds(t, "below", p, 6, 9)
	must(t, p.Trim(due(8)))
	must(t, p.Trim(due(3))) // a watermark does not go back
	holds(t, "trimmed again", p, 9)
	putAll(t, p, 8)
	holds(t, "at it", p, 8, 9)

	p = openPartition(t, s, orders(0))
	must(t, p.Trim(due(8))) // on the disk, since an earlier handle may have left something
	if p.stale {
		t.Error("each Trim deletes")
	}
	holds(t, "by the next handle", openPartition(t, s, orders(0)), 9)
	p = openPartition(t, s, orders(0))
	putAll(t, p, 10)
	must(t, p.Trim(due(10)))
	putAll(t, p, 4)
	p.moved = trimBytes
	if must(t, p.Trim(due(4))); p.moved != 0 {
		t.Error("it deletes with each Trim from now on")
	}
	holds(t, "what was put below what was deleted", openPartition(t, s, orders(0)))
}

// What is trimmed before it is committed is never written.
func TestTrimOfTheOpenBatch(t *testing.T) {
	s := memStore(t)
	p := openPartition(t, s, orders(0))
	for _, at := range []int64{5, 6, 7} {
		must(t, p.Put(due(at), nil))
	}
	must(t, p.Trim(due(6)))
	must(t, p.Commit(Position{}))
	holds(t, "by the next handle", openPartition(t, s, orders(0)), 7)
}

// What was trimmed is not there, and who has no part in it any more is told so.
func TestGetOfWhatIsGone(t *testing.T) {
	s := memStore(t)
	p := openPartition(t, s, orders(0))
	putAll(t, p, 5, 6)
	must(t, p.Trim(due(5)))
	for at, want := range map[int64]bool{4: false, 5: false, 6: true} {
		if found, err := p.Get(due(at), func([]byte) {}); found != want || err != nil {
			t.Errorf("what is due at %d is found: %v, %v", at, found, err)
		}
	}
	openPartition(t, s, orders(0))
	if _, err := p.Get(due(6), func([]byte) {}); !errors.Is(err, ErrEnded) {
		t.Errorf("by an ended handle: %v", err)
	}
}

// What a partition drops is not counted any more, now and by the next handle.
func TestDropForgetsTheCounts(t *testing.T) {
	s := memStore(t)
	p := openPartition(t, s, orders(0))
	count := func(offset int64) {
		must(t, p.Put(Key{7, offset}, nil))
		p.Count(Counted{Key: Key{7, offset}, Offset: offset, Bytes: 3})
		must(t, p.Commit(Position{Offset: 100, Resume: 100}))
	}
	count(5)
	count(6)
	must(t, p.Drop())
	for _, when := range []string{"at once", "when the log is read again"} {
		if c, err := p.Counts(); err != nil || c.Has(5, false) || c.Has(6, false) || c.Len() != 0 && when == "at once" {
			t.Errorf("%s %d are counted, %v", when, c.Len(), err)
		}
		if when == "at once" {
			count(9)
		}
	}
	if c, err := openPartition(t, s, orders(0)).Counts(); err != nil || c.Len() != 1 || !c.Has(9, false) || c.Bytes() != 3 {
		t.Errorf("by the next handle %d are counted, %v", c.Len(), err)
	}
}

// That something has had an id is known to the next handle, whichever batch said so, and when all counts were written since.
func TestIdentifiedOutlivesAHandle(t *testing.T) {
	s := memStore(t)
	p := openPartition(t, s, orders(0))
	must(t, p.Put(due(5), nil))
	p.PutID([]byte("a"), due(5), 0)
	must(t, p.Commit(Position{}))
	p = openPartition(t, s, orders(0))
	if c, err := p.Counts(); err != nil || !c.Identified() {
		t.Fatalf("it is not known that something has an id, %v", err)
	}
	for i := range int64(leastWhole) { // more changes than the counts are long
		p.Count(Counted{Key: Key{5, i}, Offset: i, Bytes: 1})
	}
	must(t, p.Commit(Position{}))
	if p.tally.since != 0 {
		t.Fatal("the counts were not written")
	}
	if c, err := openPartition(t, s, orders(0)).Counts(); err != nil || !c.Identified() {
		t.Errorf("with all counts it is not known, %v", err)
	}
}

// The changes that the counts have are deleted when all counts are written, and those that Above has needed when it does not any more, by the next handle too.
func TestChangesAreDeleted(t *testing.T) {
	for _, next := range []bool{false, true} {
		s := memStore(t)
		p := openPartition(t, s, orders(0))
		offset := int64(0)
		left := func(o int64) (n int) {
			for since := -1; since < p.tally.since; { // until all are written
				since = p.tally.since
				for range 5000 {
					p.Count(Counted{Key: Key{7, offset}, Offset: offset, Bytes: 1})
					offset++
				}
				must(t, p.Commit(Position{Offset: o, Resume: o}))
			}
			from := appendCounts(nil, p.slot.part, changesTag)
			must(t, p.eachCounts(from, appendCounts(nil, p.slot.part, changesTag+1), func(_, _ []byte) error { n++; return nil }))
			return n
		}
		if n := left(0); n < 2 {
			t.Errorf("%d changes are left of those above O", n)
		}
		if next {
			p = openPartition(t, s, orders(0))
			_, err := p.Counts()
			must(t, err)
		}
		if n := left(1 << 40); n > 0 {
			t.Errorf("%d changes are left below O, by the next handle: %v", n, next)
		}
	}
}

// What was counted at O and above is named until O has passed it, whichever batch brought it, and not for longer.
func TestAboveBeginsAtO(t *testing.T) {
	s := memStore(t)
	p := openPartition(t, s, orders(0))
	names := func(what string, want ...int64) {
		t.Helper()
		for _, name := range []string{"", " by the next handle"} {
			all, ok, err := p.Above(10)
			var got []int64
			for _, x := range all {
				got = append(got, x.Offset)
			}
			if !ok || err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s%s it names %v, want %v (%v, %v)", what, name, got, want, ok, err)
			}
			if strings.HasPrefix(what, "of two") {
				continue // it goes on with the handle that has brought them
			}
			p = openPartition(t, s, orders(0))
		}
	}
	count := func(o int64, offsets ...int64) {
		for _, offset := range offsets {
			p.Count(Counted{Key: Key{7, offset}, Offset: offset, Bytes: 1})
		}
		must(t, p.Commit(Position{Offset: o, Resume: o}))
	}
	count(10, 9, 10)
	names("at O", 10)
	count(10, 11)
	names("of two batches", 10, 11)
	count(11, 3)
	names("when O has come to the second", 11)
	p.Uncount(Counted{Key: Key{7, 11}, Offset: 11, Bytes: 1})
	count(11)
	names("when that was taken away")
	count(12)
	if names("when O has passed all"); len(p.tally.tail) > 0 {
		t.Errorf("%d batches are kept", len(p.tally.tail))
	}
}

// What has never been committed has no position, and what was removed is not known after the store was opened again.
func TestPositionsOfWhatIsThere(t *testing.T) {
	fs := vfs.NewMem()
	s := openStore(t, Options{Dir: "store", FS: fs, MemoryBudget: 4 << 20})
	openPartition(t, s, orders(0))
	p := openPartition(t, s, orders(1))
	putAll(t, p, 5)
	if got := s.Positions(); len(got) != 1 {
		t.Errorf("positions %v", got)
	}
	must(t, s.Remove(orders(1)))
	must(t, s.Close())
	s = openStore(t, Options{Dir: "store", FS: fs, MemoryBudget: 4 << 20})
	if len(s.slots) != 1 {
		t.Errorf("%d partitions have names", len(s.slots))
	}
}

// The table of partitions is corrupt when two have one name, or a position has none.
func TestTableSeesFaults(t *testing.T) {
	named := appendID(nil, orders(0))
	position := appendPosition(nil, Position{})
	for what, keys := range map[string][][2][]byte{
		"two of one name":           {{idKey(1), named}, {idKey(2), named}},
		"a position without a name": {{idKey(1), named}, {positionKey(2), position}},
		"a partition of part 0":     {{idKey(0), named}},
		"nothing before its layout": {{layoutKey(), []byte("duewheel 4")}},
		"":                          {{idKey(1), named}, {positionKey(1), position}},
	} {
		x := table{known: true, slots: map[name]*slot{}, parts: map[part]*slot{}, next: 1}
		var err error
		for _, k := range keys {
			err = errors.Join(err, x.read(k[0], k[1]))
		}
		if errors.Is(err, ErrCorrupt) != (what != "") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// What is not there was not laid aside by this handle.
func TestUnspoolOfNothing(t *testing.T) {
	p := openPartition(t, doomedStore(t), orders(0))
	if err := p.Unspool(7, func([]byte) { t.Error("it is there") }); !errors.Is(err, ErrCorrupt) {
		t.Errorf("it is taken back: %v", err)
	}
}

// Whatever Pebble does not go on from fails the engine; corruption is known as such, however it is told.
func TestEngineFailsOf(t *testing.T) {
	for what, fail := range map[string]func(e *engine){
		"a corrupt table": func(e *engine) { e.fail(fmt.Errorf("read: %w", pebble.ErrCorruption)) },
		"a last word":     func(e *engine) { (*engineLog)(e).Fatalf("no table %d", 7) },
	} {
		s := doomedStore(t)
		fail(s.engine)
		if err := s.Err(); !errors.Is(err, ErrFailed) || errors.Is(err, ErrCorrupt) != strings.Contains(what, "corrupt") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// The database is closed when nobody uses it any more, and not before.
func TestCloseWaitsForUsers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := Open(Options{Dir: "store", FS: vfs.NewMem(), MemoryBudget: 4 << 20})
		must(t, err)
		e := s.engine
		must(t, e.enter())
		closed := make(chan error)
		go func() { closed <- e.close() }()
		synctest.Wait()
		select {
		case <-e.closed:
			t.Error("it is closed while it is used")
		default:
		}
		e.leave()
		must(t, <-closed)
		must(t, s.lock.release())
	})
}

// Payloads lie in a store, so its directory is for this user alone.
func TestStoreIsForItsUserAlone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "of", "a", "replica")
	openStore(t, Options{Dir: dir, MemoryBudget: 4 << 20})
	info, err := os.Stat(dir)
	must(t, err)
	if info.Mode().Perm() != 0o700 {
		t.Errorf("its mode is %v", info.Mode())
	}
}

// Ids and counts take room, too.
func TestSizeHasIDs(t *testing.T) {
	s := memStore(t)
	p := openPartition(t, s, orders(0))
	for i := range int64(20_000) {
		p.PutID(fmt.Appendf(nil, "%d of them all, %x", i, i*2_654_435_761), due(i+1), i)
	}
	must(t, p.Commit(Position{}))
	must(t, s.Flush())
	if got := s.Size(orders(0)); got < 100_000 {
		t.Errorf("20,000 ids take %d bytes", got)
	}
}

// Where a partition stands is told without a handle, and ends none: whoever fills the store goes on. A store that has failed does not tell it.
func TestPositionIsOnlyRead(t *testing.T) {
	s := doomedStore(t)
	want := func(id PartitionID, pos Position, used bool) {
		t.Helper()
		if got, is, err := s.Position(id); got != pos || is != used || err != nil {
			t.Errorf("%v stands at %v, %v, %v; want %v, %v", id, got, is, err, pos, used)
		}
	}
	want(orders(0), Position{}, false)
	p := openPartition(t, s, orders(0))
	want(orders(0), Position{}, false)
	must(t, p.Commit(Position{Resume: 7, Offset: 8}))
	want(orders(0), Position{Resume: 7, Offset: 8}, true)
	want(orders(1), Position{}, false)
	other := orders(0)
	other.TopicID[0]++
	want(other, Position{}, false)
	must(t, p.Commit(Position{Resume: 9, Offset: 9})) // through the same handle
	want(orders(0), Position{Resume: 9, Offset: 9}, true)
	s.engine.fail(ErrCorrupt)
	if _, _, err := s.Position(orders(0)); !errors.Is(err, ErrFailed) {
		t.Errorf("a store that has failed says %v", err)
	}
}

// The memory of an unusually large batch is given back, whether it is large by its values or by how much it deletes; that of others is used again.
func TestLargeBatchIsNotKept(t *testing.T) {
	const many = keptBatch/keyLen + 1
	for _, c := range []struct {
		name string
		fill func(b *openBatch) error
		kept bool
	}{
		{"few", func(b *openBatch) error {
			b.delete(due(1))
			b.deleteID([]byte("id"))
			return b.put(due(2), make([]byte, 100))
		}, true},
		{"large values", func(b *openBatch) error { return b.put(due(1), make([]byte, keptBatch+1)) }, false},
		{"many deletes", func(b *openBatch) error {
			for i := range int64(many) {
				b.delete(due(i))
			}
			return nil
		}, false},
		{"many ids", func(b *openBatch) error {
			for range many {
				b.deleteID(nil)
			}
			return nil
		}, false},
	} {
		b := new(openBatch)
		must(t, c.fill(b))
		b.release()
		if held := cap(b.values) > 0 || cap(b.ops) > 0 || cap(b.ids) > 0; held != c.kept || len(b.values)+len(b.ops)+len(b.ids) > 0 {
			t.Errorf("%s: memory is kept: %v, want %v", c.name, held, c.kept)
		}
	}
}

package state

import (
	"errors"
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"pgregory.net/rapid"
)

// openStore opens a store that is closed when the test ends.
func openStore(t testing.TB, o Options) *Store {
	t.Helper()
	if o.Dir == "" {
		o.Dir = "store"
	}
	if o.MemoryBudget == 0 {
		o.MemoryBudget = 8 << 20
	}
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func openPartition(t rapid.TB, s *Store, id PartitionID) *Partition {
	t.Helper()
	p, err := s.Partition(id)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func orders(partition int32) PartitionID {
	return PartitionID{Group: "g", Topic: "orders", TopicID: [16]byte{1}, Partition: partition}
}

// keys reads all that a Scan gives.
func keys(t rapid.TB, p *Partition, after Key) []Key {
	t.Helper()
	var got []Key
	if err := p.Scan(after, func(k Key, _ []byte) bool { got = append(got, k); return true }); err != nil {
		t.Fatal(err)
	}
	return got
}

func must(t rapid.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestStoreKeepsWhatWasFlushed(t *testing.T) {
	fs := vfs.NewMem()
	s := openStore(t, Options{FS: fs})
	p := openPartition(t, s, orders(0))
	if _, ok := p.Position(); ok {
		t.Error("a new partition has a position")
	}
	must(t, p.Put(Key{20, 1}, []byte("a")))
	must(t, p.Put(Key{10, 2}, []byte("b")))
	if got := keys(t, p, Key{}); len(got) != 0 {
		t.Errorf("scan sees the open batch: %v", got)
	}
	pos := Position{Resume: 3, Offset: 2, Watermark: Key{5, 0}, LowWater: 1}
	must(t, p.Commit(pos))
	must(t, s.Close())

	s = openStore(t, Options{FS: fs})
	p = openPartition(t, s, orders(0))
	if got, ok := p.Position(); !ok || got != pos {
		t.Errorf("position %v %v, want %v", got, ok, pos)
	}
	if got, want := fmt.Sprint(keys(t, p, Key{})), "[10:2 20:1]"; got != want {
		t.Errorf("got %v, want %v", got, want)
	}
	if got, want := fmt.Sprint(keys(t, p, Key{10, 2})), "[20:1]"; got != want {
		t.Errorf("above 10:2 got %v, want %v", got, want)
	}
}

func TestEndedHandleWritesNothing(t *testing.T) {
	s := openStore(t, Options{FS: vfs.NewMem()})
	old := openPartition(t, s, orders(0))
	must(t, old.Put(Key{10, 1}, nil))
	p := openPartition(t, s, orders(0))
	for what, err := range map[string]error{
		"commit": old.Commit(Position{}),
		"trim":   old.Trim(Key{5, 0}),
		"drop":   old.Drop(),
		"scan":   old.Scan(Key{}, func(Key, []byte) bool { return true }),
	} {
		if !errors.Is(err, ErrEnded) {
			t.Errorf("%s through an ended handle: %v, want ErrEnded", what, err)
		}
	}
	if got := keys(t, p, Key{}); len(got) != 0 {
		t.Errorf("an ended handle wrote %v", got)
	}
	if _, ok := p.Position(); ok {
		t.Error("an ended handle wrote a position")
	}
}

// What a crash would have read again is counted over all partitions, until it is flushed; what a crash leaves is where it begins anew.
func TestUnflushed(t *testing.T) {
	fs := vfs.NewCrashableMem()
	s := openStore(t, Options{FS: fs})
	p, q := openPartition(t, s, orders(0)), openPartition(t, s, orders(1))
	want := func(n int64) {
		t.Helper()
		if got := s.Unflushed(); got != n {
			t.Errorf("unflushed are %d, want %d", got, n)
		}
	}
	want(0)
	must(t, p.Commit(Position{Resume: 100, Offset: 150}))
	must(t, q.Commit(Position{Resume: 80, Offset: 40}))
	want(140)
	must(t, s.Flush())
	want(0)
	must(t, p.Commit(Position{Resume: 130, Offset: 200}))
	want(30)
	must(t, p.Commit(Position{Resume: 90, Offset: 200}))
	must(t, q.Commit(Position{Resume: 80, Offset: 45}))
	want(5)
	crashed := fs.CrashClone(vfs.CrashCloneCfg{})
	s = openStore(t, Options{FS: crashed})
	want(0)
	p = openPartition(t, s, orders(0))
	if pos, _ := p.Position(); pos.Resume != 100 {
		t.Errorf("after a crash it resumes at %d, want what was flushed", pos.Resume)
	}
	must(t, p.Drop())
	want(0)
	must(t, p.Commit(Position{Resume: 10, Offset: 10}))
	want(10)
}

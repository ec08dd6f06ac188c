package state

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"pgregory.net/rapid"
)

// A partition against a map, with everything that may happen to a handle and to the store. Few keys, so that they meet.
func TestPartitionAgainstAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := storeModel{fs: vfs.NewMem()}
		m.open(t)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			m.step(t)
			for i, p := range m.handles {
				if err := compareScan(p, m.watermark[i], m.committed[i]); err != nil {
					t.Fatalf("partition %d above %v: %v", i, m.watermark[i], err)
				}
				m.compareGet(t, i)
			}
		}
		must(t, m.store.Close())
	})
}

// compareGet gets each key that is there, and one beside it.
func (m *storeModel) compareGet(t *rapid.T, i int) {
	for k, want := range m.committed[i] {
		if !m.watermark[i].Less(k) {
			continue
		}
		var got []byte
		found, err := m.handles[i].Get(k, func(v []byte) { got = append([]byte{}, v...) })
		if err != nil || !found || string(got) != string(want) {
			t.Fatalf("partition %d has %q for %v: %v, %v; want %q", i, got, k, found, err, want)
		}
		k.Seq += 1 << 40
		if found, err := m.handles[i].Get(k, func([]byte) {}); err != nil || found {
			t.Fatalf("partition %d has %v: %v, %v", i, k, found, err)
		}
	}
}

type storeModel struct {
	fs        vfs.FS
	store     *Store
	handles   [2]*Partition
	committed [2]map[Key][]byte // what a scan must give, above watermark
	batch     [2]map[Key][]byte // the open batch; nil is a delete
	watermark [2]Key
	floor     [2]Key // what an earlier handle has trimmed may still be there: nothing is put or looked for at or below it
	position  [2]Position
	used      [2]bool
	n         int64
}

func (m *storeModel) open(t *rapid.T) {
	s, err := Open(Options{Dir: "store", FS: m.fs, MemoryBudget: 1 << 20})
	must(t, err)
	m.store = s
	for i := range m.handles {
		m.openHandle(t, i)
	}
}

func (m *storeModel) openHandle(t *rapid.T, i int) {
	old := m.handles[i]
	p, err := m.store.Partition(orders(int32(i)))
	must(t, err)
	if pos, ok := p.Position(); ok != m.used[i] || pos != m.position[i] {
		t.Fatalf("position %+v %v, want %+v %v", pos, ok, m.position[i], m.used[i])
	}
	if old != nil && old.engine == p.engine {
		if err := old.Commit(Position{}); !errors.Is(err, ErrEnded) {
			t.Fatalf("commit through an ended handle: %v", err)
		}
	}
	m.handles[i], m.batch[i] = p, map[Key][]byte{}
	m.floor[i] = m.watermark[i]
	if m.committed[i] == nil {
		m.committed[i] = map[Key][]byte{}
	}
}

func (m *storeModel) step(t *rapid.T) {
	i := rapid.IntRange(0, 1).Draw(t, "partition")
	p := m.handles[i]
	key := Key{rapid.Int64Range(0, 9).Draw(t, "due"), rapid.Int64Range(1, 3).Draw(t, "seq")}
	switch rapid.SampledFrom([]string{"put", "put", "put", "delete", "commit", "commit", "trim", "drop", "handle", "store", "flush"}).Draw(t, "action") {
	case "put":
		if !m.floor[i].Less(key) {
			return
		}
		m.n++
		// Some are as large as what a partition moves between two range deletes.
		value := fmt.Append(nil, m.n)
		if rapid.IntRange(0, 9).Draw(t, "large") == 0 {
			value = append(value, make([]byte, trimBytes/2)...)
		}
		must(t, p.Put(key, value))
		m.batch[i][key] = value
	case "delete":
		p.Delete(key)
		m.batch[i][key] = nil
	case "commit":
		m.n++
		for k := range m.batch[i] {
			if m.batch[i][k] != nil && !m.watermark[i].Less(k) {
				m.watermark[i] = m.floor[i] // it comes back below what was trimmed; nothing else does
			}
		}
		m.position[i], m.used[i] = Position{Resume: m.n, Watermark: m.watermark[i]}, true
		must(t, p.Commit(m.position[i]))
		maps.Copy(m.committed[i], m.batch[i])
		maps.DeleteFunc(m.committed[i], func(_ Key, v []byte) bool { return v == nil })
		clear(m.batch[i])
	case "trim":
		must(t, p.Trim(key))
		m.watermark[i] = m.watermark[i].Later(key)
		maps.DeleteFunc(m.committed[i], func(k Key, _ []byte) bool { return !key.Less(k) })
		maps.DeleteFunc(m.batch[i], func(k Key, _ []byte) bool { return !key.Less(k) })
	case "drop":
		must(t, p.Drop())
		clear(m.committed[i])
		clear(m.batch[i])
		m.watermark[i], m.floor[i], m.position[i], m.used[i] = Key{}, Key{}, Position{}, false
	case "handle":
		m.openHandle(t, i)
	case "store":
		must(t, m.store.Close())
		m.handles = [2]*Partition{}
		m.open(t)
	case "flush":
		must(t, m.store.Flush())
	}
}

// What is dropped, trimmed to its end, or left by a topic that was made anew, is one partition's alone: its neighbours, before and behind it in
// the store, keep every record.
func TestNeighboursKeepTheirRecords(t *testing.T) {
	smallest, largest := Key{0, 1}, Key{math.MaxInt64, math.MaxInt64}
	for name, forget := range map[string]func(s *Store, p *Partition){
		"dropped": func(s *Store, p *Partition) { must(t, p.Drop()) },
		"trimmed": func(s *Store, p *Partition) { must(t, p.Trim(largest)) },
		"of another topic id": func(s *Store, p *Partition) {
			id := orders(1)
			id.TopicID = [16]byte{2}
			openPartition(t, s, id)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := openStore(t, Options{FS: vfs.NewMem()})
			var ps []*Partition
			for i := range int32(3) {
				p := openPartition(t, s, orders(i))
				for _, k := range []Key{smallest, {10, 2}, largest} {
					must(t, p.Put(k, []byte("value")))
				}
				must(t, p.Commit(Position{Resume: int64(i) + 1}))
				ps = append(ps, p)
			}
			must(t, s.Flush())
			forget(s, ps[1])
			must(t, s.Flush())
			for _, i := range []int32{0, 2} {
				p := openPartition(t, s, orders(i))
				if got := keys(t, p, Key{}); len(got) != 3 {
					t.Errorf("partition %d has %v", i, got)
				}
				if pos, ok := p.Position(); !ok || pos.Resume != int64(i)+1 {
					t.Errorf("partition %d is at %+v, %v", i, pos, ok)
				}
			}
		})
	}
}

func TestPutRefusesTheZeroKey(t *testing.T) {
	p := openPartition(t, openStore(t, Options{FS: vfs.NewMem()}), orders(0))
	for _, k := range []Key{{}, {-1, 5}, {0, -1}} {
		if err := p.Put(k, nil); err == nil {
			t.Errorf("put of %v succeeds", k)
		}
	}
}

// A topic that was made anew has another id: what the old one left is gone, and its handle has ended.
func TestAnotherTopicIDStartsEmpty(t *testing.T) {
	s := openStore(t, Options{FS: vfs.NewMem()})
	id := orders(0)
	old := openPartition(t, s, id)
	must(t, old.Put(Key{10, 1}, nil))
	must(t, old.Commit(Position{Resume: 2}))
	id.TopicID = [16]byte{2}
	p := openPartition(t, s, id)
	if pos, ok := p.Position(); ok {
		t.Errorf("the new topic has position %+v", pos)
	}
	if got := keys(t, p, Key{}); len(got) != 0 {
		t.Errorf("the new topic has %v", got)
	}
	if err := old.Commit(Position{}); !errors.Is(err, ErrEnded) {
		t.Errorf("commit for the old topic: %v, want ErrEnded", err)
	}
	for got := range s.Positions() {
		if got != id {
			t.Errorf("the store still has %v", got)
		}
	}
	p.slot.part = old.slot.part
	if got := keys(t, p, Key{}); len(got) != 0 {
		t.Errorf("the store still has %v of the old topic", got)
	}
}

// Two lanes share the store. While one still writes, the other opens the partition: from then on it alone writes, and
// what it found does not change under it.
func TestOpeningEndsAWriterInTheMidst(t *testing.T) {
	s := openStore(t, Options{FS: vfs.NewMem()})
	last := int64(0) // the position that the store must have
	for range 20 {
		writer := openPartition(t, s, orders(0))
		first := last
		ended, busy := make(chan error, 1), make(chan struct{})
		go func() {
			for n := first + 1; ; n++ {
				if err := errors.Join(writer.Put(Key{n, n}, nil), writer.Commit(Position{Resume: n})); err != nil {
					ended <- err
					return
				}
				if n == first+100 {
					close(busy)
				}
			}
		}()
		select {
		case <-busy: // it is in the midst of its work
		case err := <-ended:
			t.Fatal(err)
		}
		p := openPartition(t, s, orders(0))
		found, _ := p.Position()
		last = found.Resume
		check := func(when string) {
			if pos, _ := p.Position(); pos != found {
				t.Fatalf("%s: the position is %v, and was %v", when, pos, found)
			}
			if n := int64(len(keys(t, p, Key{}))); n != last {
				t.Fatalf("%s: %d records at position %d", when, n, last)
			}
		}
		check("at once")
		if err := <-ended; !errors.Is(err, ErrEnded) {
			t.Fatalf("the writer ended with %v, want ErrEnded", err)
		}
		check("after the writer ended")
	}
}

// diskUsage is about how much disk the partition's records take, counted in whole tables and without the memtables.
func diskUsage(t *testing.T, p *Partition) uint64 {
	n, err := p.engine.db.EstimateDiskUsage(appendPart(nil, p.slot.part), appendPart(nil, p.slot.part+1))
	must(t, err)
	return n
}

// Trimmed records give their disk space back.
func TestTrimGivesSpaceBack(t *testing.T) {
	s := openStore(t, Options{FS: vfs.NewMem()})
	p := openPartition(t, s, orders(0))
	fill(t, p, 20_000)
	must(t, s.Flush())
	before := diskUsage(t, p)
	must(t, p.Trim(Key{86_400_000, 0}))
	must(t, s.Flush())
	must(t, s.engine.db.Compact(t.Context(), []byte{0}, []byte{255}, false))
	after := diskUsage(t, p)
	if before < 1<<18 || after > before/100 { // 2 MB, less by compression, and by less once compacted
		t.Errorf("%d bytes before and %d after", before, after)
	}
}

// A turn that trims a little does not leave a range delete behind each time.
func TestTrimGathersRangeDeletes(t *testing.T) {
	s := openStore(t, Options{FS: vfs.NewMem()})
	p := openPartition(t, s, orders(0))
	fill(t, p, 1000)
	must(t, p.Trim(Key{1, 0})) // what an earlier handle left is deleted with the first
	writes := 0
	for due := int64(2); due < 1000; due++ {
		deleted := p.deleted
		must(t, p.Trim(Key{due, 0}))
		if p.deleted != deleted {
			writes++
		}
	}
	if writes > 1 {
		t.Errorf("%d range deletes for 1000 small trims", writes)
	}
}

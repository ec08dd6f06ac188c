package state

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// What is counted is what the store holds above the watermark of its position, whichever batch was the last that a crash has left, and so is
// the ledger that begins with it. Some batches bring all counts, most bring what they change; some deletes lie in no order, and offsets move.
func TestCountsAfterCrashes(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { countsAfterCrashes(t, rand.New(rand.NewPCG(seed, 3))) })
	}
}

func countsAfterCrashes(t *testing.T, rng *rand.Rand) {
	files := vfs.NewCrashableMem()
	whole := 0
	for range 6 {
		s := openStore(t, Options{FS: files, MemoryBudget: 4 << 20})
		p, err := s.Partition(orders(0))
		must(t, err)
		m := countsModelOf(t, p)
		m.check(t, p)
		for range 2 + rng.IntN(12) {
			m.batch(t, p, rng)
			if p.tally.since == 0 {
				whole++
			}
		}
		m.check(t, p)
		if rng.IntN(3) == 0 {
			must(t, s.Flush())
		}
		files = files.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(101), RNG: rng})
		must(t, s.Close())
	}
	if whole == 0 {
		t.Error("no batch has brought all counts")
	}
}

// countsModel is what a store holds above the watermark, and may count.
type countsModel struct {
	held map[Key]Counted
	pos  Position
}

// countsModelOf reads it from the records alone. A value names the offset.
func countsModelOf(t *testing.T, p *Partition) *countsModel {
	m := &countsModel{held: map[Key]Counted{}}
	m.pos, _ = p.Position()
	must(t, p.Scan(m.pos.Watermark, func(k Key, value []byte) bool {
		x := Counted{Key: k, Bytes: len(value), Stub: value[0] == 's'}
		fmt.Sscan(string(value[1:]), &x.Offset)
		m.held[k] = x
		return true
	}))
	return m
}

func (m *countsModel) put(t *testing.T, p *Partition, x Counted) {
	value := fmt.Appendf(nil, "r%d", x.Offset)
	if x.Stub {
		value[0] = 's'
	}
	for len(value) < x.Bytes {
		value = append(value, ' ')
	}
	x.Bytes = len(value)
	must(t, p.Put(x.Key, value))
	p.Count(x)
	p.Count(x) // it is
	m.held[x.Key] = x
}

func (m *countsModel) batch(t *testing.T, p *Partition, rng *rand.Rand) {
	end := m.pos.Resume
	for range rng.IntN(4000) {
		end += 1 + rng.Int64N(3)
		if rng.IntN(200) == 0 {
			end += rng.Int64N(1 << 21)
		}
		x := Counted{Key: Key{Due: m.pos.Watermark.Due + 1 + rng.Int64N(10_000_000), Seq: end}, Offset: end, Bytes: rng.IntN(40)}
		if rng.IntN(50) == 0 {
			x.Key.Seq = rng.Int64N(end) // a copy
		}
		if rng.IntN(5) == 0 {
			m.put(t, p, Counted{Key: Key{Due: x.Key.Due + 777, Seq: x.Key.Seq}, Offset: end, Stub: true})
		}
		m.put(t, p, x)
	}
	for _, k := range slices.SortedFunc(maps.Keys(m.held), Key.Compare)[:rng.IntN(len(m.held)+1)/8] {
		if rng.IntN(2) == 0 {
			p.Delete(k)
			p.Uncount(m.held[k])
			p.Uncount(m.held[k]) // it is not
			delete(m.held, k)
		}
	}
	m.pos = Position{Resume: end, Offset: max(m.pos.Offset, end-rng.Int64N(5000)), Watermark: Key{Due: m.pos.Watermark.Due + rng.Int64N(500_000)}}
	for k, x := range m.held {
		if !m.pos.Watermark.Less(k) {
			p.Uncount(x)
			delete(m.held, k)
		}
	}
	must(t, p.Commit(m.pos))
	if rng.IntN(3) == 0 {
		must(t, p.Trim(m.pos.Watermark))
	}
}

func (m *countsModel) check(t *testing.T, p *Partition) {
	t.Helper()
	c, err := p.Counts()
	must(t, err)
	want, anew := NewLedger(0), newCounts()
	var above, stubs []Counted
	for _, x := range m.held {
		if !c.Has(x.Offset, x.Stub) {
			t.Fatalf("%+v is not counted", x)
		}
		anew.add(x)
		if x.Stub {
			x.Bytes = 0
		}
		if x.Offset >= m.pos.Offset {
			above = append(above, x)
		}
		if x.Stub {
			stubs = append(stubs, x)
		} else {
			want.Add(x.Key, x.Offset, x.Bytes, true)
		}
	}
	if c.Len() != len(m.held) || c.Bytes() != want.Bytes() {
		t.Fatalf("%d are counted with %d bytes, want %d with %d", c.Len(), c.Bytes(), len(m.held), want.Bytes())
	}
	for _, at := range []int64{0, m.pos.Offset, m.pos.Resume / 2, m.pos.Resume - 63, m.pos.Resume + 1} {
		below := [2]int{}
		for _, x := range m.held {
			if x.Offset < at && x.Stub {
				below[1]++
			} else if x.Offset < at {
				below[0]++
			}
		}
		if got := [2]int{c.Below(at, false), c.Below(at, true)}; got != below {
			t.Errorf("%d records and stubs are counted below %d, want %d", got, at, below)
		}
	}
	all, ok, err := p.Above(1 << 30)
	must(t, err)
	slices.SortFunc(above, func(a, b Counted) int { return a.Key.Compare(b.Key) })
	slices.SortFunc(all, func(a, b Counted) int { return a.Key.Compare(b.Key) })
	if !ok || !slices.Equal(all, above) {
		t.Errorf("%d lie above O, want %d", len(all), len(above))
	}
	if _, ok, err := p.Above(len(above) - 1); len(above) > 0 && (ok || err != nil) {
		t.Errorf("more than most lie above O, and it says %v, %v", ok, err)
	}
	both := 0
	for _, x := range stubs {
		if c.Has(x.Offset, false) {
			both++
		} else {
			want.Remember(x.Offset)
		}
	}
	if got := len(c.Both()); got != both {
		t.Errorf("%d offsets have both, want %d", got, both)
	}
	for _, x := range stubs { // as the owner does with those of what has not happened
		if c.Has(x.Offset, false) {
			c.remove(x)
			defer c.add(x)
		}
	}
	got := c.Ledger(0)
	if got.Len() != want.Len() || got.Waiting() != want.Waiting() || got.Bytes() != want.Bytes() || got.Low(1<<60) != want.Low(1<<60) {
		t.Errorf("the ledger has %d, %d waiting, %d bytes, from %d; want %d, %d, %d, %d", got.Len(), got.Waiting(), got.Bytes(), got.Low(1<<60), want.Len(), want.Waiting(), want.Bytes(), want.Low(1<<60))
	}
	for _, x := range m.held { // the agenda as well
		if !x.Stub {
			got.Remove(x.Key, x.Offset, x.Bytes, true)
		}
	}
	if len(got.due.list) > 0 || got.Bytes() != 0 {
		t.Errorf("%d stretches are left of the agenda, and %d bytes", len(got.due.list), got.Bytes())
	}
}

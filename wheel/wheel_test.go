package wheel

import (
	"cmp"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// model is the plain thing that a wheel must equal: a slice sorted by (due, seq).
type model struct {
	now     Tick
	lastSeq int64 // the seq taken last at now; nothing at now may be added at or below it
	entries []Entry
}

func byKey(a, b Entry) int { return cmp.Or(cmp.Compare(a.Due, b.Due), cmp.Compare(a.Seq, b.Seq)) }

func (m *model) add(e Entry) {
	i, _ := slices.BinarySearchFunc(m.entries, e, byKey)
	m.entries = slices.Insert(m.entries, i, e)
}

func (m *model) has(due Tick, seq int64) bool {
	_, ok := slices.BinarySearchFunc(m.entries, Entry{Due: due, Seq: seq}, byKey)
	return ok
}

func (m *model) take(now Tick, max int) []Entry {
	n := 0
	for n < min(max, len(m.entries)) && m.entries[n].Due <= now {
		n++
	}
	out := slices.Clone(m.entries[:n])
	m.entries = slices.Delete(m.entries, 0, n)
	if n > 0 {
		m.now, m.lastSeq = out[n-1].Due, out[n-1].Seq
	}
	return out
}

func (m *model) takeFrom(due Tick) []Entry {
	i, _ := slices.BinarySearchFunc(m.entries, Entry{Due: due, Seq: math.MinInt64}, byKey)
	out := slices.Clone(m.entries[i:])
	m.entries = m.entries[:i]
	return out
}

// pair drives a wheel and its model alike.
type pair struct {
	*rapid.T
	w   *Wheel
	m   model
	ref uint64
}

// due draws mostly from what happens (soon, the same again, a slot's or level's edge) and sometimes from all of int64.
func (p *pair) due() Tick {
	gap := rapid.OneOf(
		rapid.Int64Range(0, 3),
		rapid.Int64Range(0, 600),
		rapid.Int64Range(0, 1<<18),
		rapid.Map(rapid.IntRange(0, 62), func(i int) int64 { return 1 << i }),
		rapid.Int64Range(0, math.MaxInt64),
	).Draw(p.T, "gap")
	if due := p.m.now + Tick(gap); due >= p.m.now {
		return due
	}
	return math.MaxInt64
}

func (p *pair) add(due Tick, seq int64) {
	if p.m.has(due, seq) || due == p.m.now && seq <= p.m.lastSeq {
		return
	}
	p.ref++
	p.w.Add(due, seq, p.ref)
	p.m.add(Entry{due, seq, p.ref})
}

func (p *pair) seq() int64 {
	return rapid.OneOf(rapid.Int64Range(0, 1000), rapid.Int64()).Draw(p.T, "seq")
}

// near picks a due at or near one that is held.
func (p *pair) near() Tick {
	if len(p.m.entries) == 0 || rapid.IntRange(0, 9).Draw(p.T, "anywhere") == 0 {
		return p.due()
	}
	e := p.m.entries[rapid.IntRange(0, len(p.m.entries)-1).Draw(p.T, "near")]
	return e.Due + Tick(rapid.IntRange(-1, 1).Draw(p.T, "by"))
}

func (p *pair) check() {
	p.Helper()
	if err := check(p.w); err != nil {
		p.Fatal(err)
	}
	if got, want := p.w.Len(), len(p.m.entries); got != want {
		p.Fatalf("Len is %d, want %d", got, want)
	}
	if got, want := p.w.Now(), p.m.now; got != want {
		p.Fatalf("Now is %d, want %d", got, want)
	}
	next, ok := p.w.Next()
	if ok != (len(p.m.entries) > 0) || ok && next != p.m.entries[0].Due {
		p.Fatalf("Next is %d, %t with %d entries", next, ok, len(p.m.entries))
	}
}

func TestWheelEqualsSortedSlice(t *testing.T) { rapid.Check(t, equalsSortedSlice) }

func FuzzWheelEqualsSortedSlice(f *testing.F) { f.Fuzz(rapid.MakeFuzz(equalsSortedSlice)) }

func equalsSortedSlice(t *rapid.T) {
	now := Tick(rapid.OneOf(
		rapid.Just(int64(0)),
		rapid.Int64Range(1_700_000_000_000, 1_800_000_000_000),
		rapid.Int64(),
	).Draw(t, "now"))
	p := &pair{T: t, w: New(now), m: model{now: now, lastSeq: math.MinInt64}}
	t.Repeat(map[string]func(*rapid.T){
		"":          func(*rapid.T) { p.check() },
		"add":       func(t *rapid.T) { p.T = t; p.add(p.due(), p.seq()) },
		"add burst": func(t *rapid.T) { p.T = t; p.addBurst() },
		"add late":  func(t *rapid.T) { p.T = t; p.addLate() },
		"take":      func(t *rapid.T) { p.T = t; p.take() },
		"take from": func(t *rapid.T) { p.T = t; p.takeFrom() },
		"update":    func(t *rapid.T) { p.T = t; p.update() },
		"remove":    func(t *rapid.T) { p.T = t; p.remove() },
		"removeAll": func(t *rapid.T) { p.T = t; p.removeAll() },
	})
}

// addLate adds at the cursor, where the order must be kept.
func (p *pair) addLate() {
	for range rapid.IntRange(1, 20).Draw(p.T, "count") {
		p.add(p.m.now, p.seq())
	}
}

// addBurst adds many entries at one due or over a stretch, so that slots hold several chunks.
func (p *pair) addBurst() {
	due, seq := p.due(), rapid.Int64Range(0, 1000).Draw(p.T, "first seq")
	stretch := rapid.SampledFrom([]Tick{1, 1, 7, 300, 100_000}).Draw(p.T, "stretch")
	step := rapid.SampledFrom([]int64{1, 3, -1, 7919}).Draw(p.T, "step")
	for i := range rapid.IntRange(1, 300).Draw(p.T, "count") {
		if at := due + Tick(i)*7919%stretch; at >= due {
			p.add(at, seq+int64(i)*step%3001)
		}
	}
}

func (p *pair) take() {
	now := p.near()
	count := rapid.OneOf(rapid.IntRange(0, 3), rapid.IntRange(0, 400)).Draw(p.T, "max")
	kept := Entry{1, 2, 3}
	got := p.w.Take(now, []Entry{kept}, count)
	want := append([]Entry{kept}, p.m.take(now, count)...)
	if !slices.Equal(got, want) {
		p.Fatalf("Take(%d, %d)\n got %v\nwant %v", now, count, got, want)
	}
}

func (p *pair) takeFrom() {
	if rapid.IntRange(0, 2).Draw(p.T, "skip") > 0 {
		return // or nothing would ever pile up
	}
	due := p.near()
	var got []Entry
	n := p.w.TakeFrom(due, func(e Entry) { got = append(got, e) })
	slices.SortFunc(got, byKey)
	if want := p.m.takeFrom(due); !slices.Equal(got, want) || n != len(want) {
		p.Fatalf("TakeFrom(%d) is %d\n got %v\nwant %v", due, n, got, want)
	}
}

// update gives new references to what is due from some time on, or to some of it.
func (p *pair) update() {
	due := p.near()
	atMost := rapid.OneOf(rapid.IntRange(1, 3), rapid.IntRange(1, 400)).Draw(p.T, "at most")
	from, _ := slices.BinarySearchFunc(p.m.entries, Entry{Due: due, Seq: math.MinInt64}, byKey)
	seen := map[Entry]bool{}
	all := p.w.Update(due, func(e Entry) (uint64, bool) {
		i, is := slices.BinarySearchFunc(p.m.entries, e, byKey)
		if !is || i < from || p.m.entries[i] != e || seen[Entry{Due: e.Due, Seq: e.Seq}] {
			p.Fatalf("Update(%d) calls for %v", due, e)
		}
		seen[Entry{Due: e.Due, Seq: e.Seq}] = true
		p.ref++
		p.m.entries[i].Ref = p.ref
		return p.ref, len(seen) < atMost
	})
	want := len(p.m.entries) - from
	if len(seen) != min(want, atMost) || all != (want < atMost) {
		p.Fatalf("Update(%d) calls for %d of %d, at most %d, and says that it was all: %v", due, len(seen), want, atMost, all)
	}
}

func (p *pair) remove() {
	for range rapid.IntRange(1, 50).Draw(p.T, "count") {
		p.removeOne()
	}
}

func (p *pair) removeOne() {
	e := Entry{Due: p.due(), Seq: p.seq()}
	if len(p.m.entries) > 0 {
		e = p.m.entries[rapid.IntRange(0, len(p.m.entries)-1).Draw(p.T, "which")]
		e.Due += Tick(rapid.SampledFrom([]int{0, 0, 0, 0, 1, -1}).Draw(p.T, "miss"))
	}
	i, want := slices.BinarySearchFunc(p.m.entries, e, byKey)
	ref, ok := p.w.Remove(e.Due, e.Seq)
	if ok != want || ok && ref != p.m.entries[i].Ref {
		p.Fatalf("Remove(%d, %d) is %d, %t", e.Due, e.Seq, ref, ok)
	}
	if ok {
		p.m.entries = slices.Delete(p.m.entries, i, i+1)
	}
}

// removeAll draws some that are held, and some that are not, mostly of one stretch.
func (p *pair) removeAll() {
	var keys, want []Entry
	rest := p.m.entries
	if n := len(rest); n > 0 {
		from := rapid.IntRange(0, n-1).Draw(p.T, "from")
		for _, e := range rest[from:min(n, from+rapid.SampledFrom([]int{5, 100, 10_000}).Draw(p.T, "stretch"))] {
			if rapid.IntRange(0, 2).Draw(p.T, "whether") > 0 {
				keys = append(keys, Entry{Due: e.Due + Tick(rapid.SampledFrom([]int{0, 0, 0, 0, 0, 1 << 14}).Draw(p.T, "miss")), Seq: e.Seq})
			}
		}
	}
	keys = append(keys, Entry{Due: p.due(), Seq: p.seq()}, Entry{Due: p.m.now - 1, Seq: 1})
	slices.SortFunc(keys, byKey)
	keys = slices.CompactFunc(keys, func(a, b Entry) bool { return byKey(a, b) == 0 })
	for _, key := range keys {
		if i, is := slices.BinarySearchFunc(p.m.entries, key, byKey); is {
			want = append(want, p.m.entries[i])
			p.m.entries = slices.Delete(p.m.entries, i, i+1)
		}
	}
	var got []Entry
	p.w.RemoveAll(keys, func(e Entry) { got = append(got, e) })
	slices.SortFunc(got, byKey)
	if !slices.Equal(got, want) {
		p.Fatalf("RemoveAll of %v is %v, want %v", keys, got, want)
	}
}

// To take some out costs less than to take all out and put the others back, whatever there are of them in a slot.
func TestRemovingSomeIsQuick(t *testing.T) {
	const n = 100_000
	w := New(0)
	for i := range int64(n) {
		w.Add(Tick(1<<16+i), i, 0) // in two slots
	}
	some, all := time.Duration(math.MaxInt64), time.Duration(math.MaxInt64)
	for round := range int64(5) {
		var keys []Entry
		for i := round; i < n; i += 400 {
			keys = append(keys, Entry{Due: Tick(1<<16 + i), Seq: i})
		}
		began := time.Now()
		w.RemoveAll(keys, func(Entry) {})
		some = min(some, time.Since(began))
		var rest []Entry
		began = time.Now()
		w.TakeFrom(0, func(e Entry) { rest = append(rest, e) })
		for _, e := range rest {
			w.Add(e.Due, e.Seq, e.Ref)
		}
		all = min(all, time.Since(began))
	}
	if t.Logf("some in %v, all in %v", some, all); w.Len() != n-5*n/400 || some > all {
		t.Errorf("%d are left; to take some out took %v, and to take all out %v", w.Len(), some, all)
	}
}

// So it is where they are due at the instant that the wheel stands on, of which some was taken and some came late.
func TestRemovingSomeOfOneDueIsQuick(t *testing.T) {
	const n, due, few = 200_000, Tick(5), 1000
	w := New(0)
	for i := range int64(n) {
		w.Add(due, 2*i, 0)
	}
	w.Take(due, nil, 10)
	for i := range int64(few) {
		w.Add(due, 2*(n/2+i*611_953%few)+1, 0)
	}
	var keys []Entry
	for i := range int64(few) {
		if keys = append(keys, Entry{Due: due, Seq: 2 * (n/2 + i)}); i%2 == 1 {
			keys = append(keys, Entry{Due: due, Seq: 2*(n/2+i) + 1})
		}
	}
	began, one := time.Now(), time.Duration(0)
	w.RemoveAll(keys[:len(keys)-2], func(Entry) {})
	all := time.Since(began)
	for _, key := range keys[len(keys)-2:] {
		began = time.Now()
		w.Remove(key.Due, key.Seq)
		one = max(one, time.Since(began))
	}
	if t.Logf("%d in %v, one in %v", len(keys), all, one); w.Len() != n-10-few/2 || all > few/4*one {
		t.Errorf("%d are left; to take out %d took %v, and one %v", w.Len(), len(keys), all, one)
	}
	for last, got := int64(0), w.Take(due, nil, n); len(got) > 0; got = got[1:] {
		if got[0].Seq <= last {
			t.Fatalf("%d comes after %d", got[0].Seq, last)
		}
		last = got[0].Seq
	}
}

// Very many at one due, added out of order and taken in batches, with entries coming meanwhile: right behind what was
// taken last, and far behind.
func TestManyAtOneDue(t *testing.T) {
	const n, due = 200_000, Tick(5)
	w := New(0)
	for i := range int64(n) {
		w.Add(due, i*611_953%n*2, 0) // every even seq, since 611,953 is prime
	}
	var dst []Entry
	last, taken, added := int64(-1), 0, 0
	for w.Len() > 0 {
		dst = w.Take(due, dst[:0], 1000)
		for _, e := range dst {
			if e.Seq <= last {
				t.Fatalf("took %d after %d", e.Seq, last)
			}
			last = e.Seq
		}
		taken += len(dst)
		if last%2 == 0 && w.Len() > 0 {
			w.Add(due, last+1, 0)
			w.Add(due, last+100_001, 0)
			added += 2
		}
	}
	if taken != n+added || added < n/1000 {
		t.Errorf("took %d of %d", taken, n+added)
	}
}

func TestAddBelowTheCursorPanics(t *testing.T) {
	defer func() {
		if got, want := recover(), "wheel: BUG: added 9:3 below the cursor, 10"; got != want {
			t.Errorf("panic with %v, want %q", got, want)
		}
	}()
	New(10).Add(9, 3, 0)
}

func TestLevelOfDue(t *testing.T) {
	for _, c := range []struct {
		cursor, due Tick
		want        int
	}{
		{0, 0, 0},
		{0, 255, 0},
		{0, 256, 1},
		{255, 256, 1},
		{256, 511, 0},
		{1, 1 << 40, 5},
		{1<<40 - 1, 1 << 40, 5},
		{-1, 0, 7},
		{-256, -1, 0},
		{-257, -1, 1},
		{math.MinInt64, math.MaxInt64, 7},
	} {
		if got := digitsOf(c.due).level(digitsOf(c.cursor)); got != c.want {
			t.Errorf("level of %d seen from %d is %d, want %d", c.due, c.cursor, got, c.want)
		}
	}
}

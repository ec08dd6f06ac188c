package state

import (
	"fmt"
	"iter"
	"maps"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"pgregory.net/rapid"
)

func TestLedgerScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/ledger", func(t *testing.T, path string) {
		l := NewLedger(0)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			var due time.Duration
			var offset, end, n int64
			bytes := 100
			scan := func(key string, dest any) { d.MaybeScanArgs(t, key, dest) }
			if arg, ok := d.Arg("due"); ok {
				due = parseDuration(t, arg.SingleVal(t))
			}
			scan("offset", &offset)
			scan("end", &end)
			scan("bytes", &bytes)
			n = 1
			scan("n", &n)
			k := Key{due.Milliseconds(), offset}
			switch d.Cmd {
			case "new":
				var low int64
				scan("low", &low)
				l = NewLedger(low)
				return ""
			case "add", "remove":
				f := l.Add
				if d.Cmd == "remove" {
					f = l.Remove
				}
				for i := range n {
					f(k, offset+i, bytes, d.HasArg("stored"))
				}
			case "stored":
				l.Stored(offset)
			case "hold":
				l.Hold(offset)
			case "release":
				l.Release(offset)
			case "due":
				var b strings.Builder
				for _, within := range d.CmdArgs[0].Vals {
					s := l.Agenda(0, parseDuration(t, within))[0]
					fmt.Fprintf(&b, "by %s: %d records, %d bytes\n", within, s.Records, s.Bytes)
				}
				return b.String()
			case "buckets":
				var b strings.Builder
				for s := range l.due.all() {
					fmt.Fprintf(&b, "%v to %v: %d records, %d bytes\n", millis(s.From), millis(s.To), s.Records, s.Bytes)
				}
				return b.String()
			default:
				d.Fatalf(t, "unknown command")
			}
			if !d.HasArg("end") {
				return ""
			}
			return fmt.Sprintf("pending=%d bytes=%d low=%d resume=%d\n", l.Len(), l.Bytes(), l.Low(end), l.Resume(end))
		})
	})
}

func millis(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

func parseDuration(t *testing.T, text string) time.Duration {
	d, err := time.ParseDuration(text)
	must(t, err)
	return d
}

// entry is a pending record of the model.
type entry struct {
	key    Key
	offset int64
	bytes  int
	stored bool
}

// The ledger against a map: counts, the low water and resume are exact, and the agenda is right to within its buckets.
func TestLedgerAgainstAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		start := rapid.Int64Range(0, 1<<40).Draw(t, "start")
		l := NewLedger(start)
		m := ledgerModel{low: start, end: start, held: map[int64]bool{}, withheld: map[int64]bool{}}
		for range rapid.IntRange(1, 300).Draw(t, "steps") {
			m.step(t, l)
			m.check(t, l)
		}
		for _, e := range m.entries {
			l.Remove(e.key, e.offset, e.bytes, e.stored)
		}
		for offset := range m.held {
			l.Release(offset)
		}
		for offset := range m.withheld {
			l.Forget(offset)
		}
		if l.Len() != 0 || l.Bytes() != 0 || len(l.due.list) != 0 || len(l.pending.pages) != 0 || len(l.unsaved.pages) != 0 {
			t.Errorf("an empty ledger has %d records, %d bytes, %d buckets, %d pages", l.Len(), l.Bytes(), len(l.due.list), len(l.pending.pages)+len(l.unsaved.pages))
		}
	})
}

type ledgerModel struct {
	entries  []entry
	held     map[int64]bool
	withheld map[int64]bool // by offset: whether the store had it
	end      int64          // the next offset
	low      int64          // the last low water
	now      int64
}

func (m *ledgerModel) step(t *rapid.T, l *Ledger) {
	pick := func() int { return rapid.IntRange(0, len(m.entries)-1).Draw(t, "which") }
	action := rapid.SampledFrom([]string{"add", "add", "add", "remove", "remove", "store", "hold", "release", "withhold", "forget"}).Draw(t, "action")
	switch {
	case action == "add" || len(m.entries) == 0:
		m.end += rapid.OneOf(rapid.Int64Range(1, 3), rapid.Int64Range(1, 3), rapid.Int64Range(1, 3000), rapid.Int64Range(1, 1<<24)).Draw(t, "gap")
		ahead := rapid.OneOf(rapid.Int64Range(1, 10_000), rapid.Int64Range(1, 86_400_000), rapid.Int64Range(1, 40_000_000_000)).Draw(t, "ahead")
		m.now += rapid.Int64Range(0, 2000).Draw(t, "passed")
		e := entry{Key{m.now + ahead, m.end}, m.end, rapid.IntRange(0, 1000).Draw(t, "bytes"), rapid.Bool().Draw(t, "stored")}
		l.Add(e.key, e.offset, e.bytes, e.stored)
		m.entries = append(m.entries, e)
	case action == "remove":
		i := pick()
		e := m.entries[i]
		l.Remove(e.key, e.offset, e.bytes, e.stored)
		m.entries = append(m.entries[:i], m.entries[i+1:]...)
	case action == "withhold":
		i := pick()
		e := m.entries[i]
		l.Withhold(e.key, e.offset, e.bytes)
		m.withheld[e.offset] = e.stored
		m.entries = append(m.entries[:i], m.entries[i+1:]...)
	case action == "forget" && len(m.withheld) > 0:
		offset := rapid.SampledFrom(slices.Sorted(maps.Keys(m.withheld))).Draw(t, "offset")
		l.Forget(offset)
		delete(m.withheld, offset)
		if l.Has(offset) {
			t.Fatalf("it has offset %d, which is forgotten", offset)
		}
	case action == "store":
		e := &m.entries[pick()]
		if !e.stored {
			l.Stored(e.offset)
		}
		e.stored = true
	case action == "hold":
		m.end++
		l.Hold(m.end)
		m.held[m.end] = true
	case action == "release" && len(m.held) > 0:
		offset := rapid.SampledFrom(slices.Sorted(maps.Keys(m.held))).Draw(t, "offset")
		l.Release(offset)
		delete(m.held, offset)
	}
}

func (m *ledgerModel) check(t *rapid.T, l *Ledger) {
	end := m.end + 1
	first, unsaved, sum := end, end, int64(0)
	for _, e := range m.entries {
		first = min(first, e.offset)
		if !e.stored {
			unsaved = min(unsaved, e.offset)
		}
		sum += int64(e.bytes)
	}
	for offset := range m.held {
		unsaved = min(unsaved, offset)
	}
	for offset, stored := range m.withheld {
		if first = min(first, offset); !stored {
			unsaved = min(unsaved, offset)
		}
		if !l.Has(offset) {
			t.Fatalf("it does not have offset %d, which is withheld", offset)
		}
	}
	if got := l.Low(end); got != first || got < m.low {
		t.Fatalf("low is %d after %d, want %d", got, m.low, first)
	}
	m.low = first
	if got := l.Resume(end); got != unsaved {
		t.Fatalf("resume is %d, want %d", got, unsaved)
	}
	if l.Len() != len(m.entries) || l.Bytes() != sum {
		t.Fatalf("%d records of %d bytes, want %d of %d", l.Len(), l.Bytes(), len(m.entries), sum)
	}
	m.checkDues(t, l)
}

// checkDues verifies that the buckets hold everything, do not overlap, and are as narrow as promised.
func (m *ledgerModel) checkDues(t *rapid.T, l *Ledger) {
	last, records := int64(math.MinInt64), int64(0)
	for s := range l.due.all() {
		if s.From < last || s.Records <= 0 {
			t.Fatalf("bucket %+v after one that ends at %d", s, last)
		}
		var in, bytes int64
		for _, e := range m.entries {
			if s.From <= e.key.Due && e.key.Due < s.To {
				in++
				bytes += int64(e.bytes)
			}
		}
		if s.Records != in || s.Bytes != bytes {
			t.Fatalf("bucket %+v, want %d records of %d bytes", s, in, bytes)
		}
		last = s.To
		records += in
	}
	if records != int64(len(m.entries)) {
		t.Fatalf("%d records in buckets, want %d", records, len(m.entries))
	}
	at := m.now + 50_000
	got := l.Agenda(m.now, 50*time.Second)[0]
	var surely, perhaps int64
	for s := range l.due.all() {
		if s.To <= at+1 {
			surely += s.Records
		}
		if s.From <= at {
			perhaps += s.Records
		}
	}
	if got.Records < surely || got.Records > perhaps {
		t.Fatalf("%d records are due by then, want %d to %d", got.Records, surely, perhaps)
	}
}

// Buckets stay few whatever is added: dense near ones and then one far ahead of them are the worst.
func TestAgendaIsBounded(t *testing.T) {
	l := NewLedger(0)
	const year = 366 * 86_400_000
	n := int64(0)
	add := func(due int64) {
		l.Add(Key{due, n}, n, 10, true)
		n++
		if len(l.due.list) > maxBuckets {
			t.Fatalf("%d buckets after %d records", len(l.due.list), n)
		}
	}
	for due := int64(year); due < year+4000*1024; due += 512 { // an hour, a year from now: a second wide at first
		add(due)
	}
	for due := int64(0); due < year; due += 60_000 {
		add(due)
	}
	if got := len(l.due.list); got < 1000 {
		t.Errorf("%d buckets for a year, want more: the near ones are too wide", got)
	}
	var records int64
	for s := range l.due.all() {
		if width := s.To - s.From; width > max(1024, (s.From)/agendaPrecision) {
			t.Errorf("bucket %v to %v is too wide", millis(s.From), millis(s.To))
		}
		records += s.Records
	}
	if records != n {
		t.Errorf("%d records, want %d", records, n)
	}
}

// A long log costs memory by its length, not by its records, and a sparse one hardly any: of each of the two sets, a bit for each
// offset and an eighth where everything is pending, and where little is, eight bytes for each 1024 offsets or each record.
func TestLedgerMemory(t *testing.T) {
	for _, c := range []struct {
		name         string
		length, step int64
		limit        int64 // for each of two sets
	}{
		{"everything", 10_000_000, 1, 10_000_000 / 8 * 4 / 3},
		{"one in a hundred", 50_000_000, 100, 50_000_000 / 8 * 4 / 3},
		{"one in a thousand", 1_000_000_000, 1000, 9 << 20},
		{"one in a million", 1_000_000_000, 1_000_000, 3 << 20},
		{"one in a billion", 1_000_000_000, 1_000_000_000, 64 << 10},
	} {
		name, length, step, limit := c.name, c.length, c.step, 2*c.limit+256<<10
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		l := NewLedger(0)
		for offset := int64(0); offset < length; offset += step {
			l.Add(Key{1 + offset, offset}, offset, 100, false)
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		got := int64(after.HeapAlloc) - int64(before.HeapAlloc)
		if got > limit {
			t.Errorf("%s: %d bytes, want at most %d", name, got, limit)
		}
		if got := l.Low(length); got != 0 {
			t.Errorf("%s: low is %d", name, got)
		}
		for offset := int64(0); offset < length; offset += step {
			l.Remove(Key{1 + offset, offset}, offset, 100, false)
			l.Low(length)
		}
		if got := l.Low(length); got != length {
			t.Errorf("%s: low is %d at the end", name, got)
		}
	}
}

func TestLedgerPanicsOnWhatWasNotAdded(t *testing.T) {
	for name, f := range map[string]func(*Ledger){
		"offset":  func(l *Ledger) { l.Remove(Key{100, 5000}, 5000, 1, true) },
		"due":     func(l *Ledger) { l.Remove(Key{1 << 40, 5}, 5, 1, true) },
		"release": func(l *Ledger) { l.Release(5) },
		"stored":  func(l *Ledger) { l.Stored(5) },
		"again":   func(l *Ledger) { l.Add(Key{200, 5}, 5, 1, true) },
		"among many": func(l *Ledger) {
			for offset := range int64(20) {
				l.Hold(offset)
			}
			l.Hold(13)
		},
		"none among many": func(l *Ledger) {
			for offset := range int64(20) {
				l.Hold(offset)
			}
			l.Release(20)
		},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if r := recover(); r == nil || !strings.HasPrefix(fmt.Sprint(r), "state: BUG: ") {
					t.Errorf("got %v, want a panic that says BUG", r)
				}
			}()
			l := NewLedger(0)
			l.Add(Key{100, 5}, 5, 1, true)
			f(l)
		})
	}
}

func TestLedgerDoesNotAllocate(t *testing.T) {
	l := NewLedger(0)
	offset := int64(0)
	step := func() {
		offset++
		l.Add(Key{offset * 3, offset}, offset, 100, offset%2 == 0)
		if offset > 5000 {
			o := offset - 5000
			l.Remove(Key{o * 3, o}, o, 100, o%2 == 0)
			l.Low(offset)
			l.Resume(offset)
		}
	}
	for range 10_000 {
		step()
	}
	if got := testing.AllocsPerRun(50_000, step); got > 0.01 {
		t.Errorf("%v allocations for a record", got)
	}
}

// all are the buckets, in order.
func (a *agenda) all() iter.Seq[Stretch] {
	return func(yield func(Stretch) bool) {
		for _, b := range a.list {
			if !yield(Stretch{From: b.from, To: b.from + b.width, Records: b.records, Bytes: b.bytes}) {
				return
			}
		}
	}
}

// What is displaced is known, or not known to be not, and however low a seq is, knowing it takes little memory.
func TestDisplaced(t *testing.T) {
	l := NewLedger(1 << 40)
	for _, seq := range []int64{1<<40 - 5, 1<<40 - 1<<20, 1 << 20, -1 << 60} {
		l.Displaced.Add(seq)
		if !l.Displaced.Has(seq) {
			t.Errorf("%d is not known", seq)
		}
	}
	if l.Displaced.Has(1<<40 - 6) {
		t.Error("one that nothing was said of is displaced")
	}
	if n := len(l.Displaced.seqs.pages); n > 5 {
		t.Errorf("%d pages", n)
	}
}

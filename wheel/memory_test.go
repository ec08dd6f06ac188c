package wheel

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
)

// filled holds n entries due at random within a stretch.
func filled(now, from Tick, stretch, n int) *Wheel {
	r := rand.New(rand.NewPCG(7, 7))
	w := New(now)
	for i := range n {
		w.Add(from+Tick(r.IntN(stretch)), int64(i), uint64(i))
	}
	return w
}

func TestAtMost24BytesAnEntry(t *testing.T) {
	const n = 300_000
	for _, c := range []struct {
		name    string
		now     Tick
		stretch int
	}{
		{"one due", benchStart, 1},
		{"a second", benchStart, 1_000},
		{"ten minutes", benchStart, 600_000},
		{"a day", benchStart, 86_400_000},
		{"a year", benchStart, 366 * 86_400_000},
		{"ten minutes, cursor at 0", 0, 600_000},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := filled(c.now, benchStart, c.stretch, n)
			if got := float64(w.Bytes()) / n; got > 24 {
				t.Errorf("%.2f bytes an entry", got)
			}
		})
	}
}

func TestBytesIsWhatTheHeapGrewBy(t *testing.T) {
	before := heap()
	w := filled(benchStart, benchStart, 600_000, 300_000)
	grown := float64(heap() - before)
	if got := float64(w.Bytes()); got < 0.95*grown || got > 1.05*grown {
		t.Errorf("Bytes is %.0f but the heap grew by %.0f", got, grown)
	}
	runtime.KeepAlive(w)
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// The ways to become smaller, each down to a tenth and then to nothing.
func TestMemoryIsGivenBack(t *testing.T) {
	const n = 300_000
	removed := 0
	entries := spread(n, tenMinutes)
	for name, reduce := range map[string]func(w *Wheel, n int){
		"taken": func(w *Wheel, n int) { w.Take(benchStart+tenMinutes, nil, n) },
		"taken from the far end": func(w *Wheel, n int) {
			for due := benchStart + tenMinutes; n > 0; due -= 10_000 {
				n -= w.TakeFrom(due, func(Entry) {})
			}
		},
		"removed": func(w *Wheel, n int) {
			for range n {
				w.Remove(entries[removed].Due, entries[removed].Seq)
				removed++
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := New(benchStart)
			for _, e := range entries {
				w.Add(e.Due, e.Seq, e.Ref)
			}
			full := w.Bytes()
			reduce(w, n*9/10)
			if got := w.Bytes(); got > full/2 {
				t.Errorf("%d bytes of %d are held for a tenth of the entries", got, full)
			}
			reduce(w, w.Len())
			if got := w.Bytes(); w.Len() != 0 || got > 256<<10 {
				t.Errorf("%d bytes are held for %d entries", got, w.Len())
			}
		})
	}
}

func TestAddAndTakeDoNotAllocate(t *testing.T) {
	for _, gap := range []Tick{0, 3, 1000} { // within a slot, a level, over levels
		t.Run(fmt.Sprint("gap ", gap), func(t *testing.T) {
			w := New(benchStart)
			dst := make([]Entry, 0, 100)
			seq := int64(0)
			round := func() {
				for i := range Tick(100) {
					w.Add(w.Now()+i*gap, seq, 0)
					seq++
				}
				dst = w.Take(w.Now()+100*gap, dst[:0], 100)
			}
			round()
			if got := testing.AllocsPerRun(1000, round); got != 0 {
				t.Errorf("%v allocations a round", got)
			}
			if err := check(w); err != nil {
				t.Error(err)
			}
		})
	}
}

// A slot of a single due goes to level 0 as it is, without a copy: nothing is allocated, and its chunks stay.
func TestOneDueIsNotCopied(t *testing.T) {
	w := filled(benchStart, benchStart+100_000, 1, 100_000)
	head := w.levels[2].slots[digitsOf(benchStart+100_000).at(2)].head
	dst := make([]Entry, 0, 10)
	if got := testing.AllocsPerRun(1, func() { dst = w.Take(benchStart+100_000, dst[:0], 10) }); got != 0 {
		t.Errorf("%v allocations", got)
	}
	if got := w.here().head; got != head {
		t.Errorf("the slot begins with chunk %d, want %d", got, head)
	}
}

package wheel

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"
)

// baseline is what a wheel has to beat: a 4-ary heap by (due, seq).
type baseline []Entry

func (h *baseline) add(e Entry) {
	*h = append(*h, e)
	s, i := *h, len(*h)-1
	for i > 0 && byKey(e, s[(i-1)/4]) < 0 {
		s[i] = s[(i-1)/4]
		i = (i - 1) / 4
	}
	s[i] = e
}

func (h *baseline) take() Entry {
	s := *h
	top, e := s[0], s[len(s)-1]
	s = s[:len(s)-1]
	*h = s
	i := 0
	for {
		least := 4*i + 1
		for j := least + 1; j < min(4*i+5, len(s)); j++ {
			if byKey(s[j], s[least]) < 0 {
				least = j
			}
		}
		if least >= len(s) || byKey(e, s[least]) <= 0 {
			break
		}
		s[i] = s[least]
		i = least
	}
	if len(s) > 0 {
		s[i] = e
	}
	return top
}

// benchStart is an ordinary time in milliseconds.
const benchStart = Tick(1_790_000_000_123)

// spread is entries in the order in which they come, due at random within a stretch.
func spread(n, within int) []Entry {
	r := rand.New(rand.NewPCG(1, 2))
	out := make([]Entry, n)
	for i := range out {
		out[i] = Entry{benchStart + Tick(r.IntN(within)), int64(i), uint64(i)}
	}
	return out
}

var benchSizes = []int{1_000_000, 10_000_000}

const (
	aMinute    = 60_000
	tenMinutes = 10 * aMinute
)

// BenchmarkInsertExpire fills a wheel and empties it in batches of 1000. The figures are for one entry. The fewer entries
// a tick has, the more a tick's own cost weighs.
func BenchmarkInsertExpire(b *testing.B) {
	for _, n := range benchSizes {
		b.Run(fmt.Sprintf("wheel/minutes=1/n=%d", n), func(b *testing.B) { benchmarkWheel(b, spread(n, aMinute)) })
		b.Run(fmt.Sprintf("wheel/minutes=10/n=%d", n), func(b *testing.B) { benchmarkWheel(b, spread(n, tenMinutes)) })
		b.Run(fmt.Sprintf("heap/minutes=10/n=%d", n), func(b *testing.B) { benchmarkBaseline(b, spread(n, tenMinutes)) })
	}
}

func benchmarkWheel(b *testing.B, entries []Entry) {
	var insert, expire time.Duration
	var perEntry float64
	dst := make([]Entry, 0, 1000)
	rounds := 0
	b.ReportAllocs()
	for b.Loop() {
		w := New(benchStart)
		start := time.Now()
		for _, e := range entries {
			w.Add(e.Due, e.Seq, e.Ref)
		}
		insert += time.Since(start)
		perEntry = float64(w.Bytes()) / float64(w.Len())

		start = time.Now()
		for w.Len() > 0 {
			dst = w.Take(benchStart+tenMinutes, dst[:0], 1000)
		}
		expire += time.Since(start)
		rounds++
	}
	report(b, insert, expire, rounds*len(entries))
	b.ReportMetric(perEntry, "B/entry")
}

func benchmarkBaseline(b *testing.B, entries []Entry) {
	var insert, expire time.Duration
	rounds := 0
	b.ReportAllocs()
	for b.Loop() {
		var h baseline
		start := time.Now()
		for _, e := range entries {
			h.add(e)
		}
		insert += time.Since(start)
		start = time.Now()
		for len(h) > 0 {
			h.take()
		}
		expire += time.Since(start)
		rounds++
	}
	report(b, insert, expire, rounds*len(entries))
}

func report(b *testing.B, insert, expire time.Duration, n int) {
	b.ReportMetric(float64(insert.Nanoseconds())/float64(n), "ns/insert")
	b.ReportMetric(float64(expire.Nanoseconds())/float64(n), "ns/expire")
}

// BenchmarkGC is a full collection while a wheel holds its entries.
func BenchmarkGC(b *testing.B) {
	for _, n := range benchSizes {
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) {
			w := New(benchStart)
			for _, e := range spread(n, tenMinutes) {
				w.Add(e.Due, e.Seq, e.Ref)
			}
			for b.Loop() {
				runtime.GC()
			}
			runtime.KeepAlive(w)
		})
	}
}

// BenchmarkOneDue takes a million entries of a single due in batches of 1000, added in order and at random.
func BenchmarkOneDue(b *testing.B) {
	inOrder := make([]Entry, 1_000_000)
	for i := range inOrder {
		inOrder[i] = Entry{benchStart + 1000, int64(i), uint64(i)}
	}
	shuffled := slices.Clone(inOrder)
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	b.Run("in order", func(b *testing.B) { benchmarkWheel(b, inOrder) })
	b.Run("shuffled", func(b *testing.B) { benchmarkWheel(b, shuffled) })
}

// BenchmarkPause is the longest single Take of 1000 entries while a wheel empties: what the cascades cost the lane.
func BenchmarkPause(b *testing.B) {
	for _, n := range benchSizes {
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) {
			entries := spread(n, tenMinutes)
			dst := make([]Entry, 0, 1000)
			var longest time.Duration
			for b.Loop() {
				w := New(benchStart)
				for _, e := range entries {
					w.Add(e.Due, e.Seq, e.Ref)
				}
				for w.Len() > 0 {
					start := time.Now()
					dst = w.Take(benchStart+tenMinutes, dst[:0], 1000)
					longest = max(longest, time.Since(start))
				}
			}
			b.ReportMetric(longest.Seconds()*1000, "ms-longest")
		})
	}
}

// BenchmarkRemove removes at random: it searches a slot of 65 seconds.
func BenchmarkRemove(b *testing.B) {
	entries := spread(benchSizes[0], tenMinutes)
	w := New(benchStart)
	for _, e := range entries {
		w.Add(e.Due, e.Seq, e.Ref)
	}
	r := rand.New(rand.NewPCG(3, 4))
	for b.Loop() {
		e := entries[r.IntN(len(entries))]
		if _, ok := w.Remove(e.Due, e.Seq); ok {
			w.Add(e.Due, e.Seq, e.Ref)
		}
	}
}

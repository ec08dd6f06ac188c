// Package histogram counts how long things take, from any goroutine.
package histogram

import (
	"math"
	"sync/atomic"
	"time"
)

// Bounds are the upper bounds, in seconds, of a histogram that is not told others.
var Bounds = []float64{
	0.001, 0.002, 0.003, 0.004, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5,
	1, 2.5, 5, 10, 30, 60, 300, 1800, 3600,
}

// Delays are the upper bounds, in seconds, of what people ask for: from a second to a year.
var Delays = []float64{1, 5, 15, 30, 60, 300, 900, 1800, 3600, 3 * 3600, 6 * 3600, 12 * 3600, day, 2 * day, 7 * day, 14 * day, 30 * day, 90 * day, 365 * day}

const day = 24 * 3600

// Histogram counts observations by bounds. The zero value has Bounds.
type Histogram struct {
	bounds []float64 // nil: Bounds
	counts [26]atomic.Int64
	sum    atomic.Uint64 // bits of a float64: seconds, which many long delays would not leave room for in a whole number
}

// Of returns a histogram with other bounds, at most as many as Bounds.
func Of(bounds []float64) *Histogram { return &Histogram{bounds: bounds} }

// Snapshot is what a histogram has counted, in seconds.
type Snapshot struct {
	Bounds []float64
	Counts []int64 // one a bound, not cumulative, and one more for what is above
	Sum    float64 // seconds
}

// Observe counts n observations of d.
func (h *Histogram) Observe(d time.Duration, n int64) {
	s := d.Seconds()
	h.counts[h.index(s)].Add(n)
	h.addSum(s * float64(n))
}

// index is where a number of seconds is counted.
func (h *Histogram) index(s float64) int {
	i, bounds := 0, h.upper()
	for i < len(bounds) && s > bounds[i] {
		i++
	}
	return i
}

func (h *Histogram) addSum(s float64) {
	for {
		was := h.sum.Load()
		if h.sum.CompareAndSwap(was, math.Float64bits(math.Float64frombits(was)+s)) {
			return
		}
	}
}

// Tally counts for a histogram what one goroutine observes, until that is added.
type Tally struct {
	Of     *Histogram
	counts [26]int64
	sum    float64 // seconds
	some   bool
}

// Observe counts an observation.
func (t *Tally) Observe(d time.Duration) {
	s := d.Seconds()
	t.counts[t.Of.index(s)]++
	t.sum += s
	t.some = true
}

// Add adds what was counted, and begins anew.
func (t *Tally) Add() {
	if !t.some {
		return
	}
	for i, n := range t.counts {
		if n > 0 {
			t.Of.counts[i].Add(n)
		}
	}
	t.Of.addSum(t.sum)
	*t = Tally{Of: t.Of}
}

// Snapshot returns what was counted so far.
func (h *Histogram) Snapshot() Snapshot {
	bounds := h.upper()
	out := Snapshot{Bounds: bounds, Counts: make([]int64, len(bounds)+1), Sum: math.Float64frombits(h.sum.Load())}
	for i := range out.Counts {
		out.Counts[i] = h.counts[i].Load()
	}
	return out
}

// Longest is a bound of the longest that was observed, in seconds: the smallest one that none has passed, or the last one. It is 0 when nothing was observed.
func (s Snapshot) Longest() (bound float64) {
	for i, n := range s.Counts {
		if n > 0 {
			bound = s.Bounds[min(i, len(s.Bounds)-1)]
		}
	}
	return bound
}

func (h *Histogram) upper() []float64 {
	if h.bounds == nil {
		return Bounds
	}
	return h.bounds
}

// Package histogram counts how long things take, from any goroutine.
package histogram

import (
	"sync/atomic"
	"time"
)

// Bounds are the upper bounds, in seconds, of every histogram.
var Bounds = []float64{
	0.001, 0.002, 0.003, 0.004, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5,
	1, 2.5, 5, 10, 30, 60, 300, 1800, 3600,
}

// Histogram counts observations by Bounds.
type Histogram struct {
	counts [26]atomic.Int64
	micros atomic.Int64 // sum
}

// Snapshot is what a histogram has counted, in seconds.
type Snapshot struct {
	Counts []int64 // one a bound, not cumulative, and one more for what is above
	Sum    float64 // seconds
}

// Observe counts n observations of d.
func (h *Histogram) Observe(d time.Duration, n int64) {
	s := d.Seconds()
	i := 0
	for i < len(Bounds) && s > Bounds[i] {
		i++
	}
	h.counts[i].Add(n)
	h.micros.Add(d.Microseconds() * n)
}

// Snapshot returns what was counted so far.
func (h *Histogram) Snapshot() Snapshot {
	out := Snapshot{Counts: make([]int64, len(h.counts)), Sum: float64(h.micros.Load()) / 1e6}
	for i := range h.counts {
		out.Counts[i] = h.counts[i].Load()
	}
	return out
}

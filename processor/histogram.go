package processor

import (
	"sync/atomic"
	"time"
)

// histogram counts observations by HistogramBounds.
type histogram struct {
	counts [26]atomic.Int64
	micros atomic.Int64 // sum
}

func (h *histogram) observe(d time.Duration, n int64) {
	s := d.Seconds()
	i := 0
	for i < len(HistogramBounds) && s > HistogramBounds[i] {
		i++
	}
	h.counts[i].Add(n)
	h.micros.Add(d.Microseconds() * n)
}

func (h *histogram) snapshot() Histogram {
	out := Histogram{Counts: make([]int64, len(h.counts)), Sum: float64(h.micros.Load()) / 1e6}
	for i := range h.counts {
		out.Counts[i] = h.counts[i].Load()
	}
	return out
}

package bench

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Figures are numbers by name; the name ends in the unit.
type Figures map[string]float64

// median is the middle one, or the mean of the two in the middle. Of nothing it is NaN.
func median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	s := slices.Sorted(slices.Values(values))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

func medianOf[T any](of []T, value func(T) float64) float64 {
	var values []float64
	for _, v := range of {
		values = append(values, value(v))
	}
	return median(values)
}

// most is the largest. Of nothing it is NaN.
func most(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	return slices.Max(values)
}

// percentile is the smallest of sorted values that at least permille of 1000 do not exceed (nearest rank), so it
// is always one that occurred.
func percentile(sorted []time.Duration, permille int) time.Duration {
	rank := (len(sorted)*permille + 999) / 1000
	return sorted[max(rank, 1)-1]
}

// latenesses sums up how late records were.
type latenesses struct {
	n                   int
	p50, p99, p999, max time.Duration
}

// summarize needs at least one lateness, and leaves them in their order.
func summarize(late []time.Duration) latenesses {
	s := slices.Sorted(slices.Values(late))
	return latenesses{len(s), percentile(s, 500), percentile(s, 990), percentile(s, 999), s[len(s)-1]}
}

func (l latenesses) figures() Figures {
	return Figures{"p50_ms": ms(l.p50), "p99_ms": ms(l.p99), "p999_ms": ms(l.p999), "max_ms": ms(l.max), "records": float64(l.n)}
}

func (l latenesses) String() string {
	return fmt.Sprintf("p50 %.1f ms, p99 %.1f ms, p99.9 %.1f ms, max %.0f ms", ms(l.p50), ms(l.p99), ms(l.p999), ms(l.max))
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// plain has three digits after the point, less the zeros at their end.
func plain(v float64) string {
	return strings.TrimSuffix(strings.TrimRight(strconv.FormatFloat(v, 'f', 3, 64), "0"), ".")
}

// thousands writes a number as 1,234,567.
func thousands(n int64) string {
	s := strconv.FormatInt(n, 10)
	from := 0
	if n < 0 {
		from = 1
	}
	for i := len(s) - 3; i > from; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

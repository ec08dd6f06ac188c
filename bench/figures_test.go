package bench

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestMedian(t *testing.T) {
	for _, test := range []struct {
		values []float64
		want   float64
	}{
		{[]float64{7}, 7},
		{[]float64{9, 1, 5}, 5},
		{[]float64{4, 1, 3, 2}, 2.5},
		{[]float64{1, 1000, 1, 1}, 1},
	} {
		before := slices.Clone(test.values)
		if got := median(test.values); got != test.want {
			t.Errorf("median(%v) = %v, want %v", test.values, got, test.want)
		}
		if !slices.Equal(test.values, before) {
			t.Errorf("median has reordered %v to %v", before, test.values)
		}
	}
	if got := median(nil); !math.IsNaN(got) {
		t.Errorf("median of nothing is %v, want NaN", got)
	}
	if got := most(nil); !math.IsNaN(got) {
		t.Errorf("most of nothing is %v, want NaN", got)
	}
	if got := most([]float64{1, 3, 2}); got != 3 {
		t.Errorf("most = %v, want 3", got)
	}
}

func TestPercentile(t *testing.T) {
	upTo := func(n int) []time.Duration {
		var s []time.Duration
		for i := range n {
			s = append(s, time.Duration(i+1))
		}
		return s
	}
	for _, test := range []struct {
		n, permille int
		want        time.Duration
	}{
		{1, 1, 1}, {1, 500, 1}, {1, 999, 1}, {1, 1000, 1},
		{2, 500, 1}, {2, 501, 2},
		{100, 990, 99}, {100, 991, 100}, {100, 999, 100},
		{1000, 500, 500}, {1000, 990, 990}, {1000, 999, 999},
		{200_000, 999, 199_800}, {200_000, 1000, 200_000},
		{10, 0, 1},
	} {
		if got := percentile(upTo(test.n), test.permille); got != test.want {
			t.Errorf("%d of 1000 of %d values = %d, want %d", test.permille, test.n, got, test.want)
		}
	}
}

// At least so many values are at or below a percentile, and without it there would be fewer.
func TestPercentileIsNearestRank(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) time.Duration {
			return time.Duration(rapid.IntRange(0, 50).Draw(t, "value"))
		}), 1, 300).Draw(t, "values")
		permille := rapid.IntRange(1, 1000).Draw(t, "permille")
		got := percentile(slices.Sorted(slices.Values(values)), permille)
		below, upTo := 0, 0
		for _, v := range values {
			if v < got {
				below++
			}
			if v <= got {
				upTo++
			}
		}
		if upTo*1000 < permille*len(values) || below*1000 >= permille*len(values) {
			t.Fatalf("%d of 1000 of %v is %d, with %d values up to it and %d below", permille, values, got, upTo, below)
		}
	})
}

func TestSummarize(t *testing.T) {
	late := []time.Duration{4 * time.Millisecond, 1500 * time.Microsecond, 2 * time.Millisecond}
	l := summarize(late)
	if want := (latenesses{3, 2 * time.Millisecond, 4 * time.Millisecond, 4 * time.Millisecond, 4 * time.Millisecond}); l != want {
		t.Errorf("got %+v, want %+v", l, want)
	}
	if got, want := l.String(), "p50 2.0 ms, p99 4.0 ms, p99.9 4.0 ms, max 4 ms"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if f := l.figures(); f["p50_ms"] != 2 || f["max_ms"] != 4 || f["records"] != 3 {
		t.Errorf("figures %v", f)
	}
}

func TestNumbersForPeople(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0", 7: "7", 999: "999", 1000: "1,000", 12345: "12,345", 123456: "123,456", 1234567: "1,234,567", -1: "-1", -999: "-999", -1000: "-1,000", -123456: "-123,456",
	} {
		if got := thousands(n); got != want {
			t.Errorf("thousands(%d) = %q, want %q", n, got, want)
		}
	}
	for v, want := range map[float64]string{2: "2", 2.5: "2.5", 2.0004: "2", 2.0006: "2.001", 10: "10", 0: "0"} {
		if got := plain(v); got != want {
			t.Errorf("plain(%v) = %q, want %q", v, got, want)
		}
	}
}

package histogram

import (
	"testing"
	"time"
)

// Longest is the bound of the bucket in which the longest lies, and the last one for what is above all.
func TestLongest(t *testing.T) {
	var h Histogram
	for _, step := range []struct {
		observed time.Duration
		want     float64
	}{{0, 0.001}, {2 * time.Millisecond, 0.002}, {2001 * time.Microsecond, 0.003}, {time.Millisecond, 0.003}, {60 * time.Millisecond, 0.075}, {2 * time.Hour, 3600}} {
		h.Observe(step.observed, 1)
		if got := h.Snapshot().Longest(); got != step.want {
			t.Errorf("after %v: %g, want %g", step.observed, got, step.want)
		}
	}
	if got := (&Histogram{}).Snapshot().Longest(); got != 0 {
		t.Errorf("of nothing: %g", got)
	}
}

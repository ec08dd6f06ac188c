package histogram

import (
	"reflect"
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

// What is counted apart and then added is as if it had been observed one by one.
func TestTally(t *testing.T) {
	one, other := Of(Delays), Of(Delays)
	tally := Tally{Of: one}
	tally.Add() // nothing
	for range 2 {
		for _, d := range []time.Duration{0, time.Second, 2 * time.Second, time.Hour, 10_000 * time.Hour} {
			tally.Observe(d)
			other.Observe(d, 1)
		}
		tally.Add()
		tally.Add() // nothing more
	}
	if got, want := one.Snapshot(), other.Snapshot(); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

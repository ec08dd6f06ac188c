package pending

import (
	"testing"
	"time"

	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/wheel"
)

// The horizon rises in small steps while loading goes on: what lies above it costs none of them anything, however much that is.
func TestHorizonRisesBelowWhatIsEarly(t *testing.T) {
	const many, raises = 200_000, 5000
	var horizon state.Key
	x := early{horizon: &horizon}
	for i := range int64(many) { // of two targets, in no order
		x.add(wheel.Entry{Due: wheel.Tick(raises + i*7919%many), Seq: i}, &line{}, 1)
	}
	began := time.Now()
	for horizon.Due < raises-1 {
		horizon.Due++
		if passed := x.passed(); len(passed) > 0 {
			t.Fatalf("at %d it has passed %v", horizon.Due, passed)
		}
	}
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("that took %v", took)
	}
	for i := range int64(many) { // every second one is taken by a turn meanwhile
		if key := (state.Key{Due: raises + i*7919%many, Seq: i}); i%2 == 0 {
			x.waiting.remove(key)
			x.forget(key)
		}
	}
	last := wheel.Entry{}
	for got := 0; len(x.above) > 0; {
		horizon.Due += 100
		for _, e := range x.passed() {
			if got++; compareEntries(last, e) >= 0 || horizon.Less(keyOfEntry(e)) {
				t.Fatalf("%v follows %v below %v", e, last, horizon)
			}
			last = e
		}
		if left := many/2 - got; left != len(x.above) || left != x.waiting.n {
			t.Fatalf("%d are early, and %d of them wait; want %d", len(x.above), x.waiting.n, left)
		}
	}
	if x.bytes != 0 {
		t.Errorf("%d bytes are early", x.bytes)
	}
}

package pending

import (
	"testing"
)

// What is shown as the next due time is a record's, wherever it is held, and not the moment at which
// the lane has to look.
func TestFirstDue(t *testing.T) {
	l := testOwner(t)
	p := l.live(t)
	shows := func(why string, want int64) {
		t.Helper()
		if got := p.Figures(testNow).NextDue; got != want {
			t.Errorf("%s: %d, want %d", why, got, want)
		}
	}
	shows("nothing is pending", 0)
	far := testNow + 10*testWindow.Milliseconds()
	l.read(t, p, testNow, req(0, far+9, "orders"))
	shows("one that only the store holds", far+9)
	l.read(t, p, testNow, req(1, far+5, "orders"))
	shows("an earlier one", far+5)
	l.read(t, p, testNow, req(2, testNow+7, "orders"))
	shows("one in the wheel", testNow+7)
	pt := p.Take(testNow+7, nil, 10, anyBytes)
	p.turns++
	shows("that one is in a turn", far+5)
	p.turns--
	p.Repeat(pt, testNow+50)
	shows("its turn is to be repeated", testNow+7)
	l.happened(p.Take(testNow+50, nil, 10, anyBytes))
	l.read(t, p, testNow, req(3, testNow-60_000, "orders"))
	shows("one that is late", testNow-60_000)
	l.happened(p.Take(testNow+50, nil, 10, anyBytes))
	l.read(t, p, testNow, req(4, testNow+100, "nowhere"))
	shows("one that is refused", testNow)
	l.happened(p.Take(testNow+50, nil, 10, anyBytes))
	p.horizon.Due = far + 6 // as if the first of the two had been loaded
	shows("what lies above the horizon", far+9)
	p.Forgo()
	shows("what only the log holds", 0)
}

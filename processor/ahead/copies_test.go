package ahead

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
)

// What is held of names that nothing had, where the log has lost its beginning, does not grow with how often a name comes. Above O, where
// copies find what names them, nothing is held.
func TestNamesOfWhatIsLost(t *testing.T) {
	const n = 100_000
	for _, c := range []struct {
		name string
		o    int64 // O
		id   func(i int) string
		most float64 // bytes for each
	}{
		{"one id again and again", n + 5, func(int) string { return "a" }, 1},
		{"many ids", n + 5, func(i int) string { return fmt.Sprint(i) }, 80},
		{"many ids above O", 5, func(i int) string { return fmt.Sprint(i) }, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := opened(t, state.Checkpoint{Offset: c.o, LowWater: 5}, Env{})
			p.LogBegins(5)
			before := heap()
			for i := range n {
				p.Accept(cancelOf(int64(5+i), c.id(i)))
			}
			p.Decide()
			if got := (heap() - before) * (1 << 20) / n; got > c.most {
				t.Errorf("it holds %.0f bytes for each, want at most %.0f", got, c.most)
			}
			runtime.KeepAlive(p)
		})
	}
}

// A copy of what the log has lost is taken by the one that takes most of those that have named its id, in whatever order they come.
func TestNamesThatTakeMost(t *testing.T) {
	asked := func(s int64) int64 { return testNow - 60_000 + s*1000 }
	for _, c := range []struct {
		name    string
		asked   []int64 // when others have asked in another partition; 0: here, which takes all
		written int64
		taken   bool
	}{
		{"before it was written", []int64{asked(-10)}, asked(0), false},
		{"the first takes more", []int64{asked(20), asked(-10)}, asked(0), true},
		{"the last takes more", []int64{asked(-10), asked(20)}, asked(0), true},
		{"the one between", []int64{asked(-20), asked(20), asked(-10)}, asked(0), true},
		{"none of several", []int64{asked(-10), asked(-30), asked(-20)}, asked(0), false},
		{"here, and then elsewhere", []int64{0, asked(-10)}, asked(0), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := int64(5 + len(c.asked))
			p := opened(t, state.Checkpoint{Offset: o, LowWater: 5}, Env{})
			p.LogBegins(5)
			for i, at := range c.asked {
				if at == 0 {
					p.Accept(cancelOf(int64(5+i), "a"))
					continue
				}
				p.Accept(passedOn(int64(5+i), "a", at))
			}
			due := testNow + 1000
			r := request(o, due, topics.HeaderID, "a")
			r.Headers, _ = topics.AppendCopy(nil, r.Headers, testMark, topics.Copy{Seq: 2, Due: due, Timestamp: c.written, From: 2}, nil)
			r.Timestamp = time.UnixMilli(testNow)
			p.Accept(r)
			p.Decide()
			want := []int64{2}
			if c.taken {
				want = nil
			}
			if got := offsetsOf(p); !slices.Equal(got, want) {
				t.Errorf("pending are %v, want %v", got, want)
			}
		})
	}
}

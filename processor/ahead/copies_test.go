package ahead

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

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

// carriedRetry is the copy at an offset of a retry that the log had at another one first.
func carriedRetry(offset, seq, of, first, due int64) *kgo.Record {
	r := again(seq, of, first, due)
	r.Headers, _ = topics.AppendCopy(nil, r.Headers, testMark, topics.Copy{Seq: seq, Due: due, Timestamp: r.Timestamp.UnixMilli(), From: seq}, nil)
	r.Offset = offset
	return r
}

// A copy of a retry tells of its request what the retry did, where the log has lost both: what was tried again since waits once, and what stands for the request is known.
func TestRetriesThatWereCarried(t *testing.T) {
	first, next, later := testNow-2000, testNow+1000, testNow+5000
	for _, tt := range []struct {
		name     string
		log      []*kgo.Record
		pending  []int64
		by, next int64
	}{
		{"the copy", []*kgo.Record{carriedRetry(8, 3, 0, first, next)}, []int64{3}, 3, next},
		{"copied twice", []*kgo.Record{carriedRetry(8, 3, 0, first, next), carriedRetry(9, 3, 0, first, next)}, []int64{3}, 3, next},
		{"tried again since", []*kgo.Record{carriedRetry(8, 3, 0, first, next), again(11, 0, first, later)}, []int64{11}, 11, later},
		{"tried again since the copy was read twice", []*kgo.Record{carriedRetry(8, 3, 0, first, next), again(11, 0, first, later), carriedRetry(12, 3, 0, first, next)}, []int64{11}, 11, later},
		{"the retry, and no copy", []*kgo.Record{again(8, 0, first, next)}, []int64{8}, 8, next},
		{"of another request", []*kgo.Record{carriedRetry(8, 3, 1, first, next), again(11, 2, first, later)}, []int64{3, 11}, 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := opened(t, state.Checkpoint{Offset: 10, LowWater: 8, Watermark: state.Key{Due: testNow - 1000, Seq: 5}}, Env{Watch: Watch{Has: true}})
			p.LogBegins(8)
			accept(p, tt.log...)
			p.Decide()
			if got := offsetsOf(p); !slices.Equal(got, tt.pending) {
				t.Errorf("pending are %v, want %v", got, tt.pending)
			}
			f := p.Fates()
			if tt.by == 0 {
				if len(f) > 0 {
					t.Errorf("the first has become %+v", f)
				}
				return
			}
			if len(f) != 1 || f[0].State != IsCarriedOn || f[0].By != tt.by || f[0].NextDue != tt.next || f[0].Due != first || f[0].Written != testNow {
				t.Errorf("the first has become %+v", f)
			}
		})
	}
}

// Of a retry it is known what stands for it, when that is a later one of its request.
func TestRetryThatWasTriedAgain(t *testing.T) {
	first, next, later := testNow-2000, testNow-500, testNow+5000
	for _, tt := range []struct {
		name string
		log  []*kgo.Record
		by   int64
	}{
		{"in the log", []*kgo.Record{again(8, 0, first, next), again(11, 0, first, later)}, 11},
		{"a copy of it", []*kgo.Record{carriedRetry(9, 8, 0, first, next), again(11, 0, first, later)}, 11},
		{"a copy of the later one", []*kgo.Record{again(8, 0, first, next), carriedRetry(12, 11, 0, first, later)}, 11},
		{"of another request", []*kgo.Record{again(8, 0, first, next), again(11, 1, first, later)}, 0},
		{"none", []*kgo.Record{again(8, 0, first, next)}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := opened(t, state.Checkpoint{Offset: 10, LowWater: 8, Watermark: state.Key{Due: testNow, Seq: 9}, Parsers: []state.ParserEpoch{{Spec: "p1"}}}, Env{Watch: Watch{Has: true, Offset: 8}})
			p.LogBegins(8)
			accept(p, tt.log...)
			p.Decide()
			want, due := IsResolved, int64(0)
			if tt.by > 0 {
				want, due = IsCarriedOn, later
			}
			if f := p.Fates(); len(f) != 1 || f[0].Offset != 8 || f[0].State != want || f[0].By != tt.by || f[0].NextDue != due {
				t.Errorf("it has become %+v", f)
			}
		})
	}
}

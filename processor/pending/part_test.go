package pending

import (
	"slices"
	"testing"
	"time"

	"github.com/duewheel/duewheel/state"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Where a part is split, each half leaves a checkpoint that is valid by itself.
func TestSplit(t *testing.T) {
	late := func(offset int64) *kgo.Record { return req(offset, testNow-100, "orders") }
	near := func(offset, ms int64) *kgo.Record { return req(offset, testNow+ms, "orders") }
	key := func(offset, ms int64) state.Key { return state.Key{Due: testNow + ms, Seq: offset} }
	w := key(0, -50) // of the record that is delivered first
	l := testOwner(t)
	p := l.live(t)
	l.read(t, p, testNow, near(0, -50))
	l.happened(p.Take(testNow, nil, 1, anyBytes))
	l.read(t, p, testNow, late(1), near(2, 5), near(3, 4), late(4), near(5, 3))
	whole := p.Take(testNow+5, nil, 100, anyBytes)
	equals(t, "records", whole.offsets(), []int64{1, 4, 5, 3, 2})
	for _, c := range []struct {
		name   string
		at     int
		offset int64
		w      state.Key
	}{
		{"O stops short of late records, and W stays", 1, 4, w},
		{"after the late ones O passes them, and W stays", 2, 6, w},
		{"W is the last record's key", 3, 6, key(5, 3)},
		{"and L stays below what is left", 4, 6, key(3, 4)},
	} {
		t.Run(c.name, func(t *testing.T) {
			first, second := whole.Split(c.at)
			equal(t, "O", first.To.Offset, c.offset)
			equal(t, "W", first.To.Watermark, c.w)
			equal(t, "L", first.To.LowWater, min(slices.Min(second.offsets()), whole.To.LowWater, c.offset))
			equal(t, "O of the second", second.To.Offset, whole.To.Offset)
			equal(t, "W of the second", second.To.Watermark, whole.To.Watermark)
			equal(t, "the first comes first", first.before(second) && !second.before(first), true)
			equals(t, "records", append(first.offsets(), second.offsets()...), whole.offsets())
		})
	}
}

// The first half of a part names the parsers of what the second half is to deliver, although that
// is not pending any more by the ledger's count.
func TestSplitKeepsParsers(t *testing.T) {
	l := testOwner(t)
	old := state.Checkpoint{Offset: 2, LowWater: 0, Parsers: []state.ParserEpoch{{From: 0, Spec: "p1+1000"}}}
	p, err := l.assign(old, 0, 3, 3)
	if err != nil {
		t.Fatal(err)
	}
	fixed := func(offset, ms int64) *kgo.Record {
		r := req(offset, 0, "orders")
		r.Headers, r.Timestamp = r.Headers[1:], time.UnixMilli(testNow+ms)
		return r
	}
	l.read(t, p, testNow, fixed(0, 0), fixed(1, -1), req(2, testNow, "orders"))
	must(t, p.GoLive(l.room))
	whole := p.Take(testNow+1000, nil, 100, anyBytes)
	equals(t, "records", whole.offsets(), []int64{2, 1, 0})
	equals(t, "parsers of the whole", whole.To.Parsers, []state.ParserEpoch{{From: 2, Spec: "p1"}})
	first, _ := whole.Split(1)
	equals(t, "parsers of the first half", first.To.Parsers, []state.ParserEpoch{{From: 0, Spec: "p1+1000"}, {From: 2, Spec: "p1"}})
}

// What is put back waits for its time, however little the clock has been set back since it was put back before.
func TestRepeatAfterTheClockIsSetBack(t *testing.T) {
	for _, back := range []int64{0, 1, 300, 999, 1000, 1001, 5000} {
		l := testOwner(t)
		p := l.live(t)
		l.read(t, p, testNow, req(0, testNow-10_000, "orders"))
		p.Repeat(p.Take(testNow, nil, 1, anyBytes), testNow+LongestPutBack)
		now, tried := testNow-back, 0
		for ; now < testNow+2*LongestPutBack; now++ {
			for p.Wants(now) > 0 {
				if tried++; tried > 10 {
					t.Fatalf("set back by %d ms: tried again and again at %d", back, now-testNow)
				}
				p.Repeat(p.Take(now, nil, 1, anyBytes), now+LongestPutBack)
			}
		}
		if tried == 0 {
			t.Errorf("set back by %d ms: not tried again", back)
		}
	}
}

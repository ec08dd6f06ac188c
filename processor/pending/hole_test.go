package pending

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/state"
)

// What the log has lost from its midst, as compaction takes it, is delivered if the store has it: it is not read again where the log is, for the sake
// of what memory alone had before it.
func TestStoreHasWhatTheLogHasNot(t *testing.T) {
	for _, c := range []struct {
		name string
		read []*kgo.Record // again
		lost []int64
		due  []int64
	}{
		{"nothing is lost", []*kgo.Record{req(0, ms(1000), "orders"), req(1, ms(10_000), "orders"), req(2, ms(11_000), "orders"), control(3), req(4, ms(12_000), "orders")}, nil, []int64{0, 1, 2, 4}},
		{"from the midst", []*kgo.Record{req(0, ms(1000), "orders"), control(3), req(4, ms(12_000), "orders")}, []int64{1, 2}, []int64{0, 1, 2, 4}},
		{"up to the end", []*kgo.Record{req(0, ms(1000), "orders"), req(1, ms(10_000), "orders")}, []int64{2, 4}, []int64{0, 1, 2, 4}},
		{"but what another record has resolved", []*kgo.Record{req(0, ms(1000), "orders"), req(4, ms(12_000), "orders"), resolving(5, 1, ms(10_000)), control(6)}, []int64{1, 2}, []int64{0, 2, 4}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := testOwner(t)
			p := l.live(t)
			l.read(t, p, testNow, req(0, ms(1000), "orders"), req(1, ms(10_000), "orders"), req(2, ms(11_000), "orders"), control(3), req(4, ms(12_000), "orders"))
			l.happened(p.Checkpoint())
			must(t, p.Flush())
			l.room.Window, l.room.Most = 60_000, 60_000
			p, err := l.assign(p.committed, 0, 7, 7)
			must(t, err)
			l.read(t, p, testNow, c.read...)
			p.Pass(7, 0)
			must(t, p.goLive(l.room))
			must(t, Check(p))
			equals(t, "lost by the log", p.TakeSkipped(), c.lost)
			equals(t, "due", p.Take(ms(20_000), nil, 10, anyBytes).offsets(), c.due)
		})
	}
}

// What is not counted any more when reading comes to it is not missed.
func TestSkippedUnlessResolved(t *testing.T) {
	l := state.NewLedger(0)
	for _, offset := range []int64{1, 2, 5} {
		l.Add(state.Key{Due: ms(offset), Seq: offset}, offset, 1, true)
	}
	s := newSkipped(0, l)
	l.Remove(state.Key{Due: ms(1), Seq: 1}, 1, 1, true)
	s.read(3, l)
	s.read(5, l)
	s.upTo(9, l)
	equals(t, "skipped", s.at, []int64{2})
}

// What is read again is not brought from the store, too, where the log has lost a copy of it.
func TestLostCopyDoublesNothing(t *testing.T) {
	l := testOwner(t)
	p := l.live(t)
	rs := []*kgo.Record{req(0, ms(1000), "orders"), req(1, ms(10_000), "orders"), copyAt(2, 1, ms(10_000))}
	l.read(t, p, testNow, rs...)
	l.happened(p.Checkpoint())
	must(t, p.Flush())
	l.room.Window, l.room.Most = 60_000, 60_000
	p, err := l.assign(p.committed, 0, 3, 3)
	must(t, err)
	l.read(t, p, testNow, rs[:2]...)
	p.Pass(3, 0)
	must(t, p.goLive(l.room))
	equals(t, "lost by the log", p.TakeSkipped(), []int64{2})
	equals(t, "due", p.Take(ms(20_000), nil, 10, anyBytes).offsets(), []int64{0, 1})
}

package pending

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
	"github.com/duewheel/duewheel/wheel"
)

// storelessOwner has no store, and a small budget.
func storelessOwner(t *testing.T, budget int64) *owner {
	t.Helper()
	l := testOwner(t)
	l.store, l.room.Budget, l.room.Share = nil, budget, budget
	return l
}

// Without a store what is due first stays in memory, and the rest is only counted: L stays below
// it, and W does not pass the horizon.
func TestStorelessCountsWhatItForgets(t *testing.T) {
	const records = 2000
	l := storelessOwner(t, 1<<20)
	p := l.live(t)
	for offset := range int64(records) {
		r := req(offset, ms(2000+(records-1-offset)*1000), "orders")
		r.Value = make([]byte, 1000)
		l.read(t, p, testNow, r)
		l.balance(t, p)
		if l.room.Used > l.room.Budget*5/4 {
			t.Fatalf("%d bytes are held, of %d", l.room.Used, l.room.Budget)
		}
	}
	equal(t, "pending", p.Pending(), records)
	if p.Far() == 0 || p.wheel.Len() == 0 || p.horizon == farthest {
		t.Fatalf("%d are in memory and %d beyond %v", p.wheel.Len(), p.Far(), p.horizon)
	}
	pt := p.Take(ms(records*1000), nil, records, anyBytes)
	equal(t, "records that are left in memory", p.wheel.Len(), 0)
	if pt.offsets()[0] != records-1 || p.horizon.Less(pt.To.Watermark) || pt.To.LowWater != 0 {
		t.Errorf("first is %d, W %v beyond the horizon %v, L %d", pt.offsets()[0], pt.To.Watermark, p.horizon, pt.To.LowWater)
	}
	l.happened(pt)
	clock := p.horizon.Due
	equal(t, "it is to be read again", p.UsedUp(clock, l.room), true)
}

// A resolve record for what is beyond the horizon changes nothing until it is read again: L may be
// too low, and is never too high.
func TestStorelessResolveBeyondTheHorizon(t *testing.T) {
	l := storelessOwner(t, 1<<30)
	p := l.live(t)
	l.read(t, p, testNow, req(0, ms(1000), "orders"), req(1, ms(9000), "orders"))
	p.wheel.TakeFrom(wheel.Tick(ms(5000)), func(e wheel.Entry) { evict(&p.window, e) })
	p.horizon = state.Key{Due: ms(4999), Seq: 1 << 40}
	for seq, due := range []int64{1000, 9000} {
		must(t, p.resolve(state.Key{Due: ms(due), Seq: int64(seq)}, -1))
	}
	must(t, p.Sync())
	equal(t, "pending", p.Pending(), 1)
	equal(t, "L", p.ledger.Low(2), 1)
}

// Records that are due at one instant are split by their offsets.
func TestStorelessSplitsAnInstant(t *testing.T) {
	l := storelessOwner(t, 40<<10)
	p, err := l.assign(state.Checkpoint{Offset: -1}, 0, 300, 300)
	if err != nil {
		t.Fatal(err)
	}
	for offset := range int64(300) {
		r := req(offset, ms(5000), "orders")
		r.Value = make([]byte, 1000)
		l.read(t, p, testNow, r)
		l.balance(t, p)
	}
	n := int64(p.wheel.Len())
	if n == 0 || n == 300 || p.horizon != (state.Key{Due: ms(5000), Seq: n - 1}) {
		t.Errorf("%d are in memory, and the horizon is %v", n, p.horizon)
	}
	must(t, p.goLive(l.room))
	pt := p.Take(ms(5000), nil, 1000, anyBytes)
	equal(t, "W", pt.To.Watermark, p.horizon)
	equal(t, "records", int64(len(pt.Items)), n)
}

// A store that fails takes nothing from a live partition: what is in memory is delivered, and what
// was in the store is still counted.
func TestForgo(t *testing.T) {
	l := testOwner(t)
	p := l.live(t)
	l.read(t, p, testNow, req(0, ms(10), "orders"), req(1, ms(farMs), "orders"))
	p.Forgo()
	equal(t, "pending", p.Pending(), 2)
	pt := p.Take(ms(farMs+1), nil, 10, anyBytes)
	equals(t, "records", pt.offsets(), []int64{0})
	equal(t, "L", pt.To.LowWater, 1)
	l.read(t, p, ms(10), req(2, ms(20), "orders"), req(3, ms(farMs+10), "orders"))
	equal(t, "pending", p.Pending(), 3)
}

// What a partition without a store has taken away is kept for the copies that it reads while it catches up, and not for good.
func TestDroppedIsForgotten(t *testing.T) {
	l := storelessOwner(t, 1<<20)
	p, err := l.assign(state.Checkpoint{Offset: 3, Appended: true}, 0, 4, 4)
	if err != nil {
		t.Fatal(err)
	}
	resolve := func(offset, seq int64) *kgo.Record {
		return &kgo.Record{Topic: testTopic, Offset: offset, Headers: topics.Resolve(testMark, seq, ms(5000), seq)}
	}
	l.read(t, p, testNow, req(0, ms(5000), "orders"), req(1, ms(5000), "orders"), req(2, ms(5000), "orders"), resolve(3, 0))
	equal(t, "kept in the catch-up", len(p.dropped), 1)
	must(t, p.goLive(l.room))
	must(t, p.Load(testNow, l.room))
	equal(t, "kept when it is live", len(p.dropped), 0)
	l.read(t, p, testNow, resolve(4, 1))
	equal(t, "kept of what is read then", len(p.dropped), 0)
	equal(t, "pending", p.Pending(), 1)
}

// A partition that has forgone its store asks it nothing more: neither of ids, nor of what it has laid aside, nor of what lies below L.
func TestForgoneStoreIsNotAsked(t *testing.T) {
	l := testOwner(t)
	p := l.live(t)
	l.read(t, p, testNow, withID(req(0, ms(farMs), "orders"), "a"))
	equal(t, "the store has an id", p.identified, true)
	p.Forgo()
	must(t, Check(p))
	must(t, p.Expect([]*kgo.Record{withID(req(1, ms(farMs), "orders"), "a")}))
	l.read(t, p, testNow, withID(req(1, ms(farMs), "orders"), "a"), req(2, ms(1), "orders"))
	must(t, p.Load(ms(1), l.room))
	must(t, p.Sync())
	must(t, Check(p))
	equal(t, "it is to be read again", p.UsedUp(testNow, l.room), true)
}

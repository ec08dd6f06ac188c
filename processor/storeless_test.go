package processor

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/wheel"
)

// storelessLane is a lane whose store does not work and is not tried again, with a small budget.
func storelessLane(t *testing.T, budget int64) *lane {
	t.Helper()
	l := testLane(t)
	l.nearBudget = budget
	l.p.store.lost(syscall.ENOSPC)
	l.p.store.tried, l.p.store.pause = time.Now(), time.Hour
	return l
}

// Without a store what is due first stays in memory, and the rest is only counted: L stays below
// it, and W does not pass the horizon.
func TestStorelessCountsWhatItForgets(t *testing.T) {
	const records = 2000
	l := storelessLane(t, 1<<20)
	p := livePartition(t, l)
	for offset := range int64(records) {
		r := req(offset, ms(2000+(records-1-offset)*1000), "orders")
		r.Value = make([]byte, 1000)
		l.read(t, p, testNow, r)
		if err := l.balance(testNow); err != nil {
			t.Fatal(err)
		}
		if l.nearBytes > l.nearBudget*5/4 {
			t.Fatalf("%d bytes are held, of %d", l.nearBytes, l.nearBudget)
		}
	}
	equal(t, "pending", p.pending(), records)
	if p.far() == 0 || p.wheel.Len() == 0 || p.horizon == farthest {
		t.Fatalf("%d are in memory and %d beyond %v", p.wheel.Len(), p.far(), p.horizon)
	}
	pt := p.prepare(ms(records*1000), nil, records, anyBytes)
	equal(t, "records that are left in memory", p.wheel.Len(), 0)
	if pt.offsets()[0] != records-1 || p.horizon.Less(pt.to.Watermark) || pt.to.LowWater != 0 {
		t.Errorf("first is %d, W %v beyond the horizon %v, L %d", pt.offsets()[0], pt.to.Watermark, p.horizon, pt.to.LowWater)
	}
	l.happened(pt)
	clock := p.horizon.Due
	p.liveAt = time.Now()
	equal(t, "it is to be read again at the same moment", l.usedUp(p, clock), false)
	p.liveAt = time.Now().Add(-readAgainRest)
	equal(t, "it is to be read again", l.usedUp(p, clock), true)
}

// A resolve record for what is beyond the horizon changes nothing until it is read again: L may be
// too low, and is never too high.
func TestStorelessResolveBeyondTheHorizon(t *testing.T) {
	l := storelessLane(t, 1<<30)
	p := livePartition(t, l)
	l.read(t, p, testNow, req(0, ms(1000), "orders"), req(1, ms(9000), "orders"))
	p.wheel.TakeFrom(wheel.Tick(ms(5000)), p.let)
	p.horizon = state.Key{Due: ms(4999), Seq: 1 << 40}
	for seq, due := range []int64{1000, 9000} {
		if err := l.resolve(p, state.Key{Due: ms(due), Seq: int64(seq)}); err != nil {
			t.Fatal(err)
		}
	}
	equal(t, "pending", p.pending(), 1)
	equal(t, "L", p.ledger.Low(2), 1)
}

// Records that are due at one instant are split by their offsets.
func TestStorelessSplitsAnInstant(t *testing.T) {
	l := storelessLane(t, 40<<10)
	p, err := l.assign(state.Checkpoint{Offset: -1}, 0, 300, 300)
	if err != nil {
		t.Fatal(err)
	}
	for offset := range int64(300) {
		r := req(offset, ms(5000), "orders")
		r.Value = make([]byte, 1000)
		l.read(t, p, testNow, r)
		if err := l.balance(testNow); err != nil {
			t.Fatal(err)
		}
	}
	n := int64(p.wheel.Len())
	if n == 0 || n == 300 || p.horizon != (state.Key{Due: ms(5000), Seq: n - 1}) {
		t.Errorf("%d are in memory, and the horizon is %v", n, p.horizon)
	}
	if err := l.goLive(p, testNow); err != nil {
		t.Fatal(err)
	}
	pt := p.prepare(ms(5000), nil, 1000, anyBytes)
	equal(t, "W", pt.to.Watermark, p.horizon)
	equal(t, "records", int64(len(pt.items)), n)
}

// A store that fails takes nothing from a live partition: what is in memory is delivered, and what
// was in the store is still counted.
func TestForgo(t *testing.T) {
	l := testLane(t)
	p := livePartition(t, l)
	l.read(t, p, testNow, req(0, ms(10), "orders"), req(1, ms(farMs), "orders"))
	l.storeFailed(t.Context(), fmt.Errorf("write: %w", state.ErrFailed))
	equal(t, "the partition", l.parts[testTP], p)
	equal(t, "pending", p.pending(), 2)
	pt := p.prepare(ms(farMs+1), nil, 10, anyBytes)
	equals(t, "records", pt.offsets(), []int64{0})
	equal(t, "L", pt.to.LowWater, 1)
	l.read(t, p, ms(10), req(2, ms(20), "orders"), req(3, ms(farMs+10), "orders"))
	equal(t, "pending", p.pending(), 3)
}

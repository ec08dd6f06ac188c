package pending

import (
	"context"
	"errors"
	"testing"

	"github.com/duewheel/duewheel/state"
)

// fill puts records with offsets from one up to another into a partition's store.
func fillStore(t *testing.T, p *Partition, from, to int64, pos state.Position) {
	t.Helper()
	for offset := from; offset < to; offset++ {
		must(t, p.store.Put(state.Key{Due: ms(farMs), Seq: offset}, AppendRecord(nil, req(offset, ms(farMs), "orders"))))
		if offset%10_000 == 0 {
			must(t, p.store.Commit(pos))
		}
	}
	must(t, p.store.Commit(pos))
}

// Most of a store was never accepted. It is cheaper to build it anew from the log, but not when it
// alone has what the log has lost.
func TestStoreThatAloneHasIt(t *testing.T) {
	for _, c := range []struct {
		name     string
		logStart int64
		pending  int64
		start    int64
	}{
		{"the log has all", 0, 0, 5},
		{"the log has lost some", 15, 10, 20},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := testOwner(t)
			fillStore(t, l.live(t), 10, 20+forgetAtMost+5, state.Position{Resume: 20 + forgetAtMost + 5, Offset: 20, LowWater: 5})
			p, err := l.assign(state.Checkpoint{Offset: 20, LowWater: 5}, c.logStart, 20+forgetAtMost+5, 20+forgetAtMost+5)
			if err != nil {
				t.Fatal(err)
			}
			equal(t, "pending", p.Pending(), c.pending)
			equal(t, "start", p.start, c.start)
			must(t, p.Sync())
			equal(t, "records in the store", int64(len(keysOf(t, p.store, p.judge))), c.pending)
		})
	}
}

// A restore that is not wanted any more does not count a store to its end, and drops nothing.
func TestScanIsCutShort(t *testing.T) {
	l := testOwner(t)
	p := l.live(t)
	fillStore(t, p, 10, 20_010, state.Position{Resume: 20_010, Offset: 20_010, LowWater: 5})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c := state.Checkpoint{Offset: 20_010, LowWater: 5}
	c.Parsers = WithParser(c, l.route.Spec(), 0)
	got, err := Inherit(ctx.Err, l.route, p.store, c, 0, 20_010)
	if !errors.Is(err, context.Canceled) || got.ledger.Len() != 0 {
		t.Errorf("got %v, with %d records counted", err, got.ledger.Len())
	}
	equal(t, "records in the store", len(keysOf(t, p.store, p.judge)), 20_000)
}

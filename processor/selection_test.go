package processor

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/turn"
	"github.com/duewheel/duewheel/topics"
)

// What is rendered ahead is of those that the last turn could not hold. The others have a part of the batch to join it with, and what fills that is
// rendered ahead the next time.
func TestOthersJoinWhatIsRenderedAhead(t *testing.T) {
	const batch = 160
	l := testLane(t, func(cfg *Config) { cfg.BatchRecords, cfg.MemoryBudget = batch, 256<<20 })
	first := livePartition(t, l)
	clear(l.partitions)
	for n := range int32(3) {
		p := emptyPartition(first, n)
		l.partitions[p.tp] = p
	}
	l.order = inOrder(l.partitions)
	hot, cold, s := l.order[1], l.order[2], &l.selection
	s.brisk = 1
	due := func(p *partition, n int) {
		for range n {
			l.read(t, p, testNow, req(p.Marks().Position, testNow, "orders"))
		}
	}
	turn := func(what string, parts []*turn.Part, full bool, want map[*partition]int, wantFull bool) {
		t.Helper()
		got := map[*partition]int{}
		for _, pt := range parts {
			got[partitionOf(pt)] += len(pt.Items)
		}
		if !maps.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", what, got, want)
		}
		equal(t, what+": full", full, wantFull)
	}
	due(hot, 20*batch)
	due(cold, 1)
	inFlight, full := s.records(l.order, testNow)
	turn("the first", inFlight, full, map[*partition]int{hot: batch - 1, cold: 1}, true)
	due(cold, 2)
	ahead, full := s.ahead(l.order, testNow)
	turn("ahead", ahead, full, map[*partition]int{hot: batch - batch/16}, true)
	due(cold, 3)
	l.happened(inFlight...)
	joining, full := s.join(l.order, testNow)
	turn("joining", joining, full, map[*partition]int{cold: 5}, false)
	l.happened(append(ahead, joining...)...)

	due(cold, batch/16+(batch-batch/16)/2)
	ahead, full = s.ahead(l.order, testNow)
	turn("ahead, when much is due of another one", ahead, full, map[*partition]int{hot: batch - batch/16}, true)
	joining, full = s.join(l.order, testNow)
	turn("joining with much", joining, full, map[*partition]int{cold: batch / 16}, true)
	l.happened(append(ahead, joining...)...)
	ahead, full = s.ahead(l.order, testNow)
	turn("ahead, of both", ahead, full, map[*partition]int{hot: (batch - batch/16) / 2, cold: (batch - batch/16) / 2}, true)

	s.brisk = 0.5
	l.happened(ahead...)
	ahead, full = s.ahead(l.order, testNow)
	turn("ahead, while others join", ahead, full, map[*partition]int{hot: (batch - batch/16) / 2}, true)
	l.happened(ahead...)
	s.joinedAt, s.burstAt = time.Time{}, time.Time{}
	ahead, full = s.ahead(l.order, testNow)
	turn("ahead, when none has joined of late", ahead, full, map[*partition]int{hot: batch - batch/16}, true)

	due(l.order[0], 1)
	s.search.narrowing = true
	joining, full = s.join(l.order, testNow)
	turn("joining suspects", joining, full, map[*partition]int{}, false)
}

// A burst begins with short turns, since what comes beside it has not joined any yet. Where turns were full a moment ago, the next is no beginning.
func TestBurstsBeginBriskly(t *testing.T) {
	const batch = 1600
	l := testLane(t, func(cfg *Config) { cfg.BatchRecords, cfg.MemoryBudget = batch, 256<<20 })
	hot, s := livePartition(t, l), &l.selection
	cold := emptyPartition(hot, 1)
	l.partitions[cold.tp] = cold
	l.order = inOrder(l.partitions)
	for range 20 * batch {
		l.read(t, hot, testNow, req(hot.Marks().Position, testNow, "orders"))
	}
	take := func(what string, of func([]*partition, int64) ([]*turn.Part, bool), want int) {
		t.Helper()
		parts, full := of(l.order, testNow)
		equal(t, what+": full", full, true)
		equal(t, what, len(parts[0].Items), want)
		l.happened(parts...)
	}
	take("the first", s.records, batch/2)
	take("ahead of that", s.ahead, (batch-batch/16)/2)
	s.burstAt = s.burstAt.Add(-burstMemory)
	take("when nothing has joined since", s.ahead, batch-batch/16)
	take("after a turn that held all", s.records, batch)
	s.fullAt = s.fullAt.Add(-joinMemory)
	take("the next burst", s.records, batch/2)
	s.batch.records = 200
	s.fullAt = s.fullAt.Add(-joinMemory)
	take("few at a time", s.records, 200)
}

// Of a partition in the turn that is rendered ahead, what is due of other targets joins it when it begins; and what is tried again comes in
// the same order.
func TestOtherTargetsJoinWhatIsRenderedAhead(t *testing.T) {
	const batch = 160
	l := testLane(t, func(cfg *Config) { cfg.BatchRecords, cfg.MemoryBudget = batch, 256<<20 })
	p, s := livePartition(t, l), &l.selection
	s.brisk = 1
	l.order = []*partition{p}
	due := func(n int, target string) {
		for range n {
			l.read(t, p, testNow, req(p.Marks().Position, testNow, target))
		}
	}
	turn := func(what string, parts []*turn.Part, want ...int) {
		t.Helper()
		var got []int
		for _, pt := range parts {
			got = append(got, len(pt.Items))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: parts of %d records, want %d", what, got, want)
		}
	}
	due(20*batch, "orders")
	due(1, "bills")
	inFlight, _ := s.records(l.order, testNow)
	turn("the first", inFlight, batch)
	ahead, full := s.ahead(l.order, testNow)
	turn("ahead", ahead, batch-batch/16)
	equal(t, "full", full, true)
	l.happened(inFlight...)
	joining, _ := s.join(l.order, testNow)
	turn("joining while nothing is due of another target", joining)
	l.happened(ahead...)

	inFlight, _ = s.records(l.order, testNow)
	ahead, _ = s.ahead(l.order, testNow)
	due(3, "bills")
	l.happened(inFlight...)
	joining, _ = s.join(l.order, testNow)
	turn("joining", joining, 3)
	for _, pt := range joining[0].Items {
		equal(t, "overtakes", pt.Overtakes(), true)
	}
	equal(t, "begun", p.Undecided(), 2)
	for _, pt := range append(ahead, joining...) { // refused
		p.End()
		p.Repeat(pt.Part, 0)
	}
	var offsets []int64
	for range 2 {
		again, _ := s.records(l.order, testNow)
		offsets = append(offsets, again[0].Items[0].Offset)
		l.happened(again...)
	}
	equal(t, "what comes first again", offsets[0] < offsets[1], true)

	inFlight, _ = s.records(l.order, testNow)
	ahead, _ = s.ahead(l.order, testNow)
	due(batch, "bills")
	l.happened(inFlight...)
	joining, _ = s.join(l.order, testNow)
	turn("joining with much", joining, batch/16)
	l.happened(append(ahead, joining...)...)
}

// Where turns have room for one partition alone, one that has to decide something first, and cannot, does not take the place of the others.
func TestUndecidedHoldsUpNone(t *testing.T) {
	l := testLane(t, func(cfg *Config) { cfg.BatchRecords = 1 })
	first := livePartition(t, l)
	second := emptyPartition(first, 1)
	l.partitions[second.tp] = second
	l.order = inOrder(l.partitions)
	withID := func(r *kgo.Record) *kgo.Record {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: topics.HeaderID, Value: []byte("a")})
		return r
	}
	l.read(t, first, testNow, withID(req(0, testNow+10*testWindow.Milliseconds(), "orders"))) // only the store has it
	first.Forgo()
	l.read(t, first, testNow, withID(req(1, testNow, "orders")))
	if due, ok := first.Next(); ok {
		t.Errorf("a partition that has to be read again has something to do at %d: its lane would look again and again", due)
	}
	for offset := range int64(3) {
		l.read(t, second, testNow, req(offset, testNow, "orders"))
	}
	for range 3 {
		parts, _ := l.selection.records(l.order, testNow)
		if len(parts) != 1 || partitionOf(parts[0]) != second {
			t.Fatalf("a turn takes of %d partitions, want the second one", len(parts))
		}
		l.happened(parts...)
	}
}

// Turns that others join are shortened, to three tenths at most, and those that are short grow. Where a trip to the brokers takes long, shorter ones would gain nothing.
func TestTurnsAreBriskWhileOthersJoin(t *testing.T) {
	of := batch{20_000, 16 << 20}
	for _, c := range []struct {
		name    string
		is      brisk
		carried batch
		took    time.Duration
		trip    time.Duration
		want    brisk
	}{
		{"in time", 1, batch{20_000, 2 << 20}, 20 * time.Millisecond, 0, 1},
		{"a quarter too long", 0.8, batch{20_000, 2 << 20}, 25 * time.Millisecond, 3 * time.Millisecond, 0.8},
		{"smoothed", 1, batch{20_000, 2 << 20}, 25 * time.Millisecond, 0, 0.95},
		{"three tenths at least", 0.3, batch{6_000, 2 << 20}, time.Second, 0, 0.3},
		{"far away", 1, batch{20_000, 2 << 20}, 600 * time.Millisecond, 100 * time.Millisecond, 1},
		{"too long even so", 1, batch{20_000, 2 << 20}, 750 * time.Millisecond, 100 * time.Millisecond, 0.95},
		{"by its bytes", 1, batch{10, 16 << 20}, 25 * time.Millisecond, 0, 0.95},
		{"quick", 0.75, batch{15_000, 2 << 20}, 15 * time.Millisecond, 0, 0.8125},
		{"never more than all", 1, batch{20_000, 2 << 20}, time.Millisecond, 0, 1},
	} {
		if got := c.is.after(c.carried, c.took, briskly(c.trip), of); got < c.want-1e-9 || got > c.want+1e-9 {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

package pending

import (
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/state"
)

// The rows of the design's table of bounds that are about one partition, where bytes and records differ: few large records.

const large = 64 << 10 // bytes

// largeRequest is a request with a large value.
func largeRequest(offset, due int64) *kgo.Record {
	r := req(offset, due, "orders")
	r.Value = make([]byte, large)
	return r
}

// Of large records that come late in a catch-up no more stay in memory than of small ones.
func TestLateListOfLargeRecordsIsBounded(t *testing.T) {
	const many, budget = 600, 4 << 20
	l := testOwner(t)
	l.room.Budget, l.room.Share = budget, budget
	p, err := l.assign(state.Checkpoint{Watermark: state.Key{Due: ms(0), Seq: 0}}, 0, many, many)
	must(t, err)
	most := int64(0)
	for offset := range int64(many) {
		l.read(t, p, testNow, largeRequest(offset, ms(-1000)))
		l.balance(t, p)
		most = max(most, p.Memory())
	}
	must(t, p.goLive(l.room))
	next := int64(0)
	for pt := p.Take(testNow, nil, 10, anyBytes); pt != nil; pt = p.Take(testNow, nil, 10, anyBytes) {
		most = max(most, p.Memory())
		for _, it := range pt.Items {
			equal(t, "offset", it.Offset, next)
			next++
		}
		l.happened(pt)
	}
	equal(t, "delivered", next, many)
	if most > budget+2*large {
		t.Errorf("late records take %d bytes, and there is room for %d", most, budget)
	}
}

// To spill takes little memory, however much is spilled.
func TestSpillTakesLittleMemory(t *testing.T) {
	if raceDetector {
		t.Skip("with the race detector pools forget at random what is given back to them")
	}
	const many = 600
	l := testOwner(t)
	p := l.live(t)
	for offset := range int64(many) {
		l.read(t, p, testNow, largeRequest(offset, ms(2000+offset)))
	}
	var before, after runtime.MemStats
	runtime.GC()
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // what is allocated stays
	runtime.ReadMemStats(&before)
	must(t, p.spillFrom(ms(1000)))
	runtime.ReadMemStats(&after)
	equal(t, "records that only the store holds", p.Far(), many)
	if got := after.HeapAlloc - before.HeapAlloc; got > many*large {
		t.Errorf("%d bytes were allocated to spill %d", got, many*large)
	}
	must(t, Check(p))
}

// What is due at one instant goes to the store in steps, too, and is in memory until the store has all of it: a turn may take it meanwhile, and what
// comes meanwhile goes along.
func TestSpillOfAnInstantIsInSteps(t *testing.T) {
	const many, step = 100, 10
	l := testOwner(t)
	p := l.live(t)
	read := func(offset int64) { l.read(t, p, testNow, largeRequest(offset, ms(2000))) }
	for offset := range int64(many) {
		read(offset)
	}
	room, fits, was := Room{Window: LeastWindow, Budget: l.room.Budget, Spill: step * large}, 0, 0
	for more := true; more; fits++ {
		var err error
		more, err = p.Fit(testNow, room)
		must(t, err)
		must(t, Check(p))
		has := len(keysOf(t, p.store, p.lateUpTo))
		switch {
		case has-was > step+1 || fits > many:
			t.Fatalf("step %d writes %d records", fits, has-was)
		case more:
			equal(t, "records in memory", p.wheel.Len(), many+fits)
			equal(t, "the first that the store lacks", p.ledger.Resume(p.position), int64(has))
			read(many + int64(fits))
		}
		was = has
	}
	if fits < many/(step+1) {
		t.Errorf("all of it went to the store in %d steps", fits)
	}
	equal(t, "records in memory", p.wheel.Len(), 0)
	equal(t, "bytes in memory", p.near.bytes, 0)
	equal(t, "records in the store", was, many+fits-1)

	for range step {
		read(int64(was))
		was++
	}
	_, err := p.Fit(testNow, Room{Window: LeastWindow, Budget: l.room.Budget, Spill: large})
	must(t, err)
	next := int64(0)
	for now := ms(1000); now <= ms(2000); now += 500 {
		must(t, p.Load(now, l.room))
		for pt := p.Take(now, nil, 7, anyBytes); pt != nil; pt = p.Take(now, nil, 7, anyBytes) {
			for _, it := range pt.Items {
				equal(t, "offset", it.Offset, next)
				next++
			}
			l.happened(pt)
		}
	}
	equal(t, "delivered", next, int64(was))
}

// A turn takes a record more than its bytes at most, also where many records are small and those that are due next are not.
func TestTurnOfMixedSizesIsBounded(t *testing.T) {
	const many, small, bytes = 100, 2000, 10 * large
	l := testOwner(t)
	p := l.live(t)
	for offset := range int64(many) {
		l.read(t, p, testNow, largeRequest(offset, ms(1)))
	}
	for offset := range int64(small) {
		_, err := p.Accept(req(many+offset, ms(2), "orders"), testNow)
		must(t, err)
	}
	delivered := 0
	for pt := p.Take(ms(2), nil, 10_000, bytes); pt != nil; pt = p.Take(ms(2), nil, 10_000, bytes) {
		if _, got := pt.Weigh(); got > bytes+2*large {
			t.Errorf("a turn takes %d bytes, and may take %d", got, bytes)
		}
		delivered += len(pt.Items)
		l.happened(pt)
	}
	equal(t, "delivered", delivered, many+small)
}

// A part looks at some of what is due of several targets, and not at all of it: it keeps its lane from other work for so long.
func TestLittleIsSortedAtOnce(t *testing.T) {
	const many = 3 * sortAtOnce
	l := testOwner(t)
	p := l.live(t)
	for offset := range int64(many) {
		l.read(t, p, testNow, req(offset, ms(1), []string{"orders", "bills"}[offset%2]))
	}
	took := 0
	for round := 1; round <= 3; round++ {
		pt := p.Take(ms(1), nil, 100, anyBytes)
		took += len(pt.Items)
		l.happened(pt)
		if got := took + p.wheel.queued; got > round*sortAtOnce {
			t.Fatalf("%d parts of 100 have sorted %d of %d", round, got, many)
		}
	}
}

package pending

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
)

// fill puts records with offsets from one up to another into a partition's store.
func fillStore(t *testing.T, p *Partition, from, to int64, pos state.Position) {
	t.Helper()
	for offset := from; offset < to; offset++ {
		putStored(t, p.store, req(offset, ms(farMs), "orders"))
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
			l.most = 2_000
			end := 20 + int64(l.most) + 5
			fillStore(t, l.live(t), 10, end, state.Position{Resume: end, Offset: 20, LowWater: 5})
			p, err := l.assign(state.Checkpoint{Offset: 20, LowWater: 5}, c.logStart, end, end)
			if err != nil {
				t.Fatal(err)
			}
			equal(t, "pending", p.Pending(), c.pending)
			equal(t, "start", p.start, c.start)
			must(t, p.Sync())
			equal(t, "records in the store", int64(len(keysOf(t, p.store, p.lateUpTo))), c.pending)
		})
	}
}

// A restore that is not wanted any more does not look a store through to its end, and drops nothing.
func TestScanIsCutShort(t *testing.T) {
	l := testOwner(t)
	p := l.live(t)
	fillStore(t, p, 10, 20_010, state.Position{Resume: 20_010, Offset: 20_010, LowWater: 5})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c := state.Checkpoint{Offset: 20_010, LowWater: 5, Watermark: state.Key{Due: ms(farMs), Seq: 20_005}} // which much has passed since
	c.Parsers = WithParser(c, l.route.Spec(), 0)
	got, err := Inherit(ctx.Err, l.route, p.store, c, 0, 20_010)
	if !errors.Is(err, context.Canceled) || got.ledger.Len() != 0 {
		t.Errorf("got %v, with %d records counted", err, got.ledger.Len())
	}
	equal(t, "records in the store", len(keysOf(t, p.store, p.lateUpTo)), 20_000)
}

// putStored has a store hold a far record, and count it.
func putStored(t *testing.T, store *state.Partition, r *kgo.Record) {
	t.Helper()
	key, run := state.Key{Due: ms(farMs), Seq: r.Offset}, AppendRecord(nil, r)
	must(t, store.Put(key, run))
	store.Count(counted(key, run))
}

// What lies below L was cancelled by another replica, by a record that lies below L, too: nothing that is read again names it.
func TestCancelledElsewhereBelowL(t *testing.T) {
	l := testOwner(t)
	p := l.live(t)
	l.read(t, p, testNow, req(0, ms(farMs), "orders"), req(1, ms(farMs+1), "orders"), req(2, ms(farMs+2), "orders"))
	l.happened(p.Checkpoint())
	must(t, p.Flush())
	p, err := l.assign(state.Checkpoint{Offset: 3, LowWater: 1}, 0, 3, 3)
	must(t, err)
	equal(t, "start", p.start, 3)
	must(t, p.goLive(l.room))
	equal(t, "pending", p.Pending(), 2)
	equals(t, "what the store holds", keysOf(t, p.store, p.lateUpTo), []int64{1, 2})
	must(t, Check(p))
}

// A carried record has lifted L above where the store resumes: what that holds from L on is good, and its copy is read.
func TestStoreThatResumesBelowL(t *testing.T) {
	l := testOwner(t)
	p := l.live(t)
	log := []*kgo.Record{req(0, ms(1000), "orders")}
	for offset := int64(1); offset <= 30; offset++ {
		log = append(log, req(offset, ms(farMs+offset), "orders"))
	}
	log = append(log, copyAt(31, 0, ms(1000)), control(32))
	l.read(t, p, testNow, log[:31]...)
	l.happened(p.Checkpoint())
	must(t, p.Flush())
	pos, _ := p.store.Position()
	equal(t, "resume", pos.Resume, 0)

	p, err := l.assign(state.Checkpoint{Offset: 33, LowWater: 1}, 1, 33, 33)
	must(t, err)
	equal(t, "start", p.start, 1)
	equal(t, "pending before anything is read", p.Pending(), 30)
	l.read(t, p, testNow, log[1:]...)
	must(t, p.goLive(l.room))
	equal(t, "pending", p.Pending(), 31)
	must(t, Check(p))
	must(t, p.Load(ms(2*farMs), l.room))
	equals(t, "delivered first", p.Take(ms(2*farMs), nil, 3, anyBytes).offsets(), []int64{31, 1, 2})
}

// At least once, what was delivered and is not written yet would come again after a crash: the store counts it until then.
func TestCountedUntilItIsWritten(t *testing.T) {
	l := testOwner(t)
	l.atLeastOnce = true
	p := l.live(t)
	l.read(t, p, testNow, req(0, ms(farMs), "orders"), req(1, ms(farMs+1), "orders"), req(2, ms(farMs+2), "orders"))
	must(t, p.Load(ms(farMs+1), l.room))
	l.happened(p.Take(ms(farMs), nil, 1, anyBytes))
	beside := p.Checkpoint()
	l.happened(p.Take(ms(farMs+1), nil, 1, anyBytes))
	l.happened(beside)
	must(t, p.Flush())
	must(t, Check(p))
	p, err := l.assign(p.Marks().Committed, 0, 3, 3)
	must(t, err)
	equal(t, "pending", p.Pending(), 2)
}

// A copy of what was near, and has been cancelled since, is read by the parser of its record in every replay that begins below: the store knows that there
// was one.
func TestCopyThatIsResolvedKeepsItsParser(t *testing.T) {
	l := testOwner(t)
	of := l.route.Spec()
	r := testRoute(true)
	r.Jitter = time.Second
	l.route = mustRoute(r)
	parsers := []state.ParserEpoch{{From: 0, Spec: of}, {From: 1, Spec: l.route.Spec()}}
	p, err := l.assign(state.Checkpoint{Offset: 3, LowWater: 1, Parsers: parsers}, 1, 3, 3)
	must(t, err)
	l.read(t, p, testNow, req(1, ms(farMs), "orders"), copyAt(2, 0, ms(1000)))
	must(t, p.goLive(l.room))
	l.read(t, p, testNow, cancelling(3, handleOf(0, ms(1000))))
	must(t, p.Load(testNow, l.room))
	l.happened(p.Take(testNow, nil, 1, anyBytes))
	equal(t, "pending", p.Pending(), 1)
	must(t, p.Flush())

	p, err = l.assign(p.Marks().Committed, 1, 4, 4)
	must(t, err)
	equal(t, "start", p.start, 4)
	must(t, p.goLive(l.room))
	l.read(t, p, testNow, req(4, ms(farMs), "orders"))
	l.happened(p.Checkpoint())
	equals(t, "parsers", p.Marks().Committed.Parsers, parsers)
}

// A turn that did not happen has left a stub in a store, and its record was carried and delivered by another owner: the stub of the copy is not that one.
func TestStubBelowLIsNotThatOfACopy(t *testing.T) {
	l := remembering(t, time.Hour)
	p := l.live(t)
	first := withID(req(0, ms(1000), "orders"), "a")
	log := []*kgo.Record{first, req(1, ms(farMs), "orders"), req(2, ms(farMs), "orders"), nil, control(4)}
	l.read(t, p, testNow, log[:3]...)
	l.happened(p.Checkpoint())
	equal(t, "taken", p.Take(ms(1000), nil, 1, anyBytes) != nil, true)
	must(t, p.Flush())
	equal(t, "stubs in the store", len(keysOf(t, p.store, state.Key{Due: ms(2 * farMs)})), 1)

	log[3] = copyAt(3, 0, ms(1000))
	log[3].Headers, _ = topics.AppendCopy(nil, first.Headers, testMark, topics.Copy{Due: ms(1000), Timestamp: testNow}, nil)
	p, err := l.assign(state.Checkpoint{Offset: 5, LowWater: 1, Watermark: state.Key{Due: ms(1000)}, Parsers: []state.ParserEpoch{{Spec: l.route.Spec()}}}, 1, 5, 5)
	must(t, err)
	equal(t, "start", p.start, 1)
	l.read(t, p, ms(1000), log[1:]...)
	must(t, p.goLive(l.room))
	equal(t, "remembered", p.Figures(ms(1000)).Remembered, 1)
	equal(t, "pending", p.Pending(), 2)
	must(t, Check(p))
}

// The same where the log has lost what lies below: what is left of it is read, and the store holds the rest.
func TestStubBelowLAndBelowTheLog(t *testing.T) {
	for _, test := range []struct {
		logStart   int64
		remembered int64
	}{{2, 1}, {4, 0}} {
		t.Run(fmt.Sprint("the log begins at ", test.logStart), func(t *testing.T) {
			l := remembering(t, time.Hour)
			p := l.live(t)
			first := withID(req(0, ms(1000), "orders"), "a")
			log := []*kgo.Record{first, req(1, ms(farMs), "orders"), req(2, ms(farMs), "orders"), nil, control(4), req(5, ms(farMs), "orders")}
			log[3] = copyAt(3, 0, ms(1000))
			log[3].Headers, _ = topics.AppendCopy(nil, first.Headers, testMark, topics.Copy{Due: ms(1000), Timestamp: testNow}, nil)
			l.read(t, p, testNow, log[:3]...)
			l.happened(p.Checkpoint())
			equal(t, "taken", p.Take(ms(1000), nil, 1, anyBytes) != nil, true)
			must(t, p.Flush())
			pos := state.Position{Offset: 4, Resume: 4, LowWater: 1}
			must(t, p.store.Commit(pos))

			p, err := l.assign(state.Checkpoint{Offset: 6, LowWater: 1, Watermark: state.Key{Due: ms(1000)}, Parsers: []state.ParserEpoch{{Spec: l.route.Spec()}}}, test.logStart, 6, 6)
			must(t, err)
			equal(t, "start", p.start, test.logStart)
			l.read(t, p, ms(1000), log[test.logStart:]...)
			must(t, p.goLive(l.room))
			equal(t, "remembered", p.Figures(ms(1000)).Remembered, test.remembered)
			equal(t, "pending", p.Pending(), 3)
			must(t, Check(p))
		})
	}
}

// What a record below O takes away goes with others, all at once. Until then no position of the store lies behind that record: a crash may leave the store
// as it is committed on the way.
func TestPositionBeforeWhatIsTakenAway(t *testing.T) {
	for name, taker := range map[string]*kgo.Record{"handle": cancelling(1, handleOf(0, ms(farMs))), "id": cancelling(1, "a"), "resolve record": resolving(1, 0, ms(farMs))} {
		t.Run(name, func(t *testing.T) {
			l := testOwner(t)
			p := l.live(t)
			l.read(t, p, testNow, withID(req(0, ms(farMs), "orders"), "a"))
			l.happened(p.Checkpoint())
			must(t, p.Flush())
			assigned := func() *Partition {
				t.Helper()
				p, err := l.assign(state.Checkpoint{Offset: 3}, 0, 3, 3)
				must(t, err)
				return p
			}
			log := []*kgo.Record{nil, taker, withID(req(2, ms(farMs+1), "orders"), "b")}
			p = assigned()
			for _, r := range log[1:] {
				_, err := p.Accept(r, testNow)
				must(t, err)
			}
			must(t, p.commit()) // as looking for what is to be taken away begins with

			p = assigned()
			l.read(t, p, testNow, log[p.start:]...)
			must(t, p.goLive(l.room))
			equals(t, "what the store holds", keysOf(t, p.store, p.lateUpTo), []int64{2})
			equal(t, "pending", p.Pending(), 1)
		})
	}
}

// A store that was written before something was given up is of no use: it would go on to bear its position, which a later checkpoint might fit, and not hold
// what it had then.
func TestStoreFromBeforeAReset(t *testing.T) {
	l := testOwner(t)
	p := l.live(t)
	l.read(t, p, testNow, req(0, ms(farMs), "orders"), req(1, ms(farMs), "orders"))
	l.happened(p.Checkpoint())
	must(t, p.Flush())
	c := state.Checkpoint{Offset: 2, LowWater: 2, GivenUp: 2, Appended: true}
	p, err := l.assign(c, 0, 2, 2)
	must(t, err)
	if pos, used := p.store.Position(); used {
		t.Errorf("the store resumes at %d with L %d", pos.Resume, pos.LowWater)
	}
	must(t, p.goLive(l.room))
	l.read(t, p, testNow, req(2, ms(farMs), "orders"))
	l.happened(p.Checkpoint())
	must(t, p.Flush())
	c.Offset = 3
	p, err = l.assign(c, 0, 3, 3)
	must(t, err)
	if _, used := p.store.Position(); !used {
		t.Error("nor is one that was written since")
	}
}

// A store that bears a later checkpoint than the group tells that this has gone back, unless a person has reset it.
func TestStoreLeads(t *testing.T) {
	for _, c := range []struct {
		name  string
		c     state.Checkpoint
		leads bool
	}{
		{"O has gone back", state.Checkpoint{Offset: 2, LowWater: 1, Watermark: state.Key{Due: ms(1000)}}, true},
		{"W has gone back", state.Checkpoint{Offset: 3, LowWater: 1}, true},
		{"it was reset", state.Checkpoint{Offset: 2, LowWater: 2, GivenUp: 2}, false},
		{"it is the same", state.Checkpoint{Offset: 3, LowWater: 1, Watermark: state.Key{Due: ms(1000)}}, false},
		{"it is a later one", state.Checkpoint{Offset: 9, LowWater: 1, Watermark: state.Key{Due: ms(2000)}}, false},
	} {
		for _, whole := range []bool{true, false} {
			l := testOwner(t)
			p := l.live(t)
			pos := state.Position{Resume: 3, Offset: 3, LowWater: 1, Watermark: state.Key{Due: ms(1000)}, Parsers: "0:p1"}
			if !whole { // it was on its way to that
				pos = pos.OnTheWay()
			}
			fillStore(t, p, 1, 3, pos)
			c.c.Parsers = WithParser(c.c, l.route.Spec(), 0)
			got, err := Inherit(never, l.route, p.store, c.c, 0, 9)
			must(t, err)
			equal(t, c.name, got.Leads, c.leads && whole)
		}
	}
}

// What a store still holds and another owner has delivered has left a stub: its id is remembered, and what comes with it is a duplicate.
func TestDeliveredElsewhereIsRemembered(t *testing.T) {
	l := remembering(t, time.Hour)
	p := l.live(t)
	l.read(t, p, testNow, withID(req(0, ms(farMs), "orders"), "a"), req(1, ms(2*farMs), "orders"))
	l.happened(p.Checkpoint())
	must(t, p.Flush())

	c := p.Marks().Committed
	c.Watermark = state.Key{Due: ms(farMs)}
	p, err := l.assign(c, 0, 2, 2)
	must(t, err)
	equal(t, "start", p.start, 2)
	must(t, p.goLive(l.room))
	equal(t, "remembered", p.Figures(ms(farMs)).Remembered, 1)
	l.read(t, p, ms(farMs), withID(req(2, ms(2*farMs), "orders"), "a"))
	must(t, p.Load(ms(farMs), l.room))
	pt := p.Take(ms(farMs), nil, 10, anyBytes)
	equal(t, "it is a dead letter", pt != nil && pt.Items[0].Refusal != nil, true)
	must(t, Check(p))
}

// The stub that a turn has left which has not happened is none: its record is pending still, and what comes with its id is a duplicate of that.
func TestStubOfWhatHasNotHappened(t *testing.T) {
	l := remembering(t, time.Hour)
	p := l.live(t)
	l.read(t, p, testNow, withID(req(0, ms(farMs), "orders"), "a"), req(1, ms(2*farMs), "orders"))
	l.happened(p.Checkpoint())
	must(t, p.Load(ms(farMs), l.room))
	equal(t, "taken", p.Take(ms(farMs), nil, 1, anyBytes) != nil, true)
	must(t, p.Flush())
	equal(t, "in the store, with a stub", len(keysOf(t, p.store, state.Key{})), 3)

	p, err := l.assign(p.Marks().Committed, 0, 2, 2)
	must(t, err)
	equal(t, "start", p.start, 2)
	must(t, p.goLive(l.room))
	equal(t, "remembered", p.Figures(ms(farMs)).Remembered, 0)
	equal(t, "pending", p.Pending(), 2)
	must(t, Check(p))
}

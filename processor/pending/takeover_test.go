package pending

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
)

// checkpointAt is a checkpoint of the test's topic.
func checkpointAt(o, l int64, w state.Key, parsers ...state.ParserEpoch) state.Checkpoint {
	return state.Checkpoint{TopicID: [4]byte(testID.TopicID[:4]), Offset: o, LowWater: l, Watermark: w, Parsers: parsers}
}

// following is a follower of a checkpoint that has read some records.
func (l *owner) following(t *testing.T, c state.Checkpoint, rs ...*kgo.Record) *Follower {
	t.Helper()
	store, err := l.store.Partition(testID)
	must(t, err)
	got, err := Inherit(never, l.route, store, c, 0, 1<<40)
	must(t, err)
	f, err := Follow(l.env(), c, store, got)
	must(t, err)
	readBy(t, f, rs...)
	return f
}

func readBy(t *testing.T, f *Follower, rs ...*kgo.Record) {
	t.Helper()
	for _, r := range rs {
		_, err := f.Accept(r)
		must(t, err)
	}
	must(t, f.Sync())
}

// followOn has a follower take a newer checkpoint over, and read on from where it then stands.
func followOn(t *testing.T, f *Follower, c state.Checkpoint, log []*kgo.Record) {
	t.Helper()
	jumped, err := f.Follow(c)
	must(t, err)
	if jumped {
		readBy(t, f, log[f.Marks().Position:]...)
	}
}

// handedOver is the owner that takes a follower over.
func (l *owner) handedOver(t *testing.T, f *Follower, c state.Checkpoint) *Partition {
	t.Helper()
	store, err := l.store.Partition(testID)
	must(t, err)
	got, ok, err := f.HandOver(store, c)
	must(t, err)
	equal(t, "handed over", ok, true)
	p, err := New(l.env(), c, Sighting{End: c.Offset, At: testNow})
	must(t, err)
	p.Trust(1 << 60)
	p.Use(store, got, testNow, l.room.Most)
	return p
}

// What is written again with the id of a record that was delivered is refused by the next owner, too, also if it is the first that this reads.
func TestFirstReadAfterATakeOverIsRefused(t *testing.T) {
	first := withID(req(0, ms(farMs), "orders"), "a")
	again := withID(req(1, ms(2*farMs), "orders"), "a")
	delivered := state.Key{Due: ms(farMs), Seq: 0}
	check := func(t *testing.T, l *owner, p *Partition) {
		_, err := p.Accept(again, ms(farMs)) // as a lane has it: the store is synced when a fetch was taken in
		must(t, err)
		must(t, p.Sync())
		must(t, p.goLive(l.room))
		must(t, p.Load(ms(farMs), l.room))
		f := p.Figures(ms(farMs))
		equal(t, "remembered", f.Remembered, 1)
		pt := p.Take(ms(farMs), nil, 100, anyBytes)
		if pt == nil || pt.Items[0].Offset != 1 || pt.Items[0].Refusal == nil {
			t.Errorf("the second one is not refused, and is to be delivered at %s: %v", at(2*farMs+testNow), pt.offsets())
		}
	}
	t.Run("of a store that lags", func(t *testing.T) {
		l := remembering(t, time.Hour)
		p := l.live(t)
		l.read(t, p, testNow, first)
		l.happened(p.Checkpoint())
		must(t, p.Flush())
		p, err := l.assign(checkpointAt(1, 0, delivered), 0, 2, 2) // it was delivered elsewhere
		must(t, err)
		equal(t, "start", p.start, 1)
		check(t, l, p)
	})
	t.Run("of a standby", func(t *testing.T) {
		l := remembering(t, time.Hour)
		spec := state.ParserEpoch{Spec: l.route.Spec()}
		f := l.following(t, checkpointAt(1, 0, state.Key{}, spec), first)
		check(t, l, l.handedOver(t, f, checkpointAt(1, 0, delivered, spec)))
	})
}

// What W has passed when a standby is taken over is out of the store, for whoever opens it next, as soon as the owner has synced.
func TestPassedByATakeOverIsWritten(t *testing.T) {
	l := testOwner(t)
	spec := state.ParserEpoch{Spec: l.route.Spec()}
	f := l.following(t, checkpointAt(2, 0, state.Key{}, spec), req(0, ms(farMs), "orders"), req(1, ms(farMs+1), "orders"))
	p := l.handedOver(t, f, checkpointAt(2, 1, state.Key{Due: ms(farMs)}, spec))
	must(t, p.Sync())
	store, err := l.store.Partition(testID)
	must(t, err)
	counts, err := store.Counts()
	must(t, err)
	equal(t, "the store counts what is resolved", counts.Has(0, false), false)
	equal(t, "the store counts what is pending", counts.Has(1, false), true)
	pos, _ := store.Position()
	equal(t, "position", pos, resting(&p.window))
}

// A standby does not take over what was given up meanwhile: it has passed over what names that, and copies of it.
func TestGivenUpIsNotHandedOver(t *testing.T) {
	l := testOwner(t)
	spec := state.ParserEpoch{Spec: l.route.Spec()}
	for _, given := range []int64{0, 1} {
		c := checkpointAt(1, 0, state.Key{}, spec)
		f := l.following(t, c, req(0, ms(farMs), "orders"))
		store, err := l.store.Partition(testID)
		must(t, err)
		c.GivenUp = given
		_, ok, err := f.HandOver(store, c)
		must(t, err)
		equal(t, "handed over", ok, given == 0)
	}
}

// A record that was cancelled stays so when a standby takes over, whatever the configuration was by then.
func TestCancelledUnderAnotherJitterStaysSo(t *testing.T) {
	l := testOwner(t)
	r := testRoute(true)
	r.Jitter = time.Second
	l.route = mustRoute(r)
	with := l.route.Spec()
	log := []*kgo.Record{req(0, ms(farMs), "orders"), cancelling(1, handleOf(0, ms(farMs))), req(2, ms(farMs), "orders")}
	f := l.following(t, checkpointAt(1, 0, state.Key{}, state.ParserEpoch{Spec: with}), log[0])
	equal(t, "pending", f.Pending(), 1)

	l.route = mustRoute(testRoute(true)) // jitter is taken away, and the owner does what is asked
	o := testOwner(t)
	o.route = l.route
	p, err := o.assign(checkpointAt(1, 0, state.Key{}, state.ParserEpoch{Spec: with}), 0, 3, 3)
	must(t, err)
	o.read(t, p, testNow, log...)
	must(t, p.goLive(o.room))
	must(t, p.Load(testNow, o.room))
	o.happened(p.Take(testNow, nil, 100, anyBytes))
	o.happened(p.Checkpoint())
	c := p.committed
	equal(t, "pending", p.Pending(), 1)
	equal(t, "low water", c.LowWater, 2)

	readBy(t, f, log[1:]...) // ahead of what it knows to be accepted
	followOn(t, f, c, log)
	equal(t, "pending of the standby", f.Pending(), 1)
	p = l.handedOver(t, f, c)
	must(t, p.goLive(l.room))
	must(t, p.Load(ms(farMs+1000), l.room))
	equals(t, "delivered by it", p.Take(ms(farMs+1000), nil, 100, anyBytes).offsets(), []int64{2})
}

// What was read before ids were remembered is not remembered, by a standby either.
func TestNotRememberedByAStandby(t *testing.T) {
	l := testOwner(t)
	before := state.ParserEpoch{Spec: l.route.Spec()}
	f := l.following(t, checkpointAt(1, 0, state.Key{}, before), withID(req(0, ms(farMs), "orders"), "a"))
	r := testRoute(true)
	r.Remember = time.Hour
	l.route = mustRoute(r)
	f.p.Route = l.route // this release's
	// It was delivered, and another one holds L.
	c := checkpointAt(2, 1, state.Key{Due: ms(farMs), Seq: 0}, state.ParserEpoch{From: 1, Spec: l.route.Spec()})
	_, err := f.Follow(c)
	must(t, err)
	log := []*kgo.Record{nil, req(1, ms(2*farMs), "orders")}
	readBy(t, f, log[1:]...)
	followOn(t, f, c, log)
	p := l.handedOver(t, f, c)
	equal(t, "remembered", p.Figures(ms(farMs)).Remembered, 0)
	equal(t, "pending", p.Pending(), 1)
}

// A record that was delivered does not come back with a standby that reads it by a parser that never held for it.
func TestDeliveredUnderAnotherJitterStaysSo(t *testing.T) {
	l := testOwner(t)
	without := state.ParserEpoch{Spec: l.route.Spec()}
	log := []*kgo.Record{req(0, ms(50), "orders"), req(1, ms(100), "orders"), req(2, ms(farMs), "orders")}
	f := l.following(t, checkpointAt(1, 1, state.Key{Due: ms(50)}, without), log[0])
	equal(t, "pending", f.Pending(), 0)
	r := testRoute(true)
	r.Jitter = time.Hour
	l.route = mustRoute(r)
	f.p.Route = l.route
	readBy(t, f, log[1:]...) // ahead of what it knows to be accepted
	// Meanwhile record 1 was accepted and delivered, then a route with a jitter was configured, and its owner has accepted record 2.
	c := checkpointAt(3, 2, state.Key{Due: ms(100), Seq: 1}, state.ParserEpoch{From: 2, Spec: l.route.Spec()})
	jumped, err := f.Follow(c)
	must(t, err)
	equal(t, "read again", jumped, false)
	equal(t, "pending of the standby", f.Pending(), 1)
	p := l.handedOver(t, f, c)
	must(t, p.goLive(l.room))
	must(t, p.Load(ms(4*3600_000), l.room))
	equals(t, "delivered by it", p.Take(ms(4*3600_000), nil, 100, anyBytes).offsets(), []int64{2})
}

// A key that was cancelled stays so, though the route is not keyed any more when a standby takes over.
func TestCancelledKeyStaysSo(t *testing.T) {
	l := testOwner(t)
	r := testRoute(true)
	r.Keyed = true
	l.route = mustRoute(r)
	keyed := state.ParserEpoch{Spec: l.route.Spec()}
	tombstone := &kgo.Record{Offset: 1, Timestamp: time.UnixMilli(testNow), Key: []byte("k")}
	log := []*kgo.Record{req(0, ms(farMs), "orders"), tombstone, req(2, ms(farMs), "orders")}
	f := l.following(t, checkpointAt(1, 0, state.Key{}, keyed), log[0])
	l.route = mustRoute(testRoute(true))
	f.p.Route = l.route
	readBy(t, f, log[1:]...)
	followOn(t, f, checkpointAt(3, 2, state.Key{}, state.ParserEpoch{From: 2, Spec: l.route.Spec()}), log)
	equal(t, "pending of the standby", f.Pending(), 1)
}

// What its owner has delivered leaves a stub with a follower: it remembers the id when it takes over.
func TestFollowerRemembers(t *testing.T) {
	l := remembering(t, time.Hour)
	spec := state.ParserEpoch{Spec: l.route.Spec()}
	f := l.following(t, checkpointAt(2, 0, state.Key{}, spec), withID(req(0, ms(farMs), "orders"), "a"), req(1, ms(2*farMs), "orders"))
	c := checkpointAt(2, 0, state.Key{Due: ms(farMs)}, spec)
	followOn(t, f, c, nil)
	p := l.handedOver(t, f, c)
	equal(t, "start", p.start, 2)
	must(t, p.goLive(l.room))
	equal(t, "remembered", p.Figures(ms(farMs)).Remembered, 1)
	equal(t, "pending", p.Pending(), 1)
	must(t, Check(p))
}

// A follower keeps what was carried while it was behind: L may have passed that before its copy is read.
func TestFollowerKeepsWhatWasCarried(t *testing.T) {
	l := testOwner(t)
	spec := state.ParserEpoch{Spec: l.route.Spec()}
	log := []*kgo.Record{req(0, ms(farMs), "orders"), req(1, ms(2*farMs), "orders"), req(2, ms(50), "orders"), copyAt(3, 0, ms(farMs)), copyAt(4, 1, ms(2*farMs))}
	f := l.following(t, checkpointAt(2, 0, state.Key{}, spec), log[:2]...)
	c := checkpointAt(5, 3, state.Key{Due: ms(50), Seq: 2}, spec)
	for _, next := range log[2:] {
		jumped, err := f.Follow(c)
		must(t, err)
		equal(t, "begins anew", jumped, false)
		equal(t, "pending of the standby", f.Pending(), 2)
		readBy(t, f, next)
	}
	followOn(t, f, c, nil)
	p := l.handedOver(t, f, c)
	must(t, p.goLive(l.room))
	equal(t, "pending", p.Pending(), 2)
	equal(t, "low water", p.order.low(5), 3)
	must(t, p.Load(ms(2*farMs), l.room))
	equals(t, "delivered by it", p.Take(ms(2*farMs), nil, 100, anyBytes).offsets(), []int64{3, 4})
}

// What has taken away the stub of a record takes away that which a replay leaves at its copy, too.
func TestCopyOfWhatWasTakenAwayLeavesNothing(t *testing.T) {
	l := remembering(t, time.Hour)
	l.store = nil
	carried := withID(req(0, ms(50), "orders"), "a")
	c := copyAt(2, 0, ms(50))
	c.Headers, _ = topics.AppendCopy(nil, carried.Headers, testMark, topics.Copy{Due: ms(50), Timestamp: testNow}, nil)
	p := l.crashed(t, checkpointAt(4, 0, state.Key{Due: ms(50)}, state.ParserEpoch{Spec: l.route.Spec()}), carried, cancelling(1, "a"), c, resolving(3, 0, ms(50)))
	equal(t, "remembered", p.Figures(ms(50)).Remembered, 0)
}

// A copy whose parser the checkpoint does not name any more leaves nothing.
func TestCopyOfAnUnknownParserLeavesNothing(t *testing.T) {
	l := remembering(t, time.Hour)
	c := copyAt(1, 0, ms(50))
	c.Headers, _ = topics.AppendCopy(nil, withID(req(0, ms(50), "orders"), "a").Headers, testMark, topics.Copy{Due: ms(50), Timestamp: testNow}, nil)
	p := l.crashed(t, checkpointAt(2, 1, state.Key{Due: ms(50)}, state.ParserEpoch{From: 1, Spec: l.route.Spec()}), req(0, ms(50), "orders"), c)
	equal(t, "remembered", p.Figures(ms(50)).Remembered, 0)
}

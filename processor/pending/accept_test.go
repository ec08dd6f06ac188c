package pending

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
)

// What comes with a key at or below W is late: it is delivered in the part that moves O past it,
// and never enters the store or the wheel (design rule 3).
func TestLateArrival(t *testing.T) {
	l := testOwner(t)
	p := l.live(t)
	l.read(t, p, testNow, req(0, ms(0), "orders"))
	l.happened(p.Take(testNow, nil, 10, anyBytes))
	l.read(t, p, testNow, req(1, ms(-1), "orders"), req(2, ms(0), "orders")) // the second has a larger seq: pending
	equal(t, "late records", p.late.len(), 1)
	equal(t, "records in the wheel", p.wheel.Len(), 1)
	equals(t, "records in the store", keysOf(t, p.store, p.lateUpTo), nil)
	pt := p.Take(testNow, nil, 10, anyBytes)
	equals(t, "records", pt.offsets(), []int64{1, 2})
}

// While a turn is in flight, what arrives is judged by the W that it will leave.
func TestJudgedByTheTurnInFlight(t *testing.T) {
	l := testOwner(t)
	p := l.live(t)
	l.read(t, p, testNow, req(0, ms(10), "orders"))
	pt := p.Take(ms(10), nil, 10, anyBytes)
	l.read(t, p, ms(10), req(1, ms(5), "orders"))
	equal(t, "late records", p.late.len(), 1)
	l.happened(pt)
	equals(t, "records", p.Take(ms(10), nil, 10, anyBytes).offsets(), []int64{1})
}

// What is refused is dead-lettered in the part that moves O past it. If configuration refused it
// and its key is above W, a resolve record says so, because a replay cannot know (design rule 10).
func TestRefused(t *testing.T) {
	l := testOwner(t)
	p := l.live(t)
	l.read(t, p, testNow, req(0, ms(0), "orders"))
	l.happened(p.Take(testNow, nil, 10, anyBytes))
	bad := req(1, 0, "orders")
	bad.Headers[0].Value = []byte("tomorrow")
	l.read(t, p, testNow, bad, req(2, ms(1000), "elsewhere"), req(3, ms(-1), "elsewhere"))
	if due, ok := p.Next(); !ok || due > testNow {
		t.Errorf("refused records wait until %d", due)
	}
	pt := p.Take(testNow, nil, 10, anyBytes)
	equals(t, "records", pt.offsets(), []int64{1, 2, 3})
	for i, want := range []struct {
		code    topics.Code
		resolve bool
	}{{topics.CodeUnparsableDue, false}, {topics.CodeTargetNotAllowed, true}, {topics.CodeTargetNotAllowed, false}} {
		it := pt.Items[i]
		if it.Refusal == nil || it.Refusal.Code != want.code || it.Resolve != want.resolve {
			t.Errorf("record %d: %+v, resolve record %v; want %s, %v", it.Offset, it.Refusal, it.Resolve, want.code, want.resolve)
		}
	}
	equal(t, "key of the resolve record", pt.Items[1].Key, state.Key{Due: ms(1000), Seq: 2})
	equal(t, "O", pt.To.Offset, 4)
}

// A replay never refuses: what is below O was accepted under another configuration. What has a
// resolve record is not pending, and what cannot be parsed was resolved when O passed it.
func TestReplay(t *testing.T) {
	l := testOwner(t)
	p, err := l.assign(state.Checkpoint{Offset: 5, LowWater: 0, Watermark: state.Key{Due: ms(10), Seq: 1}}, 0, 7, 7)
	if err != nil {
		t.Fatal(err)
	}
	bad := req(2, 0, "orders")
	bad.Headers = nil
	l.read(t, p, testNow,
		req(0, ms(500), "elsewhere"), // allowed then
		req(1, ms(10), "orders"),     // at W: delivered
		bad,
		req(3, ms(600), "orders"), // refused then, as the resolve record says
		req(4, ms(10), "orders"),  // right above W
		req(5, ms(700), "elsewhere"),
		&kgo.Record{Offset: 6, Headers: topics.Resolve(testMark, 3, ms(600), 3)},
	)
	must(t, p.goLive(l.room))
	pt := p.Take(ms(1000), nil, 10, anyBytes)
	equals(t, "records", pt.offsets(), []int64{5, 4, 0})
	if pt.Items[0].Refusal == nil || pt.Items[1].Refusal != nil || pt.Items[2].Refusal != nil {
		t.Errorf("refused are %v, %v, %v; want only the first, which is above O", pt.Items[0].Refusal, pt.Items[1].Refusal, pt.Items[2].Refusal)
	}
}

// A resolve record reaches a record wherever it is held.
func TestResolveRecord(t *testing.T) {
	for _, c := range []struct {
		name string
		due  int64
	}{{"near", ms(100)}, {"far", ms(farMs)}} {
		t.Run(c.name, func(t *testing.T) {
			l := testOwner(t)
			p := l.live(t)
			l.read(t, p, testNow, req(0, c.due, "orders"), req(1, c.due, "orders"),
				&kgo.Record{Offset: 2, Headers: topics.Resolve(testMark, 0, c.due, 0)},
				&kgo.Record{Offset: 3, Headers: topics.Resolve(testMark, 0, c.due, 0)}) // again: nothing to do
			equal(t, "pending", p.Pending(), 1)
			must(t, p.Load(c.due, l.room))
			equals(t, "records", p.Take(c.due, nil, 10, anyBytes).offsets(), []int64{1})
		})
	}
}

// Far records go to the store and come back ahead of need, also when a load stops in the middle
// of one ms: what arrives there meanwhile keeps its place.
func TestLoadAcrossTheHorizon(t *testing.T) {
	l := testOwner(t)
	p := l.live(t)
	const n = 40
	for offset := range int64(n) {
		r := req(offset, ms(farMs), "orders") // all due at one ms
		r.Value = make([]byte, 1000)
		l.read(t, p, testNow, r)
	}
	equal(t, "records in the wheel", p.wheel.Len(), 0)
	equal(t, "records in the store", len(keysOf(t, p.store, p.lateUpTo)), n)
	if due, ok := p.Next(); !ok || due > ms(farMs) {
		t.Errorf("next due is %d (%v)", due-testNow, ok)
	}
	l.room.Budget = 8 * 10_500 // a load stops after about ten
	now := ms(farMs)
	must(t, p.Load(now, l.room))
	if k := p.wheel.Len(); k == 0 || k == n {
		t.Fatalf("%d of %d are loaded in one step", k, n)
	}
	l.read(t, p, now, req(n, ms(farMs), "orders"), req(n+1, ms(farMs-1), "orders"))
	var got []int64
	for range 2 * n {
		must(t, p.Load(now, l.room))
		pt := p.Take(now, nil, 7, anyBytes)
		if pt == nil {
			break
		}
		got = append(got, pt.offsets()...)
		l.happened(pt)
	}
	want := []int64{n + 1}
	for offset := range int64(n + 1) {
		want = append(want, offset)
	}
	equals(t, "records", got, want)
	equal(t, "bytes held", p.near.bytes, 0)
}

// When memory is short the far end of the window goes to the store, and comes back in order.
func TestSpill(t *testing.T) {
	l := testOwner(t)
	p := l.live(t)
	var want []int64
	for offset := range int64(50) {
		l.read(t, p, testNow, req(offset, ms(offset*50), "orders"))
		want = append(want, offset)
	}
	must(t, p.spillFrom(ms(1000)))
	equal(t, "records in the wheel", p.wheel.Len(), 20)
	equal(t, "records in the store", len(keysOf(t, p.store, p.lateUpTo)), 30)
	equal(t, "pending", p.Pending(), 50)
	l.read(t, p, testNow, req(50, ms(1000), "orders"), req(51, ms(999), "orders"))
	equal(t, "records in the wheel", p.wheel.Len(), 21)
	var got []int64
	for now := testNow; now <= ms(3000); now += 100 {
		must(t, p.Load(now, l.room))
		if pt := p.Take(now, nil, 1000, anyBytes); pt != nil {
			got = append(got, pt.offsets()...)
			l.happened(pt)
		}
	}
	want = append(want[:20:20], append([]int64{51, 20, 50}, want[21:]...)...)
	equals(t, "records", got, want)
}

// A partition that comes back finds in its store what is below the start of the replay, and reads
// the rest again: nothing comes twice.
func TestGoLiveWithAStore(t *testing.T) {
	for _, short := range []bool{false, true} { // of memory
		t.Run(fmt.Sprintf("short of memory %v", short), func(t *testing.T) {
			l := testOwner(t)
			p := l.live(t)
			log := []*kgo.Record{req(0, ms(farMs), "orders"), req(1, ms(farMs+1), "orders"), req(2, ms(2), "orders"), req(3, ms(farMs-1), "orders")}
			l.read(t, p, testNow, log...)
			l.happened(p.Checkpoint())
			more := req(4, ms(farMs+2), "orders") // stored, and O has not passed it
			log = append(log, more)
			l.read(t, p, testNow, more)
			p, err := l.assign(p.committed, 0, 5, 5)
			if err != nil {
				t.Fatal(err)
			}
			if p.start > 2 {
				t.Fatalf("the replay starts at %d, and only memory had record 2", p.start)
			}
			p.horizon.Due = ms(farMs + 10) // as if much time had passed: what was far is near
			l.read(t, p, ms(farMs), log[p.start:]...)
			if short {
				l.room.Budget = 2
			}
			must(t, p.goLive(l.room))
			equal(t, "pending", p.Pending(), 5)
			var got []int64
			for range 10 {
				must(t, p.Load(ms(farMs+10), l.room))
				if pt := p.Take(ms(farMs+10), nil, 10, anyBytes); pt != nil {
					got = append(got, pt.offsets()...)
					l.happened(pt)
				}
			}
			equals(t, "records", got, []int64{2, 3, 0, 1, 4})
		})
	}
}

// What was delivered stays in the store until it is trimmed, and never comes back from there,
// however little memory a catch-up has.
func TestDeliveredStaysInTheStore(t *testing.T) {
	l := testOwner(t)
	p := l.live(t)
	now := ms(farMs)
	l.read(t, p, testNow, req(0, now, "orders"))
	l.happened(p.Checkpoint())
	must(t, p.Flush()) // else it was taken in before O had passed it
	must(t, p.Load(now, l.room))
	l.happened(p.Take(now, nil, 10, anyBytes))
	p, err := l.assign(p.committed, 0, 2, 2)
	if err != nil {
		t.Fatal(err)
	}
	l.room.Budget, l.room.Window = 1, LeastWindow
	l.read(t, p, now, req(1, now, "orders")) // due at the ms of W
	l.balance(t, p)
	equal(t, "records in the wheel", p.wheel.Len(), 0)
	must(t, p.goLive(l.room))
	must(t, p.Load(now, l.room))
	equals(t, "records", p.Take(now, nil, 10, anyBytes).offsets(), []int64{1})
}

// A record that was stored before O passed it may be refused, or due at another time, when it is
// read again under another configuration: the old copy is forgotten.
func TestStoredBeforeAccepted(t *testing.T) {
	l := testOwner(t)
	p := l.live(t)
	r := req(0, ms(farMs), "bills")
	l.read(t, p, testNow, r)
	l.route = mustRoute(testRoute(false))
	p, err := l.assign(p.committed, 0, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	l.read(t, p, testNow, r)
	must(t, p.goLive(l.room))
	pt := p.Take(testNow, nil, 10, anyBytes)
	equals(t, "records", pt.offsets(), []int64{0})
	if pt.Items[0].Refusal == nil {
		t.Error("it is not refused")
	}
	l.happened(pt)
	equals(t, "left in the store", keysOf(t, p.store, p.lateUpTo), nil)
}

// One that is not live goes on reading whatever it holds, since nothing would drain it; a live
// one pauses, and resumes when there is room, or when it holds nothing that could make room.
func TestThrottle(t *testing.T) {
	l := testOwner(t)
	p, err := l.assign(state.Checkpoint{Offset: -1}, 0, 2, 2)
	if err != nil {
		t.Fatal(err)
	}
	l.room.Budget, l.room.Share = 1, 1
	l.read(t, p, testNow, req(0, ms(10), "orders"))
	balance := func() {
		t.Helper()
		l.balance(t, p)
	}
	balance()
	equal(t, "full during catch-up", p.Full(testNow, l.room), false)
	p.position = 2
	must(t, p.goLive(l.room))
	must(t, p.Load(testNow, l.room))
	balance()
	equal(t, "full with a record in memory", p.Full(testNow, l.room), true)
	l.happened(p.Take(ms(10), nil, 10, anyBytes))
	balance()
	equal(t, "full with nothing in memory", p.Full(testNow, l.room), false)
}

// A handle has the time that was asked for, and a jitter is that of the parser that holds where the request lies.
func TestCancelWithJitter(t *testing.T) {
	l := testOwner(t)
	r := testRoute(true)
	r.Jitter = time.Minute
	l.route = mustRoute(r)
	p := l.live(t)
	cancel := &kgo.Record{Offset: 1, Timestamp: time.UnixMilli(testNow), Headers: []kgo.RecordHeader{
		{Key: topics.HeaderCancel, Value: []byte(topics.Handle{Partition: testID.Partition, Offset: 0, Due: ms(100)}.String())}}}
	l.read(t, p, testNow, req(0, ms(100), "orders"), cancel)
	must(t, p.Load(testNow, l.room))
	pt := p.Take(testNow, nil, 10, anyBytes)
	if pt == nil || len(pt.Items) != 1 || pt.Items[0].Effect != EffectCancelled {
		t.Fatalf("the part is %+v", pt)
	}
	l.happened(pt)
	equal(t, "pending", p.Pending(), 0)
}

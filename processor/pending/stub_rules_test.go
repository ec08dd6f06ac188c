package pending

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
)

// remembering is an owner whose route remembers ids.
func remembering(t *testing.T, d time.Duration) *owner {
	t.Helper()
	l := testOwner(t)
	r := testRoute(true)
	r.Remember = d
	l.route = mustRoute(r)
	return l
}

// staying has nothing carried.
func staying(l *owner) {
	r := *l.route
	r.Carry = new(bool)
	l.route = mustRoute(r)
}

func withID(r *kgo.Record, id string) *kgo.Record { return withHeader(r, topics.HeaderID, id) }

func cancelling(offset int64, name string) *kgo.Record {
	return &kgo.Record{Offset: offset, Timestamp: time.UnixMilli(testNow), Headers: []kgo.RecordHeader{{Key: topics.HeaderCancel, Value: []byte(name)}}}
}

func handleOf(offset, due int64) string {
	return topics.Handle{Partition: testID.Partition, Offset: offset, Due: due}.String()
}

// crashed is the next owner of a partition, that has read the log.
func (l *owner) crashed(t *testing.T, c state.Checkpoint, log ...*kgo.Record) *Partition {
	t.Helper()
	end := int64(len(log))
	p, err := l.assign(c, 0, end, end)
	must(t, err)
	for _, r := range log {
		_, err := p.Accept(r, testNow)
		must(t, err)
	}
	must(t, p.Sync())
	must(t, p.goLive(l.room))
	must(t, p.Load(testNow, l.room))
	return p
}

// A cancel of an id that is not pending here goes to the other partitions, also where the id was delivered here and is remembered.
func TestCancelGoesOnPastAMemory(t *testing.T) {
	l := remembering(t, 5*time.Second)
	p := l.live(t)
	l.read(t, p, testNow, withID(req(0, ms(100), "orders"), "a"))
	l.happened(p.Take(ms(100), nil, 100, anyBytes))
	l.read(t, p, ms(200), cancelling(1, "a"))
	must(t, p.Load(ms(200), l.room))
	pt := p.Take(ms(200), nil, 100, anyBytes)
	equal(t, "the cancel", pt.Items[0].Effect, EffectForward)
}

// An id that is not remembered any more leaves memory, where all ids are without a store.
func TestForgottenLeavesMemory(t *testing.T) {
	l := remembering(t, time.Second)
	l.store = nil
	p := l.live(t)
	l.read(t, p, testNow, withID(req(0, ms(100), "orders"), "a"))
	l.happened(p.Take(ms(100), nil, 100, anyBytes))
	equal(t, "remembered", p.ids.len(), 1)
	l.happened(p.Take(ms(2000), nil, 100, anyBytes))
	equal(t, "remembered in the end", p.Figures(ms(2000)).Remembered, 0)
	equal(t, "in memory", p.ids.len(), 0)
}

// A cancel that names no record, because its due time is wrong, ends no memory: not in a replay, either.
func TestWrongHandleEndsNoMemory(t *testing.T) {
	for _, due := range []int64{101, 50} {
		t.Run(fmt.Sprint(due), func(t *testing.T) {
			l := remembering(t, 5*time.Second)
			l.store = nil
			p := l.live(t)
			log := []*kgo.Record{withID(req(0, ms(100), "orders"), "a"), cancelling(1, handleOf(0, ms(due)))}
			l.read(t, p, testNow, log...)
			must(t, p.Load(testNow, l.room))
			pt := p.Take(testNow, nil, 100, anyBytes)
			equal(t, "the cancel", pt.Items[0].Effect, EffectUnknown)
			l.happened(pt)
			l.happened(p.Take(ms(100), nil, 100, anyBytes))
			equal(t, "remembered", p.Figures(ms(100)).Remembered, 1)
			p = l.crashed(t, p.committed, log...)
			equal(t, "remembered after a restart", p.Figures(ms(100)).Remembered, 1)
		})
	}
	t.Run("live", func(t *testing.T) {
		l := remembering(t, 5*time.Second)
		p := l.live(t)
		l.read(t, p, testNow, withID(req(0, ms(100), "orders"), "a"))
		l.happened(p.Take(ms(100), nil, 100, anyBytes))
		l.read(t, p, ms(100), cancelling(1, handleOf(0, ms(50))))
		must(t, p.Load(ms(100), l.room))
		equal(t, "remembered", p.Figures(ms(100)).Remembered, 1)
	})
}

// A handle names a due time at which nothing was, and the memory of an id that was delivered then would end when the record is due: that stays where it is, to be
// found by what comes with it.
func TestWrongHandleBesideARightOne(t *testing.T) {
	l := remembering(t, 3*time.Second)
	p := l.live(t)
	log := []*kgo.Record{withID(req(0, ms(8000), "orders"), "a"), req(1, ms(5000), "orders")}
	l.read(t, p, testNow, log...)
	must(t, p.Load(ms(5000), l.room))
	l.happened(p.Take(ms(5000), nil, 100, anyBytes))
	for _, due := range []int64{5000, 8000} {
		log = append(log, cancelling(int64(len(log)), handleOf(0, ms(due))))
		l.read(t, p, ms(5000), log[len(log)-1])
	}
	must(t, p.Load(ms(5000), l.room))
	pt := p.Take(ms(5000), nil, 100, anyBytes)
	equal(t, "the wrong one", pt.Items[0].Effect, EffectTooLate)
	equal(t, "the right one", pt.Items[1].Effect, EffectCancelled)
	l.happened(pt)
	equal(t, "pending", p.Pending(), 0)
	equal(t, "pending after a restart", l.crashed(t, p.committed, log...).Pending(), 0)
}

// The resolve record of what a turn has dead-lettered may be read before the lane knows that the turn has happened.
func TestDeadLetteredIsForgottenOnce(t *testing.T) {
	for _, stored := range []bool{true, false} {
		l := remembering(t, time.Hour)
		if !stored {
			l.store = nil
		}
		p := l.live(t)
		l.read(t, p, testNow, withID(req(0, ms(100), "orders"), "a"), withID(req(1, ms(100), "orders"), "b"))
		pt := p.Take(ms(100), nil, 100, anyBytes)
		pt.Items[0].Dead = pt.Items[0].Leaves()
		l.read(t, p, ms(100), resolving(2, 0, ms(100)))
		equal(t, "remembered by then", p.Figures(ms(100)).Remembered, 1)
		l.happened(pt)
		equal(t, "remembered", p.Figures(ms(100)).Remembered, 1)
		must(t, p.Sync())
		must(t, Check(p))
	}
}

// What has left a stub was written at some time, also where W has passed it while this store was not written: a cancel of its id that was
// forwarded, and written before, ends no memory.
func TestStubLeftElsewhereKnowsWhenItWasWritten(t *testing.T) {
	l := remembering(t, time.Hour)
	p := l.live(t)
	l.read(t, p, testNow, withID(req(0, ms(farMs), "orders"), "a"))
	l.happened(p.Checkpoint())
	must(t, p.Flush())
	c := p.committed
	c.Watermark = state.Key{Due: ms(farMs), Seq: 0} // delivered elsewhere
	p, err := l.assign(c, 0, 1, 1)
	must(t, err)
	must(t, p.goLive(l.room))
	equal(t, "remembered", p.Figures(ms(farMs)).Remembered, 1)
	forward := &kgo.Record{Offset: 1, Timestamp: time.UnixMilli(ms(farMs))}
	forward.Headers, _ = topics.AppendForward(nil, cancelling(1, "a").Headers, testMark, 7, 70, testNow-1, nil)
	l.read(t, p, ms(farMs), forward)
	must(t, p.Load(ms(farMs), l.room))
	equal(t, "remembered after a cancel of what was before", p.Figures(ms(farMs)).Remembered, 1)
}

// What a turn has dead-lettered is not remembered, also if the turn was cut in two and only its first half has happened.
func TestDeadLetteredInAHalfTurnIsNotRemembered(t *testing.T) {
	l := remembering(t, time.Second)
	p := l.live(t)
	log := []*kgo.Record{req(0, ms(3900), "orders"), withID(req(1, ms(100), "orders"), "a")}
	l.read(t, p, testNow, log...)
	pt := p.Take(ms(3900), nil, 100, anyBytes) // after a while in which nothing was delivered
	equal(t, "records", len(pt.Items), 2)
	first, _ := pt.Split(1)
	it := &first.Items[0]
	it.Dead = true
	resolved := it.Resolve || it.Leaves() // as the processor has it
	if resolved {
		log = append(log, resolving(2, 1, ms(100)))
	}
	l.happened(first)
	p = l.crashed(t, first.To, log...)
	equal(t, "remembered", p.Figures(ms(100)).Remembered, 0)
}

// What is pending is carried, so the log need not keep it until it is due. What is remembered is not: the log has to keep it for that time, and before for as
// long as it may be old when it is due, which is half of what the log keeps at most.
func TestNeedsOfWhatIsCarried(t *testing.T) {
	const day, week = 24 * time.Hour, 7 * 24 * time.Hour
	for _, tt := range []struct{ remember, delay, want time.Duration }{
		{0, week, 0},
		{0, time.Second, 0},
		{day, week, 2 * day},
		{day, day, 2 * day},
		{day, time.Hour, day + time.Hour},
		{week, day, week + day},
	} {
		l := remembering(t, tt.remember)
		p := l.live(t)
		r := withID(req(0, ms(farMs), "orders"), "a")
		r.Timestamp = time.UnixMilli(ms(farMs)).Add(-tt.delay)
		l.read(t, p, testNow, r)
		name := fmt.Sprintf("delayed for %v and remembered for %v: needs ", tt.delay, tt.remember)
		equal(t, name+"while it is pending", p.Figures(testNow).Needs, tt.want)
		must(t, p.Load(ms(farMs), l.room))
		l.happened(p.Take(ms(farMs), nil, 100, anyBytes))
		equal(t, name+"while it is remembered", p.Figures(ms(farMs+1)).Needs, tt.want)
	}
}

// The log has to keep a delivered record until its id is forgotten, as it had to while that was pending.
func TestNeedsOfTheRemembered(t *testing.T) {
	l := remembering(t, 24*time.Hour)
	staying(l)
	p := l.live(t)
	r := withID(req(0, ms(farMs), "orders"), "a")
	r.Timestamp = time.UnixMilli(ms(farMs - 7*24*3600_000)) // a week before it is due
	l.read(t, p, testNow, r)
	week := 7 * 24 * time.Hour
	equal(t, "needs while it is pending", p.Figures(testNow).Needs, week+24*time.Hour)
	must(t, p.Load(ms(farMs), l.room))
	l.happened(p.Take(ms(farMs), nil, 100, anyBytes))
	f := p.Figures(ms(farMs + 1))
	equal(t, "remembered", f.Remembered, 1)
	equal(t, "low water", p.committed.LowWater, 0)
	equal(t, "needs while it is remembered", f.Needs, week+24*time.Hour)
}

// Nothing is due next where nothing is pending.
func TestNothingIsDueWhereAllIsRemembered(t *testing.T) {
	l := remembering(t, time.Second)
	p := l.live(t)
	l.read(t, p, testNow, withID(req(0, ms(100), "orders"), "a"))
	l.happened(p.Take(ms(100), nil, 100, anyBytes))
	f := p.Figures(ms(101))
	equal(t, "pending", f.Pending, 0)
	equal(t, "next due", f.NextDue, 0)
}

// What is told of a refused request has its id.
func TestRefusedHasItsID(t *testing.T) {
	l := testOwner(t)
	l.audit = true
	p := l.live(t)
	l.read(t, p, testNow, withID(req(0, ms(100), "nowhere"), "a"), withID(req(1, ms(-100), "nowhere"), "b"))
	must(t, p.Load(testNow, l.room))
	pt := p.Take(testNow, nil, 100, anyBytes)
	for i, want := range []string{"a", "b"} {
		equal(t, "id", string(pt.Items[i].ID()), want)
	}
}

// Ids whose memory has ended while another replica had the partition leave the store.
func TestForgottenElsewhereLeavesTheStore(t *testing.T) {
	l := remembering(t, 5*time.Second)
	p := l.live(t)
	var log []*kgo.Record
	for i := range int64(10) {
		log = append(log, withID(req(i, ms(100), "orders"), "a"+fmt.Sprint(i)))
	}
	l.read(t, p, testNow, log...)
	l.happened(p.Take(ms(100), nil, 100, anyBytes))
	must(t, p.Flush())
	c := p.committed
	// Elsewhere the stubs are passed, but for one that comes later.
	c.Watermark = state.Key{Due: ms(6000), Seq: 8}
	c.LowWater = 9
	p, err := l.assign(c, 0, 10, 10)
	must(t, err)
	must(t, p.goLive(l.room))
	must(t, p.Load(ms(6000), l.room))
	l.happened(p.Take(ms(6000), nil, 100, anyBytes))
	equal(t, "remembered", p.Figures(ms(6000)).Remembered, 0)
	must(t, p.Tidy(true))
	must(t, p.Flush())
	store, err := l.store.Partition(testID)
	must(t, err)
	n := 0
	for i := range 10 {
		n += found(t, store, "a"+fmt.Sprint(i))
	}
	equal(t, "ids on disk", n, 0)
}

// A cancel ends the memory of an id, also of what was given up, if the copy that says that it was delivered is read with the cancel. A replay finds the same.
func TestCancelForgetsWhatACopyRemembers(t *testing.T) {
	l := remembering(t, 3*time.Second)
	carried := func(offset, of int64, id string) *kgo.Record {
		r := withID(req(of, ms(of), "orders"), id)
		r.Offset = offset
		r.Headers, _ = topics.AppendCopy(nil, r.Headers, testMark, topics.Copy{Seq: of, Due: ms(of), Timestamp: testNow, From: of}, nil)
		return r
	}
	log := []*kgo.Record{carried(5, 1, "a"), carried(6, 2, "b"), cancelling(7, handleOf(1, ms(1)))}
	begin := func(c state.Checkpoint) *Partition {
		p, err := l.assign(c, 5, 8, 8)
		must(t, err)
		l.read(t, p, testNow, log...)
		must(t, p.goLive(l.room))
		must(t, p.Load(testNow, l.room))
		must(t, Check(p))
		return p
	}
	p := begin(state.Checkpoint{Offset: 5, LowWater: 5, GivenUp: 5, Watermark: state.Key{Due: ms(10), Seq: 4}, Parsers: []state.ParserEpoch{{Spec: l.route.Spec()}}})
	equal(t, "remembered", p.Figures(ms(100)).Remembered, 1)
	pt := p.Take(ms(11), nil, 100, anyBytes)
	l.happened(pt)
	equal(t, "remembered when that is committed", p.Figures(ms(100)).Remembered, 1)
	l.store = nil
	equal(t, "remembered by the next owner", begin(pt.To).Figures(ms(100)).Remembered, 1)
}

package pending

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/topics"
)

// The memory of an id has an end for what is written after it, also while a turn has not passed it.
func TestMemoryEnds(t *testing.T) {
	l := testOwner(t)
	r := testRoute(true)
	r.Remember = 1500 * time.Millisecond
	l.route = mustRoute(r)
	p := l.live(t)
	l.read(t, p, testNow, withHeader(req(0, testNow, "orders"), topics.HeaderID, "a"))
	l.happened(p.Take(testNow, nil, 100, anyBytes))
	equal(t, "remembered", p.Figures(testNow).Remembered, 1)

	intime, after := withHeader(req(1, ms(9000), "orders"), topics.HeaderID, "a"), withHeader(req(2, ms(9000), "orders"), topics.HeaderID, "a")
	intime.Timestamp, after.Timestamp = time.UnixMilli(ms(2000)), time.UnixMilli(ms(2001))
	l.read(t, p, ms(2001), intime, after)
	must(t, p.Load(ms(2001), l.room))
	part := p.Take(ms(2001), nil, 100, anyBytes)
	var refused []int64
	for _, it := range part.Items {
		if it.Refusal != nil {
			refused = append(refused, it.Offset)
			equal(t, "code", it.Refusal.Code, topics.CodeDuplicateID)
			equal(t, "says", it.Refusal.Message, "a record with this id was delivered lately in this partition")
		}
	}
	equals(t, "refused", refused, []int64{1})
	l.happened(part)
	must(t, Check(p))
	f := p.Figures(ms(2001))
	equal(t, "pending", f.Pending, 1)
	equal(t, "remembered after the turn that passes the stub", f.Remembered, 0)
}

// A resolve record that names a delivered record takes its stub away, in memory, in the store and in a replay.
func TestResolvedStub(t *testing.T) {
	for _, stored := range []bool{true, false} {
		l := testOwner(t)
		if !stored {
			l.store = nil
		}
		r := testRoute(true)
		r.Remember = time.Hour
		l.route = mustRoute(r)
		p := l.live(t)
		request := withHeader(req(0, testNow, "orders"), topics.HeaderID, "a")
		l.read(t, p, testNow, request)
		l.happened(p.Take(testNow, nil, 100, anyBytes))
		l.read(t, p, testNow, resolving(1, 0, testNow))
		equal(t, "remembered", p.Figures(testNow).Remembered, 0)
		c := p.committed
		p, err := l.assign(c, 0, 2, 2)
		must(t, err)
		for _, r := range []*kgo.Record{request, resolving(1, 0, testNow)} {
			if r.Offset >= p.position {
				l.read(t, p, testNow, r)
			}
		}
		equal(t, "remembered after a replay", p.Figures(testNow).Remembered, 0)
	}
}

// Stubs go along with the records of a turn, however few of these it takes.
func TestStubsGoAlong(t *testing.T) {
	l := testOwner(t)
	r := testRoute(true)
	r.Remember = time.Second
	l.route = mustRoute(r)
	p := l.live(t)
	for i := range int64(10) {
		l.read(t, p, testNow, withHeader(req(i, testNow, "orders"), topics.HeaderID, string('a'+rune(i))))
	}
	l.happened(p.Take(testNow, nil, 100, anyBytes))
	equal(t, "remembered", p.Figures(testNow).Remembered, 10)
	l.read(t, p, testNow, req(10, ms(1000), "orders"), req(11, ms(1001), "orders"))
	must(t, p.Load(ms(2000), l.room))
	part := p.Take(ms(2000), nil, 1, anyBytes)
	equal(t, "items", len(part.Items), 11)
	equal(t, "the last one", part.Items[10].Offset, 10)
	l.happened(part)
	equal(t, "remembered then", p.Figures(ms(2000)).Remembered, 0)
}

// A stub that a turn has left which did not happen gives its id back when its record is read again, which leaves another one or none.
func TestStubOfATurnThatDidNotHappenGivesItsIDBack(t *testing.T) {
	l := remembering(t, time.Hour)
	p := l.live(t)
	l.read(t, p, testNow, withID(req(0, ms(1000), "orders"), "a"))
	l.happened(p.Checkpoint())
	must(t, p.Load(ms(1000), l.room))
	equal(t, "taken", p.Take(ms(1000), nil, 1, anyBytes) != nil, true)
	must(t, p.Flush())
	equal(t, "ids in the store", found(t, p.store, "a"), 1)

	p, err := l.assign(p.Marks().Committed, 0, 1, 1)
	must(t, err)
	equal(t, "start", p.start, 0)
	l.read(t, p, testNow, withID(req(0, ms(1000), "orders"), "a"))
	must(t, p.goLive(l.room))
	l.read(t, p, testNow, cancelling(1, "a"))
	must(t, p.Load(testNow, l.room))
	l.happened(p.Take(testNow, nil, 10, anyBytes))
	must(t, p.Flush())
	equal(t, "ids in the store once it is cancelled", found(t, p.store, "a"), 0)
	l.read(t, p, testNow, withID(req(2, ms(1000), "orders"), "a"))
	equal(t, "pending", p.Pending(), 1)
}

// The log must have kept what leaves a stub until that ends.
func TestMemoryNeedsTheLog(t *testing.T) {
	l := testOwner(t)
	r := testRoute(true)
	r.Remember = time.Hour
	l.route = mustRoute(r)
	p := l.live(t)
	equal(t, "needs with nothing pending", p.Figures(testNow).Needs, 0)
	l.read(t, p, testNow, withHeader(req(0, ms(5000), "orders"), topics.HeaderID, "a"))
	equal(t, "needs", p.Figures(testNow).Needs, time.Hour+5*time.Second)
}

// Why an id is taken is said of each record by itself: one may be pending while another was delivered lately.
func TestWhyAnIDIsTaken(t *testing.T) {
	l := testOwner(t)
	r := testRoute(true)
	r.Remember = time.Hour
	l.route = mustRoute(r)
	p := l.live(t)
	id := func(offset, due int64, id string) *kgo.Record {
		return withHeader(req(offset, due, "orders"), topics.HeaderID, id)
	}
	l.read(t, p, testNow, id(0, testNow, "a"), id(1, ms(60_000), "b"))
	l.happened(p.Take(testNow, nil, 100, anyBytes))
	l.read(t, p, testNow, id(2, ms(9000), "a"), id(3, ms(9000), "b"))
	must(t, p.Load(testNow, l.room))
	var says []string
	for _, it := range p.Take(testNow, nil, 100, anyBytes).Items {
		says = append(says, it.Refusal.Message)
	}
	equals(t, "refused", says, []string{"a record with this id was delivered lately in this partition", "a record with this id is pending in this partition"})
}

// Why a replacement is refused says whether what it names was delivered, or is not known; and what configuration refuses is refused for that.
func TestWhyAReplacementIsRefused(t *testing.T) {
	l := testOwner(t)
	p := l.live(t)
	replace := func(offset, of, due int64, target string) *kgo.Record {
		return withHeader(req(offset, ms(9000), target), topics.HeaderReplace, handleOf(of, due))
	}
	l.read(t, p, testNow, req(0, testNow, "orders"))
	l.happened(p.Take(testNow, nil, 100, anyBytes))
	l.read(t, p, testNow, replace(1, 0, testNow, "orders"), replace(2, 0, ms(60_000), "orders"), replace(3, 0, ms(60_000), "nowhere"))
	must(t, p.Load(testNow, l.room))
	var says []string
	for _, it := range p.Take(testNow, nil, 100, anyBytes).Items {
		says = append(says, string(it.Refusal.Code)+": "+it.Refusal.Message)
	}
	equals(t, "refused", says, []string{
		"too_late: what it names was delivered or dead-lettered before, or was about to be",
		"too_late: nothing of that name is pending: it was cancelled or replaced, or never was",
		"target_not_allowed: the route " + testTopic + " does not allow the target nowhere",
	})
}

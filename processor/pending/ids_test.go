package pending

import (
	"fmt"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
)

// withHeader is a record with one header more.
func withHeader(r *kgo.Record, name, value string) *kgo.Record {
	r.Headers = append(r.Headers, kgo.RecordHeader{Key: name, Value: []byte(value)})
	return r
}

// An empty header is an absent one: a replacement of an id finds it, whatever an outbox has put behind.
func TestReplacementBesideAnEmptyCancel(t *testing.T) {
	l := testOwner(t)
	p := l.live(t)
	l.read(t, p, testNow, withHeader(req(0, ms(500), "orders"), topics.HeaderID, "a"),
		withHeader(withHeader(req(1, ms(600), "orders"), topics.HeaderReplace, "a"), topics.HeaderCancel, ""))
	must(t, p.Load(testNow, l.room))
	l.happened(p.Take(testNow, nil, 100, anyBytes))
	if got := pendingOf(t, p); got != "[1]" {
		t.Errorf("pending is %s, want 1 alone", got)
	}
}

// found are how many records the store finds by an id.
func found(t *testing.T, store *state.Partition, id string) (n int) {
	t.Helper()
	must(t, store.FindIDs(slices.All([][]byte{[]byte(id)}), func(int, state.Key, int64) { n++ }))
	return n
}

// What an owner has read again is in memory as if the store did not hold it, and it may. Its id leaves the store all the same.
func TestDeliveredIDLeavesTheStore(t *testing.T) {
	l := testOwner(t)
	p := l.live(t)
	near, far := req(0, ms(2000), "orders"), withHeader(req(1, ms(farMs), "orders"), topics.HeaderID, "a") // the first one holds back resume
	l.read(t, p, testNow, near, far)
	l.happened(p.Checkpoint())
	must(t, p.Flush())
	l.room.Most = farMs * 2 // what was far is near by now
	p, err := l.assign(p.committed, 0, 2, 2)
	must(t, err)
	l.read(t, p, testNow, near, far)
	must(t, p.goLive(l.room))
	part := p.Take(ms(farMs), nil, 100, anyBytes)
	equals(t, "delivered", part.offsets(), []int64{0, 1})
	equal(t, "found before it is delivered", found(t, p.store, "a"), 1)
	l.happened(part)
	must(t, p.Flush())
	equal(t, "found then", found(t, p.store, "a"), 0)
}

// The id of a delivered record stays in the store until the checkpoint says so: a crash before that has it pending again, at least once.
func TestDeliveredIDStaysUntilTheCheckpoint(t *testing.T) {
	l := testOwner(t)
	p := l.live(t)
	l.read(t, p, testNow, withHeader(req(0, ms(farMs), "orders"), topics.HeaderID, "a"))
	l.happened(p.Checkpoint())
	must(t, p.Flush())
	l.room.Most = farMs * 2
	must(t, p.Load(ms(farMs), l.room))
	part := p.Take(ms(farMs), nil, 100, anyBytes)
	equals(t, "delivered", part.offsets(), []int64{0})
	p.Settle(part)
	must(t, p.Flush())
	equal(t, "found before the checkpoint", found(t, p.store, "a"), 1)
	p.Committed(part)
	must(t, p.Flush())
	equal(t, "found then", found(t, p.store, "a"), 0)
}

// An id that is used over and over leaves nothing behind.
func TestIDUsedAgain(t *testing.T) {
	l := testOwner(t)
	p := l.live(t)
	for i := range int64(50) {
		now := ms(i * farMs)
		l.read(t, p, now, withHeader(req(i, now+farMs, "orders"), topics.HeaderID, "a"))
		must(t, p.Load(now, l.room))
		for range 2 {
			must(t, p.Load(now+farMs, l.room))
			if part := p.Take(now+farMs, nil, 100, anyBytes); part != nil {
				l.happened(part)
			}
		}
		must(t, p.Tidy(true))
	}
	must(t, p.Flush())
	equal(t, "found", found(t, p.store, "a"), 0)
	equal(t, "in memory", p.ids.len(), 0)
}

// A replay of many records with one id costs what they are, and not the square of that, for an owner and a follower.
func TestReplayOfManyWithOneID(t *testing.T) {
	const many = 10_000
	l := testOwner(t)
	r := testRoute(true)
	r.OnDuplicate = topics.DuplicateReplaces
	l.route = mustRoute(r)
	for _, due := range []int64{500, farMs} {
		p, err := l.assign(state.Checkpoint{Offset: many}, 0, many, many)
		must(t, err)
		for i := range int64(many) {
			_, err := p.Accept(withHeader(req(i, ms(due), "orders"), topics.HeaderID, "a"), testNow)
			must(t, err)
		}
		if n := len(p.drops.keys) + len(p.drops.before); n > many {
			t.Errorf("due +%d: %d things to drop", due, n)
		}
		must(t, p.Sync())
		must(t, p.goLive(l.room))
		if got := pendingOf(t, p); got != fmt.Sprintf("[%d]", many-1) {
			t.Errorf("due +%d: pending is %.100s, want the last", due, got)
		}
	}
}

// Wrong bytes in the store are no panic of a follower.
func TestFollowerOfWrongBytes(t *testing.T) {
	l := testOwner(t)
	store, err := l.store.Partition(testID)
	must(t, err)
	c := state.Checkpoint{TopicID: [4]byte(testID.TopicID[:4]), Offset: 2, Parsers: []state.ParserEpoch{{From: 0, Spec: "p1"}}}
	got, err := Inherit(never, mustRoute(testRoute(true)), store, c, 0, 1<<40)
	must(t, err)
	f, err := Follow(l.env(), c, store, got)
	must(t, err)
	_, err = f.Accept(withHeader(req(0, ms(500), "orders"), topics.HeaderID, "a"))
	must(t, err)
	must(t, f.Sync())
	must(t, f.p.store.Put(state.Key{Due: ms(600), Seq: 1}, appendRecord(nil, req(1, ms(600), "orders"), idInHeader)))
	f.p.dirty = true
	must(t, f.Sync())
	if _, err := Inherit(never, mustRoute(testRoute(true)), store, c, 0, 1<<40); err != nil {
		t.Error(err) // what it finds is dropped
	}
	c.Watermark = state.Key{Due: ms(700), Seq: 1}
	if _, err := f.Follow(c); err != nil {
		t.Error(err)
	}
}

// At least once, after a crash and with another configuration: a resolve record tells what a record has taken away that had its id, and that
// does not make two of one id pending.
func TestConfirmedUnderAnotherConfiguration(t *testing.T) {
	for _, mode := range []topics.OnDuplicate{topics.DuplicateIgnored, topics.DuplicateRejected} {
		l := testOwner(t)
		l.atLeastOnce = true
		r := testRoute(true)
		r.OnDuplicate = mode
		l.route = mustRoute(r)
		confirmed := &kgo.Record{Offset: 3, Timestamp: req(0, 0, "").Timestamp, Headers: topics.ResolveBy(testMark, 1, ms(50), 1, 2)}
		p, err := l.assign(state.Checkpoint{}, 0, 4, 4)
		must(t, err)
		l.read(t, p, testNow, withHeader(req(0, ms(500), "orders"), topics.HeaderID, "b"),
			withHeader(req(1, ms(50), "orders"), topics.HeaderID, "b"), withHeader(req(2, ms(600), "orders"), topics.HeaderID, "b"), confirmed)
		must(t, p.goLive(l.room))
		must(t, p.Load(testNow, l.room))
		equal(t, "pending of one id", len(p.ids.find([]byte("b"))), 1)
	}
}

// An id is found by what the route calls its header, and out of quotes: in memory, in the store and for those that wait to be decided.
func TestIDWithAnotherPrefix(t *testing.T) {
	for _, due := range []int64{2000, farMs} {
		for _, prefix := range []string{topics.HeaderPrefix, "x-wheel-"} {
			l := testOwner(t)
			route := testRoute(true)
			route.Prefix, route.Target = prefix, "orders"
			l.route = mustRoute(route)
			p := l.live(t)
			ask := func(offset int64, due, name, value string) *kgo.Record {
				r := req(offset, 0, "orders")
				r.Headers = []kgo.RecordHeader{{Key: "trace-id", Value: []byte("b")}, {Key: prefix + due, Value: []byte(fmt.Sprint(ms(0)))}}
				return withHeader(r, prefix+name, value)
			}
			at := func(r *kgo.Record, due int64) *kgo.Record { r.Headers[1].Value = []byte(fmt.Sprint(ms(due))); return r }
			l.read(t, p, testNow, at(ask(0, "until", "id", `"a"`), due))
			must(t, p.Load(testNow, l.room))
			must(t, p.Flush())
			if due == farMs {
				equal(t, "found", found(t, p.store, "a"), 1)
			}
			l.read(t, p, testNow, at(ask(1, "until", "id", "a"), due), at(ask(2, "until", "replace", `"a"`), due+1), at(ask(3, "until", "id", "b"), due))
			must(t, p.Load(testNow, l.room))
			must(t, Check(p))
			pt := p.Take(testNow, nil, 100, anyBytes)
			equal(t, "the header that is to blame for a duplicate", pt.Items[0].Refusal.Header, prefix+"id")
			l.happened(pt)
			must(t, p.Flush())
			if got := pendingOf(t, p); got != "[3 2]" && got != "[2 3]" {
				t.Errorf("due %d, prefix %s: pending is %s, want 2 and 3", due, prefix, got)
			}
			l.read(t, p, testNow, ask(4, "until", "cancel", "a"))
			must(t, p.Load(testNow, l.room))
			l.happened(p.Take(testNow, nil, 100, anyBytes))
			if got := pendingOf(t, p); got != "[3]" {
				t.Errorf("due %d, prefix %s: pending is %s, want 3 alone", due, prefix, got)
			}
			must(t, p.Flush())
			p, err := l.assign(p.committed, 0, 5, 5)
			must(t, err)
			if got := pendingOf(t, p); got != "[3]" && due == farMs {
				t.Errorf("due %d, prefix %s: after a restart pending is %s, want 3 alone", due, prefix, got)
			}
		}
	}
}

// What is kept of a cancel by an id says what it names, by whatever name its route has for that: else it would be a record to deliver.
func TestCancelIsKeptWithAnotherPrefix(t *testing.T) {
	for _, prefix := range []string{topics.HeaderPrefix, "x-wheel-"} {
		l := testOwner(t)
		route := testRoute(true)
		route.Prefix, route.Target = prefix, "orders"
		l.route = mustRoute(route)
		p := l.live(t)
		r := req(0, 0, "orders")
		r.Headers = nil
		l.read(t, p, testNow, withHeader(r, prefix+"cancel", "a"))
		must(t, p.Load(testNow, l.room))
		part := p.Take(testNow, nil, 100, anyBytes)
		var rec Record
		must(t, rec.Decode(part.Items[0].Run))
		var q topics.Request
		if err := p.RequestOf(&q, &part.Items[0], &rec); err != nil || q.Kind != topics.KindCancel || string(q.NamedID) != "a" {
			t.Errorf("prefix %s: kept is %+v, %v", prefix, q, err)
		}
	}
}

// Of several records with one id, which a catch-up finds, each is found once, also when it has left memory for the store: else the id would be found
// when nothing that has it is pending, and what comes then be refused.
func TestSpilledDuplicates(t *testing.T) {
	l := testOwner(t)
	p, err := l.assign(state.Checkpoint{Offset: 2}, 0, 2, 2)
	must(t, err)
	for i := range int64(2) { // the second one was refused
		_, err := p.Accept(withID(req(i, ms(500), "orders"), "a"), testNow)
		must(t, err)
	}
	must(t, Check(p))
	for more := true; more; {
		more, err = p.Fit(testNow, Room{Window: LeastWindow})
		must(t, err)
		must(t, Check(p))
	}
	equal(t, "in memory", p.ids.len(), 0)
}

// The same where a copy takes the place of the second one, while the first one is being taken away.
func TestCopyOfADuplicate(t *testing.T) {
	l := testOwner(t)
	p, err := l.assign(checkpointAt(4, 0, state.Key{}, state.ParserEpoch{Spec: l.route.Spec()}), 0, 4, 4)
	must(t, err)
	second := withID(req(1, ms(500), "orders"), "a")
	c := copyAt(3, 1, ms(500))
	c.Headers, _ = topics.AppendCopy(nil, second.Headers, testMark, topics.Copy{Seq: 1, Due: ms(500), Timestamp: testNow, From: 1}, nil)
	for _, r := range []*kgo.Record{withID(req(0, ms(500), "orders"), "a"), second, resolving(2, 0, ms(500)), c} {
		_, err := p.Accept(r, testNow)
		must(t, err)
		must(t, checkIDs(p))
	}
	must(t, p.Sync())
	must(t, Check(p))
	equal(t, "pending", p.Pending(), 1)
	equal(t, "in memory", p.ids.len(), 0)
}

// What its owner has delivered leaves the store of a standby with its id, which would stay there for ever.
func TestFollowedIDLeavesTheStore(t *testing.T) {
	l := testOwner(t)
	open := func() *state.Partition {
		store, err := l.store.Partition(testID)
		must(t, err)
		return store
	}
	store := open()
	c := state.Checkpoint{TopicID: [4]byte(testID.TopicID[:4]), Offset: 2, Parsers: []state.ParserEpoch{{From: 0, Spec: "p1"}}}
	got, err := Inherit(never, l.route, store, c, 0, 1<<40)
	must(t, err)
	f, err := Follow(l.env(), c, store, got)
	must(t, err)
	for i, id := range []string{"a", "b"} {
		_, err := f.Accept(withID(req(int64(i), ms(500+int64(i)), "orders"), id))
		must(t, err)
	}
	must(t, f.Sync())
	c.Watermark = state.Key{Due: ms(500), Seq: 0}
	_, err = f.Follow(c)
	must(t, err)
	store = open() // which does not know what was trimmed
	equal(t, "what is delivered", found(t, store, "a"), 0)
	equal(t, "what is pending", found(t, store, "b"), 1)
}

// The store is asked at once for the ids of what was read, and each is decided as if it were asked for by itself.
func TestStoreIsAskedAtOnce(t *testing.T) {
	l := testOwner(t)
	p := l.live(t)
	at := func(offset int64, id string) *kgo.Record { return withID(req(offset, ms(farMs), "orders"), id) }
	l.read(t, p, testNow, at(0, "a"), at(1, "b"))
	equal(t, "found", found(t, p.store, "a"), 1)
	fetched := []*kgo.Record{at(2, "c"), at(3, "a"), req(4, ms(farMs), "orders"), at(5, "d"), at(6, "c")}
	must(t, p.Expect(fetched))
	var absent []string
	for _, id := range []string{"a", "b", "c", "d", "e"} {
		if p.ids.isAbsent([]byte(id)) {
			absent = append(absent, id)
		}
	}
	equals(t, "absent", absent, []string{"c", "d"})
	accept := func(rs ...*kgo.Record) {
		for _, r := range rs {
			_, err := p.Accept(r, testNow)
			must(t, err)
		}
		must(t, p.Sync())
		must(t, p.Load(testNow, l.room)) // which decides
	}
	accept(fetched...)
	accept(at(7, "d"), at(8, "e")) // as a lane would that was told nothing
	if got := pendingOf(t, p); got != "[0 1 2 4 5 8]" {
		t.Errorf("pending is %s", got)
	}
	l.happened(p.Checkpoint(), p.Take(testNow, nil, 100, anyBytes))

	// One that replays some of what was read, and stands at its end then, asks for the rest.
	must(t, p.Flush())
	p, err := l.assign(p.committed, 0, 0, 9)
	must(t, err)
	p.accepted, p.identified = 2, true
	must(t, p.Expect([]*kgo.Record{at(1, "b"), at(9, "f")}))
	equal(t, "asked for what follows", p.ids.isAbsent([]byte("f")), true)
}

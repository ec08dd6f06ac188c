package pending

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"pgregory.net/rapid"

	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
	"github.com/duewheel/duewheel/wheel"
)

// Where a part is split, each half leaves a checkpoint that is valid by itself.
func TestSplit(t *testing.T) {
	late := func(offset int64) *kgo.Record { return req(offset, testNow-100, "orders") }
	near := func(offset, ms int64) *kgo.Record { return req(offset, testNow+ms, "orders") }
	key := func(offset, ms int64) state.Key { return state.Key{Due: testNow + ms, Seq: offset} }
	w := key(0, -50) // of the record that is delivered first
	l := testOwner(t)
	p := l.live(t)
	l.read(t, p, testNow, near(0, -50))
	l.happened(p.Take(testNow, nil, 1, anyBytes))
	l.read(t, p, testNow, late(1), near(2, 5), near(3, 4), late(4), near(5, 3))
	whole := p.Take(testNow+5, nil, 100, anyBytes)
	equals(t, "records", whole.offsets(), []int64{1, 4, 5, 3, 2})
	for _, c := range []struct {
		name   string
		at     int
		offset int64
		w      state.Key
	}{
		{"O stops short of late records, and W stays", 1, 4, w},
		{"after the late ones O passes them, and W stays", 2, 6, w},
		{"W is the last record's key", 3, 6, key(5, 3)},
		{"and L stays below what is left", 4, 6, key(3, 4)},
	} {
		t.Run(c.name, func(t *testing.T) {
			first, second := whole.Split(c.at)
			equal(t, "O", first.To.Offset, c.offset)
			equal(t, "W", first.To.Watermark, c.w)
			equal(t, "L", first.To.LowWater, min(slices.Min(second.offsets()), whole.To.LowWater, c.offset))
			equal(t, "O of the second", second.To.Offset, whole.To.Offset)
			equal(t, "W of the second", second.To.Watermark, whole.To.Watermark)
			equal(t, "the first comes first", first.before(second) && !second.before(first), true)
			equals(t, "records", append(first.offsets(), second.offsets()...), whole.offsets())
		})
	}
}

// The first half of a part names the parsers of what the second half is to deliver, although that
// is not pending any more by the ledger's count.
func TestSplitKeepsParsers(t *testing.T) {
	l := testOwner(t)
	old := state.Checkpoint{Offset: 2, LowWater: 0, Parsers: []state.ParserEpoch{{From: 0, Spec: "p1+1000"}}}
	p, err := l.assign(old, 0, 3, 3)
	if err != nil {
		t.Fatal(err)
	}
	fixed := func(offset, ms int64) *kgo.Record {
		r := req(offset, 0, "orders")
		r.Headers, r.Timestamp = r.Headers[1:], time.UnixMilli(testNow+ms)
		return r
	}
	l.read(t, p, testNow, fixed(0, 0), fixed(1, -1), req(2, testNow, "orders"))
	must(t, p.goLive(l.room))
	whole := p.Take(testNow+1000, nil, 100, anyBytes)
	equals(t, "records", whole.offsets(), []int64{2, 1, 0})
	equals(t, "parsers of the whole", whole.To.Parsers, []state.ParserEpoch{{From: 2, Spec: "p1"}})
	first, _ := whole.Split(1)
	equals(t, "parsers of the first half", first.To.Parsers, []state.ParserEpoch{{From: 0, Spec: "p1+1000"}, {From: 2, Spec: "p1"}})
}

// What is put back waits for its time, however little the clock has been set back since it was put back before.
func TestRepeatAfterTheClockIsSetBack(t *testing.T) {
	for _, back := range []int64{0, 1, 300, 999, 1000, 1001, 5000} {
		l := testOwner(t)
		p := l.live(t)
		l.read(t, p, testNow, req(0, testNow-10_000, "orders"))
		p.Repeat(p.Take(testNow, nil, 1, anyBytes), testNow+LongestPutBack)
		now, tried := testNow-back, 0
		for ; now < testNow+2*LongestPutBack; now++ {
			for p.Wants(now) > 0 {
				if tried++; tried > 10 {
					t.Fatalf("set back by %d ms: tried again and again at %d", back, now-testNow)
				}
				p.Repeat(p.Take(now, nil, 1, anyBytes), now+LongestPutBack)
			}
		}
		if tried == 0 {
			t.Errorf("set back by %d ms: not tried again", back)
		}
	}
}

// What overtakes comes last in a part. Cut there, the parts leave the same O and W, and happen in their order all the same: L passes what the first
// of them is to resolve.
func TestSplitOfWhatOvertakes(t *testing.T) {
	l := testOwner(t)
	p := l.live(t)
	l.read(t, p, testNow, req(0, testNow, "orders"), req(1, testNow, "orders"), req(2, testNow, "orders"), req(3, testNow, "orders"), req(4, testNow, "orders"),
		req(5, testNow, "bills"), req(6, testNow, "bills"), req(7, testNow, "bills"))
	whole := p.Take(testNow, nil, 6, anyBytes)
	equals(t, "records", whole.offsets(), []int64{0, 1, 2, 5, 6, 7})
	for i := range whole.Items {
		equal(t, "it overtakes", whole.Items[i].Overtakes(), i > 2)
	}
	equal(t, "W", whole.To.Watermark, state.Key{Due: testNow, Seq: 2})
	first, rest := whole.Split(3)
	equal(t, "W of what is in order", first.To.Watermark, whole.To.Watermark)
	second, third := rest.Split(1)
	for _, pt := range []*Part{second, third} {
		equal(t, "O", pt.To.Offset, whole.To.Offset)
		equal(t, "W", pt.To.Watermark, whole.To.Watermark)
		equal(t, "L", pt.To.LowWater, 3)
	}
	all := []*Part{first, second, third}
	for i, a := range all {
		for k, b := range all {
			equal(t, "one comes before the other", a.before(b), i < k)
		}
	}
	for _, pt := range []*Part{third, first, second} {
		p.Repeat(pt, 0)
	}
	equals(t, "parts", p.Repeated(), all)
}

// A part takes no less than an equal share of what is due of each target, and first of all what is due first.
func TestTargetsShareAPart(t *testing.T) {
	for _, c := range []struct {
		name    string
		orders  int // due first, then bills
		bills   int
		records int
		bytes   int64
		want    [2]int
	}{
		{"what is due fits", 3, 2, 5, anyBytes, [2]int{3, 2}},
		{"half and half", 100, 100, 20, anyBytes, [2]int{10, 10}},
		{"what one leaves the other gets", 100, 3, 20, anyBytes, [2]int{17, 3}},
		{"one record is the first", 100, 100, 1, anyBytes, [2]int{1, 0}},
		{"so it is with few bytes", 100, 1, 20, 1, [2]int{1, 1}},
		{"bytes are shared, too", 100, 100, 200, 1200, [2]int{10, 9}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := testOwner(t)
			p := l.live(t)
			var all []*kgo.Record
			for i := range c.orders + c.bills {
				target := "orders"
				if i >= c.orders {
					target = "bills"
				}
				all = append(all, req(int64(i), testNow, target))
			}
			l.read(t, p, testNow, all...)
			pt := p.Take(testNow, nil, c.records, c.bytes)
			var got [2]int
			for _, offset := range pt.offsets() {
				if got[0]++; offset >= int64(c.orders) {
					got = [2]int{got[0] - 1, got[1] + 1}
				}
			}
			equal(t, "records for orders and bills", got, c.want)
			equal(t, "the first of all", pt.Items[0].Offset, 0)
		})
	}
}

// Entries that come and go in any order are found where they belong.
func TestLine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, want := &line{}, map[state.Key]uint64{}
		sorted := func() []state.Key { return slices.SortedFunc(maps.Keys(want), state.Key.Compare) }
		for n := range rapid.IntRange(1, 3000).Draw(t, "steps") {
			e := wheel.Entry{Due: wheel.Tick(n / 7), Seq: int64(n), Ref: uint64(n)}
			if n%5 == 0 {
				e.Due = wheel.Tick(rapid.IntRange(0, 400).Draw(t, "due"))
			}
			l.add(e)
			want[keyOfEntry(e)] = e.Ref
			switch rapid.IntRange(0, 9).Draw(t, "then") {
			case 0:
				first := sorted()[0]
				if e := l.pop(); keyOfEntry(e) != first || e.Ref != want[first] {
					t.Fatalf("first comes %v, want %v", e, first)
				}
				delete(want, first)
			case 1:
				keys := sorted()
				key := keys[rapid.IntRange(0, len(keys)-1).Draw(t, "which")]
				if ref, ok := l.remove(key); !ok || ref != want[key] {
					t.Fatalf("%v is %d (%v), want %d", key, ref, ok, want[key])
				}
				if _, ok := l.remove(key); ok {
					t.Fatalf("%v is there twice", key)
				}
				delete(want, key)
			}
		}
		from := wheel.Tick(rapid.IntRange(0, 500).Draw(t, "from"))
		l.takeFrom(from, func(e wheel.Entry) {
			if e.Due < from || want[keyOfEntry(e)] != e.Ref {
				t.Fatalf("%v is taken, from %d on", e, from)
			}
			delete(want, keyOfEntry(e))
		})
		for _, key := range sorted() {
			if l.n == 0 || l.head() != key || l.pop().Ref != want[key] || wheel.Tick(key.Due) >= from {
				t.Fatalf("%v does not come where it belongs", key)
			}
		}
		if l.n != 0 || len(l.blocks) != 0 {
			t.Fatalf("%d are left in %d blocks", l.n, len(l.blocks))
		}
	})
}

// owner finds by it that they stand for their records.
func TestSplitSaysWhatWasGivenUp(t *testing.T) {
	l := testOwner(t)
	log := []*kgo.Record{copyAt(10, 1, ms(farMs)), req(11, ms(farMs), "elsewhere"), copyAt(12, 2, ms(farMs))}
	given := state.Checkpoint{Offset: 10, LowWater: 10, GivenUp: 10}
	restored := func(c state.Checkpoint) *Partition {
		p, err := l.assign(c, 10, 13, 13)
		must(t, err)
		for _, r := range log {
			if r.Offset >= p.start {
				l.read(t, p, testNow, r)
			}
		}
		must(t, p.goLive(l.room))
		must(t, p.Load(testNow, l.room))
		return p
	}
	p := restored(given)
	whole := p.Take(testNow, nil, 100, anyBytes)
	equals(t, "records", whole.offsets(), []int64{10, 11, 12})
	equal(t, "given up when all is passed", whole.To.GivenUp, 0)
	first, second := whole.Split(1)
	equal(t, "given up, of the first half", first.To.GivenUp, 10)
	equal(t, "given up, of the second half", second.To.GivenUp, 0)
	l.happened(first)
	l.happened(p.Checkpoint())
	p = restored(first.To)
	equal(t, "copies that stand for their records", p.ledger.Waiting(), 2)
}

// When a record was due that is refused is known to the part that resolves it, also where it is late: of a retry route with the broker's timestamps, and
// less the jitter of its route. Of one that came at a time that is not known it is not.
func TestPartKnowsWhenARefusedOneWasDue(t *testing.T) {
	now := ms(2 * time.Minute.Milliseconds())
	w := state.Key{Due: now, Seq: 1}
	again := testRoute(false)
	again.Retry = &topics.Retrying{Backoff: topics.Backoff{Initial: time.Second, Factor: 1, Max: time.Second}, MaxAttempts: 1}
	jittered := testRoute(false)
	jittered.Jitter = time.Minute
	byBroker := kgo.NewRecordAttrs(kgo.RecordAttrsOpts{TimestampType: 1})
	for _, c := range []struct {
		what  string
		route topics.Route
		attrs kgo.RecordAttrs
		want  int64
	}{
		{"a retry route, by the broker's time", again, byBroker, ms(1000)},
		{"a retry route", again, kgo.RecordAttrs{}, 0},
		{"a route with jitter", jittered, kgo.RecordAttrs{}, ms(5)},
	} {
		l := testOwner(t)
		l.route = mustRoute(c.route)
		p, err := l.assign(checkpointAt(2, 2, w, state.ParserEpoch{Spec: l.route.Spec()}), 0, 2, 2)
		must(t, err)
		must(t, p.goLive(l.room))
		r := req(2, ms(5), "elsewhere")
		if r.Attrs = c.attrs; c.route.Retry != nil {
			r.Headers = r.Headers[1:]
		}
		l.read(t, p, now, r)
		pt := p.Take(now, nil, 10, anyBytes)
		if pt == nil || len(pt.Items) != 1 || pt.Items[0].Refusal == nil || pt.Items[0].Key != (state.Key{}) {
			t.Fatalf("%s: %+v", c.what, pt)
		}
		due := pt.DueOf(&pt.Items[0])
		if due > 0 {
			due = pt.AskedFor(2, due)
		}
		equal(t, c.what+" was due at", due, c.want)
	}
}

// What another group has carried or tried again of what was gone when this one began is told of, once each time it is read; what this group has read itself is not.
func TestMissedIsToldOf(t *testing.T) {
	l := testOwner(t)
	theirs := topics.NewMark([4]byte(testID.TopicID[:4]), "former", testID.Partition)
	carried := func(offset, seq int64) *kgo.Record {
		r := req(offset, ms(farMs), "orders")
		r.Headers, _ = topics.AppendCopy(nil, r.Headers, theirs, topics.Copy{Seq: seq, Due: ms(farMs), Timestamp: testNow, From: seq}, nil)
		return r
	}
	p, err := l.assign(state.Checkpoint{Offset: 10, LowWater: 10, GivenUp: 10}, 10, 14, 14)
	must(t, err)
	for _, c := range []struct {
		r    *kgo.Record
		want string
	}{{req(10, ms(farMs), "orders"), ""}, {carried(11, 3), "former"}, {carried(12, 10), ""}, {copyAt(13, 4, ms(farMs)), ""}} {
		a, err := p.Accept(c.r, testNow)
		must(t, err)
		equal(t, "missed, as another group has it", a.Missed, c.want)
	}
}

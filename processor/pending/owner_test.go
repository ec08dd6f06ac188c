package pending

import (
	"cmp"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/internal/samples"
	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
)

const (
	testTopic  = "requests"
	testWindow = 4 * time.Second
	testNow    = int64(1_000_000_000_000) // the time at which tests begin
	anyBytes   = 1 << 30
)

var (
	testID   = state.PartitionID{Group: "g", Topic: testTopic, TopicID: [16]byte{1, 2, 3, 4, 5}, Partition: 3}
	testMark = topics.NewMark([4]byte(testID.TopicID[:4]), testID.Group, testID.Partition)
	farMs    = 10 * testWindow.Milliseconds()
)

func ms(n int64) int64 { return testNow + n }

// owner does with a partition what a lane does: it gives it a checkpoint and a store, and says what
// became of its parts.
type owner struct {
	route       *topics.Route
	store       *state.Store // nil: there is none
	room        Room
	atLeastOnce bool
	audit       bool
	soon        int64
	most        int   // of what a store is to forget one by one
	seen        int64 // when the log was seen to reach as far as it does; 0: as tests begin
}

func testOwner(t testing.TB) *owner {
	t.Helper()
	l := &owner{most: forgetAtMost, route: mustRoute(testRoute(true)), room: Room{Window: testWindow.Milliseconds(), Most: testWindow.Milliseconds(), Budget: 64 << 20, Share: 64 << 20}}
	store, err := state.Open(state.Options{Dir: "state", FS: vfs.NewMem(), MemoryBudget: 1 << 20, Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	t.Cleanup(func() { store.Close() })
	l.store = store
	return l
}

// testRoute is one whose records say when they are due; bills may be delivered to or not.
func testRoute(bills bool) topics.Route {
	r := topics.Route{Topic: testTopic, Allow: []string{"orders"}, DeadLetter: testTopic + ".dead"}
	if bills {
		r.Allow = append(r.Allow, "bills")
	}
	return r
}

func mustRoute(r topics.Route) *topics.Route {
	routes, err := topics.NewRoutes(r)
	if err != nil {
		panic(err)
	}
	return routes[0]
}

func (l *owner) env() Env {
	return Env{Route: l.route, Mark: testMark, Skew: 1000, Audit: l.audit, Soon: l.soon}
}

// parsers are those of a checkpoint with that of the route.
func (l *owner) parsers(c state.Checkpoint, end int64) []state.ParserEpoch {
	return withParser(l.atLeastOnce)(c, l.route.Spec(), end)
}

// withParser is what a guarantee has an owner begin with.
func withParser(atLeastOnce bool) func(state.Checkpoint, string, int64) []state.ParserEpoch {
	if atLeastOnce {
		return WithParserAtLeastOnce
	}
	return WithParser
}

// assign restores the partition from its checkpoint and log. A negative offset is no checkpoint.
func (l *owner) assign(c state.Checkpoint, start, end, high int64) (*Partition, error) {
	if c.Offset < 0 {
		c = state.Checkpoint{Offset: start, LowWater: start}
	}
	c.TopicID = [4]byte(testID.TopicID[:4])
	c.Parsers = l.parsers(c, high)
	p, err := New(l.env(), c, Sighting{End: high, At: cmp.Or(l.seen, testNow)})
	if err != nil {
		return nil, err
	}
	p.Trust(testNow + 1<<40)
	if l.store == nil || p.Ordered() {
		return p, nil
	}
	store, err := l.store.Partition(testID)
	if err != nil {
		return nil, err
	}
	got, err := inherit(never, l.route, store, c, start, max(end, p.Marks().OwnEnd), l.most)
	p.Use(store, got, testNow, l.room.Most)
	return p, err
}

func never() error { return nil }

// live is a partition without a past, at the beginning of an empty log.
func (l *owner) live(t testing.TB) *Partition {
	t.Helper()
	p, err := l.assign(state.Checkpoint{Offset: -1}, 0, 0, 0)
	must(t, err)
	must(t, p.goLive(l.room))
	return p
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// balance is what a lane does when memory is short.
func (l *owner) balance(t *testing.T, p *Partition) {
	t.Helper()
	if l.room.Used = p.Memory(); l.room.Used > l.room.Budget {
		fit(t, p, testNow, l.room)
	}
}

// fit has a partition give back at once what it is to.
func fit(t testing.TB, p *Partition, now int64, room Room) {
	t.Helper()
	more, err := p.Fit(now, room)
	must(t, err)
	equal(t, "more is to be given back", more, false)
}

// read takes in records, and fails on an error.
func (l *owner) read(t *testing.T, p *Partition, now int64, rs ...*kgo.Record) {
	t.Helper()
	must(t, p.Expect(rs))
	for _, r := range rs {
		_, err := p.Accept(r, now)
		must(t, err)
	}
	must(t, p.Sync())
	must(t, Check(p))
}

// happened decides parts, one after the other, as turns that were committed.
func (l *owner) happened(parts ...*Part) {
	for _, pt := range parts {
		p := pt.of
		p.turns = max(p.turns-1, 0)
		if len(pt.Items) == 0 {
			p.Wrote(pt)
			continue
		}
		p.Settle(pt)
		if !l.atLeastOnce {
			p.Committed(pt)
		}
	}
}

// req is a request for a target, due at a ms.
func req(offset, due int64, target string) *kgo.Record {
	return samples.Request(testTopic, testID.Partition, offset, testNow, due, target)
}

// control is the marker of a transaction.
func control(offset int64) *kgo.Record {
	return samples.Marker(testTopic, testID.Partition, offset, testNow)
}

// resolving is a resolve record for a request.
func resolving(offset, of, due int64) *kgo.Record {
	return &kgo.Record{Offset: offset, Timestamp: time.UnixMilli(testNow), Headers: topics.Resolve(testMark, of, due, of)}
}

// copyAt is a copy of the record at an offset, as req makes it.
func copyAt(offset, of, due int64) *kgo.Record {
	r := req(of, due, "orders")
	r.Offset = offset
	r.Headers, _ = topics.AppendCopy(nil, r.Headers, testMark, topics.Copy{Seq: of, Due: due, Timestamp: testNow, From: of}, nil)
	return r
}

// offsets are those of the items of a part.
func (pt *Part) offsets() (out []int64) {
	if pt != nil {
		for _, it := range pt.Items {
			out = append(out, it.Offset)
		}
	}
	return out
}

// keysOf lists the offsets of what the store holds above a key, in the order of keys.
func keysOf(t *testing.T, store *state.Partition, above state.Key) (out []int64) {
	t.Helper()
	must(t, store.Scan(above, func(k state.Key, _ []byte) bool { out = append(out, k.Seq); return true }))
	return out
}

func equal[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

func equals[T comparable](t *testing.T, what string, got, want []T) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s are %v, want %v", what, got, want)
	}
}

// goLive takes all steps at the end of a catch-up.
func (w *window) goLive(room Room) error {
	for {
		if live, err := w.Enliven(room); live || err != nil {
			return err
		}
	}
}

package ahead

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/pending"
	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
)

const testNow = int64(1_000_000_000_000) // the time at which tests begin

var (
	testID    = [4]byte{1, 2, 3, 4}
	testMark  = topics.NewMark(testID, "g", 3)
	otherMark = topics.NewMark(testID, "h", 3)
)

// testRoutes are routes of every kind, by the spec of their parser.
var testRoutes = map[string]topics.Route{
	"p1":     {},
	"p1/r":   {OnDuplicate: topics.DuplicateReplaces},
	"p1/i":   {OnDuplicate: topics.DuplicateIgnored, ReplacesLate: true},
	"p1/k":   {Keyed: true},
	"p1/m":   {Remember: 3 * time.Second},
	"p1/kim": {Keyed: true, OnDuplicate: topics.DuplicateIgnored, Remember: 2500 * time.Millisecond, Jitter: 700 * time.Millisecond},
	"p1/kr":  {Keyed: true, OnDuplicate: topics.DuplicateReplaces},
	"jitter": {Jitter: 500 * time.Millisecond, MaxDelay: 5 * time.Second},
	"late":   {ReplacesLate: true, CancelsAnswered: true},
	"fixed":  {Delay: 2 * time.Second},
	"retry":  {Retry: &topics.Retrying{Backoff: topics.Backoff{Initial: time.Second, Factor: 2, Max: time.Minute}, MaxAttempts: 3}},
}

func testRoute(t testing.TB, kind string) *topics.Route {
	t.Helper()
	r, ok := testRoutes[kind]
	if !ok {
		t.Fatalf("no route %s", kind)
	}
	r.Topic, r.DeadLetter, r.Allow = "requests", "requests.dead", []string{"orders"}
	if r.Delay > 0 || r.Retry != nil {
		r.Target = "orders"
	}
	routes, err := topics.NewRoutes(r)
	if err != nil {
		t.Fatal(err)
	}
	return routes[0]
}

// allRoutes are all of them, by name.
func allRoutes(t *testing.T) (names []string, kinds []*topics.Route) {
	t.Helper()
	names = slices.Sorted(maps.Keys(testRoutes))
	for _, name := range names {
		kinds = append(kinds, testRoute(t, name))
	}
	return names, kinds
}

// draw is a random log and checkpoint.
type draw struct {
	*testing.T
	*rand.Rand
	route      *topics.Route
	checkpoint state.Checkpoint
	log        []*kgo.Record
	requests   []topics.Handle // as named in the log; without jitter
	carried    map[int64]bool  // by offset: there is a retry of it
	logStart   int64
}

func (d *draw) show(t *testing.T) {
	t.Helper()
	for _, r := range d.log {
		t.Logf("%d %v %q %v: %s", r.Offset, r.Timestamp.UnixMilli(), r.Key, r.Attrs, r.Headers)
	}
}

func (d *draw) number(from, to int) int { return from + d.IntN(to-from+1) }

func (d *draw) chance(percent int) bool { return d.IntN(100) < percent }

func (d *draw) id() []byte { return []byte{byte('a' + d.number(0, 3))} }

// due is at no whole second, which ends the memory of ids: a name with a wrong due time is not to hit that by chance.
func (d *draw) due() int64 { return testNow + 1000*int64(d.number(-5, 8)) + 137 }

// handle names a record before an offset, mostly rightly.
func (d *draw) handle() topics.Handle {
	if len(d.requests) == 0 || d.chance(10) {
		return topics.Handle{Partition: int32(d.number(2, 3)), Offset: int64(d.number(0, 80)), Due: d.due()}
	}
	h := d.requests[d.number(0, len(d.requests)-1)]
	if d.chance(5) {
		h.Due++
	}
	return h
}

// append adds a record to the log.
func (d *draw) append() {
	offset := int64(len(d.log))
	r := &kgo.Record{Offset: offset, Timestamp: time.UnixMilli(testNow - 3000 + 1000*int64(d.number(0, 4))), Key: []byte("k"), Value: []byte("v")}
	d.log = append(d.log, r)
	header := func(name, value string) {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: name, Value: []byte(value)})
	}
	if d.chance(30) {
		r.Attrs = kgo.NewRecordAttrs(kgo.RecordAttrsOpts{TimestampType: 1})
	}
	request := func() {
		due := d.due()
		d.requests = append(d.requests, topics.Handle{Partition: 3, Offset: offset, Due: due})
		if d.route.Delay == 0 && d.route.Retry == nil || d.chance(10) {
			header(topics.HeaderUntil, strconv.FormatInt(due, 10))
		}
		target := "orders"
		if d.chance(10) {
			target = "bills"
		}
		header(topics.HeaderTargetTopic, target)
		if d.chance(5) { // before it is due, or after
			header(topics.HeaderExpires, strconv.FormatInt(d.due(), 10))
		}
	}
	if d.route.Keyed {
		r.Key = d.id()
	}
	switch d.number(0, 16) {
	default:
		request()
	case 5, 6:
		request()
		if !d.route.Keyed {
			header(topics.HeaderID, string(d.id()))
		}
	case 7:
		header(topics.HeaderCancel, d.handle().String())
	case 8:
		header(topics.HeaderCancel, string(d.id()))
	case 9:
		header(topics.HeaderReplace, d.handle().String())
		request()
	case 10:
		r.Key = d.id()
		header(topics.HeaderReplace, string(r.Key))
		request()
	case 11: // what another partition has passed on
		h := []kgo.RecordHeader{{Key: topics.HeaderCancel, Value: d.id()}}
		if d.chance(30) {
			h[0].Value = []byte(d.handle().String())
		}
		r.Headers, _ = topics.AppendForward(nil, h, testMark, 1, 5, testNow-2000+1000*int64(d.number(0, 3)), nil)
	case 12:
		r.Attrs = kgo.NewRecordAttrs(kgo.RecordAttrsOpts{Transactional: true, Control: true})
	case 13:
		if d.route.Keyed {
			r.Value = nil
		} else {
			header(topics.HeaderUntil, "nonsense")
		}
	case 14:
		d.retry(r)
	case 16:
		if !d.copy(r) {
			request()
		}
	case 15:
		if len(d.requests) > 0 {
			of := d.requests[d.number(0, len(d.requests)-1)]
			m := testMark
			if d.chance(20) {
				m = otherMark
			}
			if of.Offset < offset && of.Offset < d.checkpoint.Offset {
				r.Headers = topics.Resolve(m, of.Offset, of.Due, of.Offset)
				if by := int64(d.number(0, len(d.log))); by > of.Offset && by < offset && d.chance(50) {
					r.Headers = topics.ResolveBy(m, of.Offset, of.Due, of.Offset, by)
				}
				return
			}
		}
		request()
	}
}

// copy makes a record a carried copy of one that is pending or remembered by now, or of the copy that stands for it; false: there is none.
// What is copied of a record that was taken away has a resolve record, in the logs of owners.
func (d *draw) copy(r *kgo.Record) bool {
	p, err := New(Env{Route: d.route, Mark: testMark, Skew: 1000, Now: testNow}, d.checkpoint, int64(len(d.log)))
	if err != nil {
		d.Fatal(err)
	}
	p.LogBegins(d.logStart)
	for _, l := range d.log[min(int(d.checkpoint.LowWater), len(d.log)-1) : len(d.log)-1] {
		p.Accept(l)
	}
	p.Decide()
	var all []int64
	p.each(func(_ int32, e *entry) { all = append(all, e.offset) })
	for offset := int64(0); offset < d.checkpoint.GivenUp && r.Offset >= d.checkpoint.Offset; offset++ {
		if _, _, is := testMark.Copied(d.log[offset].Headers, offset); !is && !d.carried[offset] && d.chance(20) {
			all = append(all, offset)
		}
	}
	if len(all) == 0 {
		return false
	}
	of := d.log[all[d.number(0, len(all)-1)]]
	written, c, is := testMark.Copied(of.Headers, of.Offset)
	if !is {
		parser, err := d.route.ParserFor(d.spec(of.Offset))
		if err != nil {
			d.Fatal(err)
		}
		req, err := parser.Parse(of.Headers, topics.StampOf(of), of.Offset, testMark)
		if err != nil || req.Kind != topics.KindRequest {
			return false
		}
		c = topics.Copy{Seq: of.Offset, Due: req.Due, Timestamp: of.Timestamp.UnixMilli()}
	}
	c.From = of.Offset
	d.carried[of.Offset] = true
	m := testMark
	if d.chance(10) {
		m = otherMark
	}
	r.Key, r.Value = of.Key, of.Value
	r.Headers, _ = topics.AppendCopy(nil, written, m, c, nil)
	return true
}

// spec is that of the parser which holds at an offset.
func (d *draw) spec(offset int64) string {
	c := d.checkpoint
	c.Parsers = pending.ParsersOfToday(c, d.route.Spec(), int64(len(d.log)))
	for _, e := range slices.Backward(c.Parsers) {
		if offset >= e.From {
			return e.Spec
		}
	}
	return c.Parsers[0].Spec
}

// retry makes a record one that was carried on: its origin is resolved.
func (d *draw) retry(r *kgo.Record) {
	header := []kgo.RecordHeader{{Key: topics.HeaderTargetTopic, Value: []byte("orders")}, {Key: topics.HeaderUntil, Value: []byte(strconv.FormatInt(d.due(), 10))}}
	for _, h := range d.requests {
		if h.Offset < d.checkpoint.LowWater && !d.carried[h.Offset] {
			again := topics.Retry{Due: d.due(), Attempt: 1, Origin: topics.Origin{Offset: h.Offset, Timestamp: testNow, Due: h.Due}}
			m := testMark
			if d.chance(20) {
				m = otherMark
			}
			d.carried[h.Offset] = true
			r.Headers, _ = topics.AppendRetry(nil, header, m, again, nil)
			return
		}
	}
	r.Headers = header
}

func drawn(t *testing.T, seed uint64, n int, route *topics.Route, kinds []*topics.Route) *draw {
	d := &draw{T: t, Rand: rand.New(rand.NewPCG(seed, 0)), route: route, carried: map[int64]bool{}}
	c := &d.checkpoint
	c.TopicID = testID
	c.Offset = int64(d.number(0, n))
	if c.LowWater = c.Offset; d.chance(80) {
		c.LowWater = int64(d.number(0, int(c.Offset)))
	}
	d.logStart = int64(d.number(0, int(c.LowWater)))
	if d.chance(70) {
		c.Watermark = state.Key{Due: d.due(), Seq: int64(d.number(0, n+5))}
	}
	c.Appended = true
	if d.chance(20) { // a person has reset it, or has gone on although the log has lost something
		c.GivenUp = c.LowWater
		d.logStart = c.GivenUp
	}
	if d.chance(10) {
		*c, d.logStart = state.Checkpoint{TopicID: testID}, 0
		return d.records(n)
	}
	last := int64(-1)
	for range d.number(0, 3) {
		from := last + 1 + int64(d.number(0, 10))
		if from > c.Offset {
			break
		}
		c.Parsers = append(c.Parsers, state.ParserEpoch{From: from, Spec: kinds[d.number(0, len(kinds)-1)].Spec()})
		last = from
	}
	return d.records(n)
}

func (d *draw) records(n int) *draw {
	for range n {
		d.append()
	}
	return d
}

// owned is what an owner makes of it all that begins now.
type owned struct {
	waits   []string       // <first offset>@<due> of what it delivers, late or in time
	seqs    map[int64]bool // the first offsets of these
	refused map[int64]topics.Code
	ignored map[int64]bool  // left out as duplicates
	taken   map[int64]taker // late ones, by their first offset; what is known of others is in the audit topic
}

// taker is what has taken a record away.
type taker struct {
	by       int64
	replaces bool
}

func (d *draw) machine() (o owned) {
	o = owned{seqs: map[int64]bool{}, refused: map[int64]topics.Code{}, ignored: map[int64]bool{}, taken: map[int64]taker{}}
	env := pending.Env{Route: d.route, Mark: testMark, Skew: 1000}
	c, high := d.checkpoint, int64(len(d.log))
	c.Parsers = pending.ParsersOfToday(c, d.route.Spec(), high)
	p, err := pending.New(env, c, pending.Sighting{End: high, At: testNow})
	if err != nil {
		d.Fatal(err)
	}
	p.Trust(testNow + 1<<40)
	room := pending.Room{Window: 1 << 40, Most: 1 << 40, Budget: 1 << 30, Share: 1 << 30}
	for _, r := range d.log[c.LowWater:] {
		if _, err := p.Accept(r, testNow); err != nil {
			d.Fatal(err)
		}
	}
	err = p.Sync()
	for live := false; err == nil && !live; {
		live, err = p.Enliven(room)
	}
	for _, err := range []error{err, p.Load(testNow, room), pending.Check(p)} {
		if err != nil {
			d.Fatal(err)
		}
	}
	for {
		pt := p.Take(testNow+1<<39, nil, 1000, 1<<30)
		if pt == nil {
			return o
		}
		for i := range pt.Items {
			o.takes(&pt.Items[i])
		}
		p.Settle(pt)
		p.Committed(pt)
	}
}

// takes notes what an owner does with one record.
func (o *owned) takes(it *pending.Item) {
	switch {
	case it.Refusal != nil:
		o.refused[it.Offset] = it.Refusal.Code
	case it.By > 0:
		o.taken[it.Key.Seq] = taker{it.By, it.Replaced}
	case it.Effect == pending.EffectIgnored:
		o.ignored[it.Offset] = true
	case it.Effect != pending.EffectNone:
	default:
		o.waits = append(o.waits, fmt.Sprintf("%d@%d", it.Key.Seq, it.Key.Due))
		o.seqs[it.Key.Seq] = true
	}
}

// fold is the same by this package.
func (d *draw) fold() (waits []string, refused int) {
	p, err := New(Env{Route: d.route, Mark: testMark, Skew: 1000, Now: testNow}, d.checkpoint, int64(len(d.log)))
	if err != nil {
		d.Fatal(err)
	}
	p.LogBegins(d.logStart)
	for _, r := range d.log[d.checkpoint.LowWater:] {
		p.Accept(r)
	}
	p.Decide()
	for w := range p.All() {
		waits = append(waits, fmt.Sprintf("%d@%d", w.Offset, w.Key))
	}
	return waits, p.Refused()
}

func byOffset(a, b string) int {
	first, _, _ := strings.Cut(a, "@")
	second, _, _ := strings.Cut(b, "@")
	x, _ := strconv.Atoi(first)
	y, _ := strconv.Atoi(second)
	return x - y
}

// What is pending is what an owner would make of the same checkpoint and log, whatever those are.
func TestAsAnOwnerSeesIt(t *testing.T) {
	names, kinds := allRoutes(t)
	for i, name := range names {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var some, refusals int
			for n := range 3000 { // the shortest logs first
				d := drawn(t, uint64(n), 1+n/50, kinds[i], kinds)
				owner := d.machine()
				want, refused := owner.waits, owner.refused
				got, dead := d.fold()
				slices.SortFunc(want, byOffset)
				slices.SortFunc(got, byOffset)
				if !slices.Equal(got, want) || dead != len(refused) {
					d.show(t)
					t.Fatalf("checkpoint %+v, %d records\npending are %v, refused %d;\nan owner has %v, refused %v", d.checkpoint, len(d.log), got, dead, want, refused)
				}
				some, refusals = some+len(got), refusals+dead
			}
			if some == 0 || refusals == 0 {
				t.Errorf("%d records were pending and %d refused: the logs show nothing", some, refusals)
			}
		})
	}
}

package check

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// trip is a record that a consumer has failed to process for the second time, and what a retry route makes of it.
type trip struct {
	w      *world
	failed *kgo.Record
	more   []*kgo.Record // that the processor has written to the retry topic, and what came of all
}

// again is when it is due: two seconds after it came.
var again = now.Add(2 * time.Second)

func newTrip(byBroker bool, change func(*Route)) *trip {
	w := newWorld()
	r := &w.config.Routes[0]
	r.Retry = &Retry{Initial: time.Second, Factor: 2, Max: time.Minute, MaxAttempts: 3, Parking: "parked", FromHeaders: true, Strip: []string{"__connect.errors.*"}}
	if change != nil {
		change(r)
	}
	tr := &trip{w: w, failed: w.request("k", "v", "trace=1", "__connect.errors.topic=orders", "delay-until=soon", "delay-attempt=1")}
	if byBroker {
		tr.failed.Attrs = kgo.NewRecordAttrs(kgo.RecordAttrsOpts{TimestampType: 1})
	}
	return tr
}

// deliver has the record delivered as due at some time, for the so manieth time.
func (tr *trip) deliver(due time.Time, attempt string) *kgo.Record {
	r := tr.w.deliver(tr.failed, due)
	drop(r, "__connect.errors.topic")
	if attempt != "" {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: "delay-attempt", Value: []byte(attempt)})
	}
	tr.more = append(tr.more, r)
	return r
}

// condemn has it dead-lettered at some time.
func (tr *trip) condemn(code, topic string, at time.Time) {
	r := tr.w.condemn(tr.failed, code)
	r.Topic, r.Timestamp = topic, at
	tr.more = append(tr.more, r)
}

// putOff has the processor read it at some time, and say when it is due.
func (tr *trip) putOff(at, due time.Time) {
	r := &kgo.Record{Topic: "requests", Partition: 1, Key: tr.failed.Key, Value: tr.failed.Value, Timestamp: at}
	r.Headers = append(append(r.Headers, tr.failed.Headers...), parse([]string{
		fmt.Sprintf("delay-retry=abcdef01:g:1:%d:%s:%s:0:%s", tr.failed.Offset, millis(now), millis(due), millis(due)),
	})...)
	tr.more = append(tr.more, tr.w.append(r))
}

// A record of a retry route is delivered again when its pause is over, and with the number of that delivery, or is parked; whatever is read
// first.
func TestRetrying(t *testing.T) {
	const known, unknown = true, false
	after := func(d time.Duration) time.Time { return again.Add(d) }
	attempts := func(n string) func(*trip) { return func(tr *trip) { set(tr.failed, "delay-attempt", n) } }
	expires := func(r *Route) { r.ExpireAfter = time.Second }
	for _, tt := range []struct {
		name   string
		known  bool
		change func(*Route)
		does   func(tr *trip)
		want   map[Kind]int64
		detail string
	}{
		{"it is delivered again", known, nil, func(tr *trip) { tr.deliver(again, "2") }, nil, ""},
		{"it is lost", known, nil, func(tr *trip) {}, map[Kind]int64{Missing: 1}, "delivered to orders"},
		{"it is doubled", known, nil, func(tr *trip) { tr.deliver(again, "2"); tr.deliver(again, "2") }, map[Kind]int64{Doubled: 1}, "seen 2 times"},
		{"the pause is cut short", known, nil, func(tr *trip) { tr.deliver(again, "2").Timestamp = after(-time.Millisecond) }, map[Kind]int64{Early: 1}, "before due"},
		{"the pause is too long", known, nil, func(tr *trip) { tr.deliver(after(time.Millisecond), "2") }, map[Kind]int64{Altered: 1}, "due "},
		{"the attempt is not counted", known, nil, func(tr *trip) { tr.deliver(again, "1") }, map[Kind]int64{Altered: 1}, "delay-attempt says 1, not 2"},
		{"the attempt is forgotten", known, nil, func(tr *trip) { tr.deliver(again, "") }, map[Kind]int64{Altered: 1}, "has no delay-attempt, which should say 2"},
		{"the attempt is no number", known, nil, func(tr *trip) { tr.deliver(again, "two") }, map[Kind]int64{Altered: 2}, "two"},
		{"what should be stripped is left", known, nil, func(tr *trip) {
			r := tr.deliver(again, "2")
			r.Headers = append(parse([]string{"__connect.errors.topic=orders"}), r.Headers...)
		}, map[Kind]int64{Altered: 1}, "headers"},
		{"it is parked too soon", known, nil, func(tr *trip) { tr.condemn("attempts_exhausted", "parked", again) }, map[Kind]int64{GoodDeadLettered: 1}, "attempts_exhausted"},
		{"it was delivered too often, and is parked", known, nil, func(tr *trip) { attempts("3")(tr); tr.condemn("attempts_exhausted", "parked", now) }, nil, ""},
		{"it was delivered too often, and is again", known, nil, func(tr *trip) { attempts("3")(tr); tr.deliver(now.Add(8*time.Second), "4") }, map[Kind]int64{BadDelivered: 1, Early: 0}, "attempts_exhausted"},
		{"it was delivered too often, and is not parked", known, nil, func(tr *trip) { attempts("3")(tr) }, map[Kind]int64{Missing: 1}, "dead-lettered: attempts_exhausted"},
		{"it is parked among dead letters", known, nil, func(tr *trip) { attempts("3")(tr); tr.condemn("attempts_exhausted", "requests.dead", now) }, map[Kind]int64{Altered: 1}, "not parked"},
		{"a dead letter is parked", known, nil, func(tr *trip) { attempts("often")(tr); tr.condemn("invalid_attempt", "parked", now) }, map[Kind]int64{Altered: 1}, "not requests.dead"},
		{"its attempt cannot be read", known, nil, func(tr *trip) { attempts("often")(tr); tr.condemn("invalid_attempt", "requests.dead", now) }, nil, ""},
		{"it has expired", known, expires, func(tr *trip) { tr.condemn("expired", "requests.dead", after(1001*time.Millisecond)) }, nil, ""},
		{"it has expired too soon", known, expires, func(tr *trip) { tr.condemn("expired", "requests.dead", after(time.Second)) }, map[Kind]int64{GoodDeadLettered: 1}, "as expired at"},
		{"it has expired, and is delivered", known, expires, func(tr *trip) { tr.deliver(again, "2").Timestamp = after(1001 * time.Millisecond) }, map[Kind]int64{BadDelivered: 1}, "was delivered at"},
		{"it was put off although it is known when it came", known, nil, func(tr *trip) { tr.putOff(now, again); tr.deliver(again, "2") }, map[Kind]int64{Altered: 1}, "although it is known"},

		{"it is put off, and delivered", unknown, nil, func(tr *trip) { tr.putOff(now.Add(5), again.Add(5)); tr.deliver(again.Add(5), "2") }, nil, ""},
		{"it is not put off", unknown, nil, func(tr *trip) { tr.deliver(again, "2") }, map[Kind]int64{Early: 1}, "was not put off"},
		{"it is put off for too short a time", unknown, nil, func(tr *trip) { tr.putOff(now.Add(5e6), again); tr.deliver(again, "2") }, map[Kind]int64{Altered: 1}, "the pause after 2 deliveries is 2000 ms"},
		{"it is put off before it came", unknown, nil, func(tr *trip) { tr.putOff(now.Add(-5e6), again.Add(-5e6)); tr.deliver(again.Add(-5e6), "2") }, map[Kind]int64{Early: 1}, "and came at"},
		{"it is put off twice", unknown, nil, func(tr *trip) { tr.putOff(now, again); tr.putOff(now, again); tr.deliver(again, "2") }, map[Kind]int64{Doubled: 1}, "put off 2 times"},
		{"it is delivered at another time", unknown, nil, func(tr *trip) { tr.putOff(now, again); tr.deliver(again.Add(5e6), "2") }, map[Kind]int64{Early: 1}, "was not put off"},
		{"it is delivered before it is due", unknown, nil, func(tr *trip) { tr.putOff(now, again); tr.deliver(again, "2").Timestamp = again.Add(-1e6) }, map[Kind]int64{Early: 1}, "written at"},
		{"it is put off, and lost", unknown, nil, func(tr *trip) { tr.putOff(now, again) }, map[Kind]int64{Missing: 1}, "delivered to orders"},
		{"it is put off, and has expired", unknown, expires, func(tr *trip) { tr.putOff(now, again); tr.condemn("expired", "requests.dead", again.Add(1001e6)) }, nil, ""},
		{"it is put off, and has expired too soon", unknown, expires, func(tr *trip) { tr.putOff(now, again); tr.condemn("expired", "requests.dead", again.Add(1e9)) }, map[Kind]int64{GoodDeadLettered: 1}, "as expired at"},
		{"it is put off, has expired, and is delivered", unknown, expires, func(tr *trip) { tr.putOff(now, again); tr.deliver(again, "2").Timestamp = again.Add(1001e6) }, map[Kind]int64{BadDelivered: 1}, "was delivered at"},
	} {
		for seed := range uint64(6) {
			t.Run(fmt.Sprintf("%s/%d", tt.name, seed), func(t *testing.T) {
				tr := newTrip(tt.known, tt.change)
				tt.does(tr)
				c := newChecker(t, tr.w.config)
				feed(c, shuffled(seed, append([]*kgo.Record{tr.failed}, tr.more...))...)
				expectFaults(t, c, tt.want, tt.detail)
			})
		}
	}
}

// shuffled mixes records of topics that are read in any order; those of the delay topic stay in theirs.
func shuffled(seed uint64, all []*kgo.Record) (mixed []*kgo.Record) {
	var read [2][]*kgo.Record
	for _, r := range all {
		which := 0
		if r.Topic != "requests" {
			which = 1
		}
		read[which] = append(read[which], r)
	}
	for rng := rand.New(rand.NewPCG(seed, 0)); len(read[0])+len(read[1]) > 0; {
		if which := rng.IntN(2); len(read[which]) > 0 {
			mixed, read[which] = append(mixed, read[which][0]), read[which][1:]
		}
	}
	return mixed
}

// A request with delay-expires is dead-lettered when that time has passed, and not before.
func TestExpiry(t *testing.T) {
	until := due.Add(time.Second)
	for _, tt := range []struct {
		name string
		does func(o *outcome) *kgo.Record
		want map[Kind]int64
	}{
		{"delivered in time", func(o *outcome) *kgo.Record { return at(o.w.deliver(o.good, due), until) }, nil},
		{"delivered too late", func(o *outcome) *kgo.Record { return at(o.w.deliver(o.good, due), until.Add(time.Millisecond)) }, map[Kind]int64{BadDelivered: 1}},
		{"expired", func(o *outcome) *kgo.Record { return at(o.w.condemn(o.good, "expired"), until.Add(time.Millisecond)) }, nil},
		{"expired too soon", func(o *outcome) *kgo.Record { return at(o.w.condemn(o.good, "expired"), until) }, map[Kind]int64{GoodDeadLettered: 1}},
	} {
		for seed := range uint64(4) {
			t.Run(fmt.Sprintf("%s/%d", tt.name, seed), func(t *testing.T) {
				o := &outcome{w: newWorld()}
				o.good = o.w.request("k", "v", "delay-until="+millis(due), "delay-target-topic=orders", "delay-expires="+millis(until))
				c := newChecker(t, o.w.config)
				for _, r := range shuffled(seed, []*kgo.Record{o.good, tt.does(o)}) {
					c.Observe(r, until.Add(time.Second))
				}
				expectFaults(t, c, tt.want, "")
			})
		}
	}
}

func at(r *kgo.Record, written time.Time) *kgo.Record {
	r.Timestamp = written
	return r
}

// The jitter of a route is added to what is asked for, exactly, and a handle does not have it.
func TestJitter(t *testing.T) {
	for seed := range uint64(8) {
		w := newWorld()
		w.config.Routes[0].Jitter, w.config.Routes[0].CancelsAnswered = 5*time.Second, true
		rt := &route{Route: w.config.Routes[0]}
		var all []*kgo.Record
		ask := func() (*kgo.Record, time.Time) {
			r := w.request("k", "v", "delay-until="+millis(due), "delay-target-topic=orders")
			all = append(all, r)
			return r, due.Add(time.Duration(rt.jitter(1, r.Offset)) * time.Millisecond)
		}
		spread := map[time.Time]bool{}
		for range 20 {
			r, at := ask()
			all, spread[at] = append(all, w.deliver(r, at)), true
		}
		none, at := ask()
		wrong := w.deliver(none, at)
		set(wrong, "delay-due", millis(due))
		cancelled, _ := ask()
		all = append(all, wrong, w.request("", "", fmt.Sprintf("delay-cancel=1-%d-%s", cancelled.Offset, millis(due))))
		c := newChecker(t, w.config)
		for _, r := range shuffled(seed, all) {
			c.Observe(r, due.Add(10*time.Second))
		}
		if len(spread) < 15 || at.Equal(due) {
			t.Fatalf("%d due times, and %v", len(spread), at)
		}
		expectFaults(t, c, map[Kind]int64{Altered: 1}, "due "+millis(due)+", not "+millis(at))
	}
}

// What waits to be tried again has a handle of its own, which does not have the jitter of its place.
func TestJitterOfARetry(t *testing.T) {
	for _, beside := range []int64{0, 1} {
		w := newWorld()
		w.config.Routes[0].Jitter, w.config.Routes[0].CancelsAnswered = time.Hour, true
		rt := &route{Route: w.config.Routes[0]}
		q := w.request("k", "v", "delay-until="+millis(due), "delay-target-topic=orders")
		again := w.retry(q, due.Add(time.Duration(rt.jitter(1, q.Offset))*time.Millisecond), due.Add(2*time.Hour))
		asked := due.Add(2*time.Hour).UnixMilli() - rt.jitter(1, again.Offset) + beside
		cancel := w.request("", "", fmt.Sprintf("delay-cancel=1-%d-%d", again.Offset, asked))
		c := newChecker(t, w.config)
		for _, r := range []*kgo.Record{q, again, cancel} {
			c.Observe(r, due.Add(10*time.Hour))
		}
		if n := c.Report().Count(Missing); n != 2*beside { // the cancel was answered as little as the request
			t.Errorf("%d ms beside it %d are missing", beside, n)
		}
	}
}

// A pause grows up to the longest, and is spread by as much as was said.
func TestPause(t *testing.T) {
	short := Retry{Initial: time.Millisecond, Factor: 1.5, Max: time.Hour}
	if got := short.pause(3, 7); got != 4 { // 1.5 in whole milliseconds is no more than 1, and it grows all the same
		t.Errorf("a pause of a millisecond becomes one of %d", got)
	}
	r := Retry{Initial: 10 * time.Second, Factor: 2, Max: time.Hour}
	for rounds, want := range []int64{10_000, 20_000, 40_000, 80_000, 160_000, 320_000, 640_000, 1_280_000, 2_560_000, 3_600_000, 3_600_000} {
		if got := r.pause(int64(rounds), 7); got != want {
			t.Errorf("after %d: %d, not %d", rounds, got, want)
		}
	}
	r.Jitter = 0.2
	least, most := int64(1<<60), int64(0)
	for offset := range int64(10_000) {
		least, most = min(least, r.pause(0, offset)), max(most, r.pause(0, offset))
	}
	if least < 8000 || least > 8010 || most > 12_000 || most < 11_990 {
		t.Errorf("%d to %d", least, most)
	}
}

// A survey reads targets after delay topics, so what has put a record off may lie beyond what it has read: that is no fault until it has been
// looked for there.
func TestPutOffBeyondWhatWasRead(t *testing.T) {
	for _, put := range []bool{true, false} {
		tr := newTrip(false, nil)
		c := newSurveying(t, tr.w)
		c.Requested(tr.failed)
		var beyond *kgo.Record
		if put {
			tr.putOff(now, again)
			beyond = tr.more[0]
		}
		c.Delivered(tr.deliver(again, "2"), again)
		faultUnlessBeyond(t, c, Early, beyond)
	}
}

// So may what has carried it on, because its target was in trouble.
func TestCarriedOnBeyondWhatWasRead(t *testing.T) {
	for _, carried := range []bool{true, false} {
		w := newWorld()
		c := newSurveying(t, w)
		q := w.request("k", "v", "delay-until="+millis(due), "delay-target-topic=orders")
		c.Requested(q)
		var beyond *kgo.Record
		if carried {
			beyond = w.retry(q, due, due.Add(time.Second))
		}
		d := w.deliver(q, due)
		d.Headers = append(d.Headers, kgo.RecordHeader{Key: "delay-tries", Value: []byte("1")})
		c.Delivered(d, due.Add(time.Minute))
		faultUnlessBeyond(t, c, Altered, beyond)
	}
}

// newSurveying is a checker of topics that others have made.
func newSurveying(t *testing.T, w *world) *Checker {
	w.config.Survey = knows{}
	c := newChecker(t, w.config)
	c.Window("requests", 1, 0, math.MaxInt64)
	return c
}

// faultUnlessBeyond reads on to the end of the delay topic, where a record lies, or nothing: then the one that was delivered is a fault.
func faultUnlessBeyond(t *testing.T, c *Checker, k Kind, beyond *kgo.Record) {
	t.Helper()
	const end = 2 * pageSlots
	c.Reached("requests", 1, pageSlots) // so that it may be forgotten
	for _, pass := range []string{"the end is not known", "the end is not read"} {
		c.Forget()
		if r := c.Report(); r.Count(k) != 0 {
			t.Errorf("%s: %v", pass, r)
		}
		c.Ended("requests", 1, end, 0)
	}
	want := int64(1)
	if beyond != nil {
		c.Requested(beyond)
		want = 0
	}
	c.Reached("requests", 1, end)
	c.Forget()
	if r := c.Report(); r.Count(k) != want || r.Delivered != 1 {
		t.Errorf("%v beyond what was read: %v", beyond, r)
	}
}

package check

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// due is when the good request of a case is due.
var due = now.Add(time.Minute)

// outcome is what a case makes of one good and one bad request.
type outcome struct {
	w         *world
	good, bad *kgo.Record   // requests
	more      []*kgo.Record // further requests
	arrivals  []*kgo.Record
}

func honest() *outcome {
	o := &outcome{w: newWorld()}
	o.good = o.w.request("k", "v", "trace=1", "delay-until="+millis(due), "delay-target-topic=orders", "trace=2")
	o.bad = o.w.request("k", "v", "delay-until=soon", "delay-target-topic=orders", "trace=3")
	o.arrivals = []*kgo.Record{o.w.deliver(o.good, due), o.w.condemn(o.bad, "unparsable_due")}
	return o
}

// cases break each promise in turn.
var cases = []struct {
	name   string
	spoil  func(o *outcome)
	want   map[Kind]int64
	detail string
}{
	{name: "an honest processor", spoil: func(o *outcome) {}},
	{"a good request is not seen", func(o *outcome) { o.arrivals = o.arrivals[1:] }, map[Kind]int64{Missing: 1}, "delivered to orders"},
	{"a bad request is not seen", func(o *outcome) { o.arrivals = o.arrivals[:1] }, map[Kind]int64{Missing: 1}, "dead-lettered"},
	{"delivered twice", func(o *outcome) { o.arrivals = append(o.arrivals, o.w.deliver(o.good, due)) }, map[Kind]int64{Doubled: 1}, "seen 2 times"},
	{"dead-lettered twice", func(o *outcome) { o.arrivals = append(o.arrivals, o.w.condemn(o.bad, "unparsable_due")) }, map[Kind]int64{Doubled: 1}, "requests.dead/0@1"},
	{"fired early", func(o *outcome) { set(o.arrivals[0], "delay-fired", millis(due.Add(-time.Millisecond))) }, map[Kind]int64{Early: 1}, "fired"},
	{"written early", func(o *outcome) { o.arrivals[0].Timestamp = due.Add(-time.Millisecond) }, map[Kind]int64{Early: 1}, "written"},
	{"fired after it was seen", func(o *outcome) { set(o.arrivals[0], "delay-fired", millis(due.AddDate(100, 0, 0))) }, map[Kind]int64{Ahead: 1}, "fired"},
	{"written after it was seen", func(o *outcome) { o.arrivals[0].Timestamp = due.AddDate(100, 0, 0) }, map[Kind]int64{Ahead: 1}, "written"},
	{"attempts without a retry", func(o *outcome) {
		o.arrivals[0].Headers = append(o.arrivals[0].Headers, kgo.RecordHeader{Key: "delay-tries", Value: []byte("1")})
	}, map[Kind]int64{Altered: 1}, "delay-tries says 1, and its last retry record 0"},
	{"the key", func(o *outcome) { o.arrivals[0].Key = []byte("K") }, map[Kind]int64{Altered: 1}, "key"},
	{"a null key", func(o *outcome) { o.arrivals[0].Key = nil }, map[Kind]int64{Altered: 1}, "key"},
	{"the value", func(o *outcome) { o.arrivals[0].Value = []byte("v ") }, map[Kind]int64{Altered: 1}, "value"},
	{"a header's value", func(o *outcome) { o.arrivals[0].Headers[0].Value = []byte("0") }, map[Kind]int64{Altered: 1}, "headers"},
	{"a header is gone", func(o *outcome) { drop(o.arrivals[0], "trace") }, map[Kind]int64{Altered: 1}, "headers"},
	{"the order of headers", func(o *outcome) {
		h := o.arrivals[0].Headers
		h[0], h[1] = h[1], h[0]
	}, map[Kind]int64{Altered: 1}, "headers"},
	{"a header is new", func(o *outcome) {
		o.arrivals[0].Headers = append(o.arrivals[0].Headers, kgo.RecordHeader{Key: "x"})
	}, map[Kind]int64{Altered: 1}, "headers"},
	{"a request header is left", func(o *outcome) {
		o.arrivals[0].Headers = append(o.arrivals[0].Headers, o.good.Headers[1])
	}, map[Kind]int64{Altered: 1}, "delay-until was delivered"},
	{"an emitted header is gone", func(o *outcome) { drop(o.arrivals[0], "delay-fired") }, map[Kind]int64{Altered: 1}, "absent"},
	{"an emitted header is no number", func(o *outcome) { set(o.arrivals[0], "delay-fired", "soon") }, map[Kind]int64{Altered: 1}, "delay-fired"},
	{"another due time", func(o *outcome) { set(o.arrivals[0], "delay-due", millis(due.Add(-1e9))) }, map[Kind]int64{Altered: 1}, "due"},
	{"the due time is gone", func(o *outcome) { drop(o.arrivals[0], "delay-due") }, map[Kind]int64{Altered: 1}, "delay-due is absent"},
	{"the due time is no number", func(o *outcome) { set(o.arrivals[0], "delay-due", "soon") }, map[Kind]int64{Altered: 1}, `delay-due is "soon"`},
	{"another timestamp", func(o *outcome) { set(o.arrivals[0], "delay-source-timestamp", "7") }, map[Kind]int64{Altered: 1}, "timestamp"},
	{"another target", func(o *outcome) { o.arrivals[0].Topic = "bills.de"; o.arrivals[0].Partition = 1 }, map[Kind]int64{Altered: 1}, "target bills.de, not orders"},
	{"a dead letter's value", func(o *outcome) { o.arrivals[1].Value = nil }, map[Kind]int64{Altered: 1}, "value"},
	{"a dead letter's headers", func(o *outcome) { drop(o.arrivals[1], "trace") }, map[Kind]int64{Altered: 1}, "headers"},
	{"a dead letter's code", func(o *outcome) { set(o.arrivals[1], errorPrefix+"code", "no_target") }, map[Kind]int64{Altered: 1}, "code no_target"},
	{"a dead letter without a reason", func(o *outcome) { drop(o.arrivals[1], errorPrefix+"message") }, map[Kind]int64{Altered: 1}, "message is absent"},
	{"the good one is dead-lettered", func(o *outcome) { o.arrivals[0] = o.w.condemn(o.good, "unknown_target") }, map[Kind]int64{GoodDeadLettered: 1}, "unknown_target"},
	{"the bad one is delivered", func(o *outcome) { o.arrivals[1] = o.w.deliver(o.bad, due) }, map[Kind]int64{BadDelivered: 1}, "unparsable_due"},
	{"delivered and dead-lettered", func(o *outcome) {
		o.arrivals = append(o.arrivals, o.w.condemn(o.good, "too_large"))
	}, map[Kind]int64{Doubled: 1, GoodDeadLettered: 1}, ""},
	{"dead-lettered and then delivered", func(o *outcome) {
		o.arrivals = append([]*kgo.Record{o.w.condemn(o.good, "too_large")}, o.arrivals...)
	}, map[Kind]int64{Doubled: 1, GoodDeadLettered: 1}, ""},
	{"the bad one is dead-lettered and then delivered", func(o *outcome) {
		o.arrivals = append(o.arrivals, o.w.deliver(o.bad, due))
	}, map[Kind]int64{Doubled: 1, BadDelivered: 1}, "unparsable_due"},
	{"an aborted request is delivered", func(o *outcome) {
		aborted := o.w.request("k", "v", "delay-until="+millis(due), "delay-target-topic=orders")
		o.arrivals = append(o.arrivals, o.w.deliver(aborted, due))
	}, map[Kind]int64{Stray: 1}, "no committed request"},
	{"without provenance", func(o *outcome) { drop(o.arrivals[0], "delay-source") }, map[Kind]int64{Stray: 1, Missing: 1}, "names no request"},
	{"of an unknown topic", func(o *outcome) { set(o.arrivals[0], "delay-source", "x/0/0") }, map[Kind]int64{Stray: 1, Missing: 1}, "names no request"},
}

// TestChecker looks for the fault of each case and no other, whichever topic is read first.
func TestChecker(t *testing.T) {
	for _, tt := range cases {
		for _, first := range []string{"requests", "arrivals"} {
			t.Run(tt.name+"/"+first+" first", func(t *testing.T) {
				o := honest()
				tt.spoil(o)
				c := newChecker(t, o.w.config)
				read := [][]*kgo.Record{{o.good, o.bad}, o.arrivals}
				if first == "arrivals" {
					read[0], read[1] = read[1], read[0]
				}
				for _, records := range read {
					feed(c, records...)
				}
				expectFaults(t, c, tt.want, tt.detail)
			})
		}
	}
}

func newChecker(t *testing.T, config Config) *Checker {
	t.Helper()
	c, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// feed observes records, a minute and a second after now.
func feed(c *Checker, records ...*kgo.Record) {
	for _, r := range records {
		c.Observe(r, now.Add(61*time.Second))
	}
}

func expectFaults(t *testing.T, c *Checker, want map[Kind]int64, detail string) {
	t.Helper()
	r := c.Report()
	for _, k := range Kinds() {
		if r.Count(k) != want[k] {
			t.Errorf("%s: %d, want %d", k, r.Count(k), want[k])
		}
	}
	if (r.Err() != nil) != (len(want) > 0) {
		t.Errorf("Err() = %v", r.Err())
	}
	if !strings.Contains(r.String(), detail) {
		t.Errorf("the report does not say %q", detail)
	}
	if t.Failed() {
		t.Log(r)
	}
}

// TestSeenEarly: the clock of the consumer that saw a record counts as well, less the skew that is granted.
func TestSeenEarly(t *testing.T) {
	for skew, want := range map[time.Duration]map[Kind]int64{0: {Early: 1}, 5 * time.Millisecond: nil} {
		o := honest()
		o.w.config.Skew = skew
		o.arrivals[0].Timestamp = due
		set(o.arrivals[0], "delay-fired", millis(due))
		c := newChecker(t, o.w.config)
		feed(c, o.good, o.bad, o.arrivals[1])
		c.Delivered(o.arrivals[0], due.Add(-5*time.Millisecond))
		expectFaults(t, c, want, "")
	}
}

// TestOrder: what was requested first is delivered first, for one source partition, key, target and due time; not beyond.
func TestOrder(t *testing.T) {
	for _, tt := range []struct {
		name string
		key  [2]string
		due  [2]time.Time
		want map[Kind]int64
	}{
		{"same key and due time", [2]string{"a", "a"}, [2]time.Time{due, due}, map[Kind]int64{Disordered: 1}},
		{"another key", [2]string{"a", "b"}, [2]time.Time{due, due}, nil},
		{"another due time", [2]string{"a", "a"}, [2]time.Time{due, due.Add(-time.Millisecond)}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld()
			c := newChecker(t, w.config)
			var q [2]*kgo.Record
			for i := range q {
				q[i] = w.request(tt.key[i], "v", "delay-until="+millis(tt.due[i]), "delay-target-topic=orders")
			}
			feed(c, q[0], q[1], w.deliver(q[1], tt.due[1]), w.deliver(q[0], tt.due[0]))
			expectFaults(t, c, tt.want, "")
		})
	}
}

// TestRetryAgain: what may be doubled may be put off again after it has arrived, which says nothing of the order in which it did.
func TestRetryAgain(t *testing.T) {
	for _, doubles := range []bool{true, false} {
		w := newWorld()
		w.config.AllowDoubles = doubles
		headers := []string{"delay-until=" + millis(due), "delay-target-topic=orders"}
		var requests, deliveries, retries []*kgo.Record
		for range 2 {
			requests = append(requests, w.request("k", "v", headers...))
		}
		for i, r := range requests {
			retries = append(retries, w.retry(r, due, due.Add(time.Duration(2-i)*time.Second)))
		}
		for _, r := range requests { // after a crash, and both for the same time
			retries = append(retries, w.retry(r, due, due.Add(3*time.Second)))
		}
		for i := range requests { // the second one first, as its first retry record says
			d := w.deliver(requests[1-i], due)
			d.Timestamp = due.Add(time.Duration(i+1) * 100 * time.Millisecond)
			d.Headers = append(d.Headers, kgo.RecordHeader{Key: "delay-tries", Value: []byte("1")})
			deliveries = append(deliveries, d)
		}
		c := newChecker(t, w.config)
		feed(c, append(append(requests, retries...), deliveries...)...)
		want := map[Kind]int64{Disordered: 1}
		if doubles {
			want = nil
		}
		expectFaults(t, c, want, "")
	}
}

// TestRetry: a retry record asks for nothing of its own; its origin is delivered, and ordered by the retry.
func TestRetry(t *testing.T) {
	w := newWorld()
	again := due.Add(time.Second)
	headers := []string{"a=b", "delay-until=" + millis(due), "delay-target-topic=orders"}
	q, other := w.request("k", "v", headers...), w.request("k", "v", headers...)
	r := w.retry(q, due, again)
	late := w.deliver(other, due)
	d := w.deliver(q, due)
	d.Timestamp = again
	d.Headers = append(d.Headers, kgo.RecordHeader{Key: "delay-tries", Value: []byte("1")})

	t.Run("delivered", func(t *testing.T) {
		c := newChecker(t, w.config)
		feed(c, q, other, r, late, d)
		expectFaults(t, c, nil, "retried 1")
	})
	t.Run("the other one was not overtaken, had there been no retry", func(t *testing.T) {
		c := newChecker(t, w.config)
		first := *d
		first.Headers = slices.Clone(d.Headers)
		drop(&first, "delay-tries")
		feed(c, q, other, late, &first)
		expectFaults(t, c, map[Kind]int64{Disordered: 1}, "")
	})
	t.Run("not delivered", func(t *testing.T) {
		c := newChecker(t, w.config)
		feed(c, q, other, r, late)
		expectFaults(t, c, map[Kind]int64{Missing: 1}, "requests/1@0")
	})
	t.Run("delivered as if it were a request", func(t *testing.T) {
		c := newChecker(t, w.config)
		feed(c, q, other, r, late, d)
		wrong := w.deliver(r, again)
		feed(c, wrong)
		if got := c.Report(); got.Count(Doubled) != 1 || got.Count(Altered) == 0 {
			t.Error(got)
		}
	})
	t.Run("dead-lettered as it was written", func(t *testing.T) {
		c := newChecker(t, vanishing(w.config))
		feed(c, q, other, r, late, triedBefore(w.condemn(q, "unknown_target"), 1))
		expectFaults(t, c, nil, "dead-lettered 1")
	})
	t.Run("dead-lettered, and it says that it was tried more often", func(t *testing.T) {
		c := newChecker(t, vanishing(w.config))
		feed(c, q, other, r, late, triedBefore(w.condemn(q, "unknown_target"), 2))
		expectFaults(t, c, map[Kind]int64{Altered: 1}, "__delay.errors.attempts says 2, and its last retry record 1")
	})
	t.Run("dead-lettered as it was rewritten", func(t *testing.T) {
		c := newChecker(t, vanishing(w.config))
		letter := triedBefore(w.condemn(q, "unknown_target"), 1)
		letter.Headers = append(letter.Headers, r.Headers[len(r.Headers)-1])
		drop(letter, "a")
		feed(c, q, other, r, late, letter)
		expectFaults(t, c, map[Kind]int64{Altered: 1}, "")
	})
	for _, first := range []bool{true, false} {
		t.Run(fmt.Sprintf("dead-lettered by the name of the retry, seen before it: %v", first), func(t *testing.T) {
			c := newChecker(t, vanishing(w.config))
			letter := w.condemn(r, "unknown_target")
			if first {
				feed(c, letter)
			}
			feed(c, q, other, r, late)
			if !first {
				feed(c, letter)
			}
			if got := c.Report(); got.Count(Altered) == 0 || got.Count(Missing) > 0 {
				t.Error(got)
			}
		})
	}
	for name, mark := range map[string]string{"topic": "abcdef02:g:1", "partition": "abcdef01:g:2"} {
		t.Run("of another "+name+": an ordinary request", func(t *testing.T) {
			foreign := w.retry(q, due, again)
			set(foreign, "delay-retry", strings.Replace(string(foreign.Headers[len(foreign.Headers)-1].Value), "abcdef01:g:1", mark, 1))
			c := newChecker(t, w.config)
			feed(c, q, other, foreign, late, d)
			expectFaults(t, c, map[Kind]int64{Missing: 1, Disordered: 1, Altered: 1}, "delay-tries says 1, and its last retry record 0")
		})
	}
	t.Run("of another group: passed over", func(t *testing.T) {
		config := w.config
		config.Routes = slices.Clone(config.Routes)
		for i := range config.Routes {
			config.Routes[i].Group = "another"
		}
		c := newChecker(t, config)
		feed(c, other, r, late)
		expectFaults(t, c, nil, "")
		if n := c.Counts().PassedOver; n != 1 {
			t.Errorf("%d passed over", n)
		}
	})
}

// vanishing is a configuration whose target may be deleted.
func vanishing(c Config) Config {
	c.Targets = []Target{{Topic: "orders", MayVanish: true}}
	return c
}

// TestNames: whatever the case of its letters, a name of the processor's that it does not know must be dead-lettered, and no such name,
// nor what an earlier dead letter said of itself, is delivered.
func TestNames(t *testing.T) {
	w := newWorld()
	c := newChecker(t, w.config)
	asks := []string{"a=b", "delay-until=" + millis(due), "delay-target-topic=orders"}
	bad := w.request("k", "v", append(asks, "Delay-Target-Topic=bills")...)
	again := w.request("k", "v", append(asks, "DELAY-ID=", errorPrefix+"code=no_due")...)
	feed(c, bad, again, w.condemn(bad, "unsupported_header"), w.deliver(again, due))
	expectFaults(t, c, nil, "requested 2 (1 bad")
	for _, name := range []string{errorPrefix + "code", "Delay-For"} {
		wrong := w.deliver(w.request("k", "v", asks...), due)
		wrong.Headers = append(wrong.Headers, kgo.RecordHeader{Key: name})
		c := newChecker(t, w.config)
		feed(c, wrong)
		if c.Report().Count(Altered) == 0 {
			t.Errorf("%s was delivered, and nothing said", name)
		}
	}
}

// TestResolve: a resolve record asks for nothing; what only looks like one must be dead-lettered.
func TestResolve(t *testing.T) {
	w := newWorld()
	q := w.request("k", "v", "delay-until="+millis(now.Add(9999*24*time.Hour)), "delay-target-topic=orders")
	resolve := w.append(&kgo.Record{Topic: "requests", Partition: 1, Timestamp: now, Headers: parse([]string{fmt.Sprintf("delay-resolve=abcdef01:g:1:%d:5:%d:-1", q.Offset, q.Offset)})})
	ahead := w.append(&kgo.Record{Topic: "requests", Partition: 1, Timestamp: now, Headers: parse([]string{"delay-resolve=abcdef01:g:1:99:5:99:-1"})})
	c := newChecker(t, w.config)
	feed(c, q, resolve, w.condemn(q, "too_far_ahead"), ahead, w.condemn(ahead, "unsupported_header"))
	expectFaults(t, c, nil, "requested 2 (2 bad")
	if c.Counts().Resolved != 1 {
		t.Errorf("Resolved = %d", c.Counts().Resolved)
	}
}

// TestDoublesAllowed: an at_least_once group may deliver again what it delivered, but nothing else, and not something else.
func TestDoublesAllowed(t *testing.T) {
	o := honest()
	o.w.config.AllowDoubles = true
	c := newChecker(t, o.w.config)
	feed(c, o.good, o.bad)
	feed(c, o.arrivals...)
	feed(c, o.w.deliver(o.good, due))
	expectFaults(t, c, nil, "doubled 1")
	again := o.w.deliver(o.good, due)
	again.Value = []byte("x")
	feed(c, again)
	expectFaults(t, c, map[Kind]int64{Altered: 1}, "doubled 2")
}

// TestCut: a dead letter that its topic could not take whole says how large it was, and begins as it did.
func TestCut(t *testing.T) {
	value := strings.Repeat("0123456789", 2000)
	altered := map[Kind]int64{Altered: 1}
	for _, tt := range []struct {
		name, note string
		key, value string // what is left
		bare       bool   // none of the request's headers is
		want       map[Kind]int64
	}{
		{"the beginning", "key=5000 value=20000 headers=9 size=26200", value[:5000], value[:5000], false, nil},
		{"another beginning", "key=5000 value=20000 headers=9 size=26200", value[:5000], value[1:5001], false, altered},
		{"another length", "key=5000 value=20001 headers=9 size=26200", value[:5000], value[:5000], false, altered},
		{"next to nothing", "key=5000 value=20000 headers=9 size=26200", value[:5000], value[:100], false, nil},
		{"a cut that is none", "key=5000 value=20000 headers=9 size=26200", value[:5000], value, false, altered},
		{"nothing said", "", value[:5000], value[:5000], false, altered},
		{"nonsense said", "a lot", value[:5000], value[:5000], false, altered},
		{"the key's beginning", "key=5000 value=20000 headers=9 size=26200", value[:2000], "", false, nil},
		{"another key", "key=5000 value=20000 headers=9 size=26200", value[1:2001], "", false, altered},
		{"another length of the key", "key=5001 value=20000 headers=9 size=26200", value[:2000], "", false, altered},
		{"the key before the value", "key=5000 value=20000 headers=9 size=26200", value[:2000], value[:10], false, altered},
		{"the headers", "key=5000 value=20000 headers=9 size=26200", "", "", true, nil},
		{"the headers before the key", "key=5000 value=20000 headers=9 size=26200", value[:10], "", true, altered},
		{"more headers than there were", "key=5000 value=20000 headers=8 size=26200", value[:5000], value[:5000], false, altered},
		{"the headers, and it does not say so", "key=5000 value=20000 headers=7 size=26200", "", "", true, altered},
	} {
		for _, first := range []string{"request", "letter"} {
			t.Run(tt.name+"/"+first+" first", func(t *testing.T) {
				w := newWorld()
				q := w.request(value[:5000], value, "delay-for=1", "delay-target-topic=orders")
				letter := w.condemn(q, "too_large")
				letter.Key, letter.Value = []byte(tt.key), []byte(tt.value)
				if tt.bare {
					drop(letter, "delay-for")
					drop(letter, "delay-target-topic")
				}
				if tt.note != "" {
					letter.Headers = append(letter.Headers, parse([]string{errorPrefix + "cut=" + tt.note})...)
				}
				c := newChecker(t, w.config)
				if first == "request" {
					feed(c, q, letter)
				} else {
					feed(c, letter, q)
				}
				expectFaults(t, c, tt.want, "")
			})
		}
	}
}

// TestUntil: what is due later is neither waited for nor missed.
func TestUntil(t *testing.T) {
	o := honest()
	o.w.config.Until = due.Add(-time.Millisecond)
	c := newChecker(t, o.w.config)
	feed(c, o.good, o.bad, o.arrivals[1])
	if n := c.Counts(); n.Outstanding != 0 || n.Later != 1 {
		t.Errorf("%+v", n)
	}
	expectFaults(t, c, nil, "")
}

// What is due after the time of a report is not missed yet, and may be by the next one.
func TestReportUntil(t *testing.T) {
	o := honest()
	c := newChecker(t, o.w.config)
	c.Requested(o.good)
	for _, test := range []struct {
		until time.Time
		want  int64
	}{{due.Add(-time.Millisecond), 0}, {due, 1}, {due.Add(-time.Millisecond), 0}} {
		if got := c.ReportUntil(test.until).Count(Missing); got != test.want {
			t.Errorf("until %v: %d missing, want %d", test.until, got, test.want)
		}
	}
	if got := c.Report().Count(Missing); got != 1 {
		t.Errorf("in the end: %d missing", got)
	}
}

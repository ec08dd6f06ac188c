package check

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// surveyed is a check of what others have requested, of a group that is done with everything.
func (w *world) surveyed(t *testing.T) *Checker {
	t.Helper()
	w.config.Survey = knows{}
	c := newChecker(t, w.config)
	c.Window("requests", 1, 0, math.MaxInt64)
	return c
}

func expectKinds(t *testing.T, r *Report, want map[Kind]int64) {
	t.Helper()
	for _, k := range Kinds() {
		if r.Count(k) != want[k] {
			t.Errorf("%v: %d, want %d\n%v", k, r.Count(k), want[k], r)
		}
	}
}

// What has arrived is judged by what it says of itself. A survey believes that a route was configured otherwise, and counts that; but not what lies in time to come, nor what names
// a delay topic and none of its records.
func TestWhatArrivedSaysOfItself(t *testing.T) {
	read := due.Add(2 * time.Minute)
	letter := func(code string, headers ...string) func(*world, *kgo.Record) *kgo.Record {
		return func(w *world, q *kgo.Record) *kgo.Record {
			d := w.condemn(q, code)
			for _, h := range parse(headers) {
				drop(d, h.Key)
				d.Headers = append(d.Headers, h)
			}
			return d
		}
	}
	delivered := func(change func(*kgo.Record)) func(*world, *kgo.Record) *kgo.Record {
		return func(w *world, q *kgo.Record) *kgo.Record {
			d := w.deliver(q, due)
			change(d)
			return d
		}
	}
	source := func(r *kgo.Record) { drop(r, "delay-fired"); drop(r, "delay-source-timestamp") }
	for _, tt := range []struct {
		name      string
		route     Route
		arrives   func(*world, *kgo.Record) *kgo.Record
		want      map[Kind]int64
		otherwise int64
		foreign   int64
	}{
		{"all, and it is so", Route{Emit: "all"}, delivered(func(*kgo.Record) {}), nil, 0, 0},
		{"all, and left out", Route{Emit: "all"}, delivered(source), nil, 1, 0},
		{"source, and there is more", Route{Emit: "source"}, delivered(func(*kgo.Record) {}), nil, 1, 0},
		{"source, and it is so", Route{Emit: "source"}, delivered(source), nil, 0, 0},
		{"none, and it names its request", Route{Emit: "none"}, delivered(source), nil, 1, 0},
		{"due, and it was fired later", Route{Emit: "source", Timestamp: "due"}, delivered(func(r *kgo.Record) { source(r); r.Timestamp = due.Add(time.Minute) }), nil, 1, 0},
		{"due, and it was fired in time to come", Route{Emit: "source", Timestamp: "due"}, delivered(func(r *kgo.Record) { source(r); r.Timestamp = read.Add(2 * time.Minute) }),
			map[Kind]int64{Altered: 1}, 1, 0},
		{"original, and it is so", Route{Emit: "source", Timestamp: "original"}, delivered(func(r *kgo.Record) { source(r); r.Timestamp = now }), nil, 0, 0},
		{"original, and it is another one", Route{Emit: "source", Timestamp: "original"}, delivered(func(r *kgo.Record) { source(r); r.Timestamp = now.Add(time.Second) }),
			map[Kind]int64{Altered: 1}, 0, 0},
		{"original, and it is when it was fired", Route{Emit: "source", Timestamp: "original"}, delivered(func(r *kgo.Record) { source(r); r.Timestamp = due.Add(time.Second) }), nil, 0, 0},
		{"fired in time to come", Route{Emit: "all"}, delivered(func(r *kgo.Record) { set(r, "delay-fired", millis(read.Add(2*time.Minute))) }), map[Kind]int64{Altered: 1}, 0, 0},
		{"tried 0 times", Route{Emit: "all"}, delivered(func(r *kgo.Record) {
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: "delay-tries", Value: []byte("0")})
		}),
			map[Kind]int64{Altered: 1}, 0, 0},
		{"of no offset", Route{Emit: "all"}, delivered(func(r *kgo.Record) { set(r, "delay-source", "requests/1") }), map[Kind]int64{Stray: 1, Missing: 1}, 0, 0},
		{"of an offset that is none", Route{Emit: "all"}, delivered(func(r *kgo.Record) { set(r, "delay-source", "requests/1/00") }), map[Kind]int64{Stray: 1, Missing: 1}, 0, 0},
		{"of no topic of the check", Route{Emit: "all"}, delivered(func(r *kgo.Record) { set(r, "delay-source", "others/1/00") }), map[Kind]int64{Missing: 1}, 0, 1},
		{"of users", Route{Emit: "all"}, delivered(func(r *kgo.Record) { set(r, "delay-source", "requests") }), map[Kind]int64{Missing: 1}, 0, 1},
		{"dead letter", Route{}, letter("rejected"), nil, 0, 0},
		{"dead letter of another timestamp", Route{}, letter("rejected", "__delay.errors.timestamp="+millis(now.Add(time.Millisecond))), map[Kind]int64{Altered: 1}, 0, 0},
		{"dead letter in time to come", Route{}, func(w *world, q *kgo.Record) *kgo.Record {
			d := w.condemn(q, "rejected")
			d.Timestamp = read.Add(2 * time.Minute)
			return d
		}, map[Kind]int64{Altered: 1}, 0, 0},
		{"dead letter of an unknown stage", Route{}, letter("rejected", "__delay.errors.stage=DELIVER"), map[Kind]int64{Altered: 1}, 0, 0},
		{"dead letter of the stage of another code", Route{}, letter("rejected", "__delay.errors.stage=STORE"), map[Kind]int64{Altered: 1}, 0, 0},
		{"dead letter that says nothing", Route{}, letter("rejected", "__delay.errors.message="), map[Kind]int64{Altered: 1}, 0, 0},
		{"dead letter that says no text", Route{}, letter("rejected", "__delay.errors.message=\xff"), map[Kind]int64{Altered: 1}, 0, 0},
		{"dead letter of a process", Route{}, letter("rejected", "__delay.errors.instance=dw-1"), nil, 0, 0},
		{"dead letter that blames a header", Route{}, letter("rejected", "__delay.errors.header=delay-target-topic=bills"), nil, 0, 0},
		{"dead letter that blames a header that is not there", Route{}, letter("rejected", "__delay.errors.header=delay-target=orders"), map[Kind]int64{Altered: 1}, 0, 0},
		{"dead letter that blames itself", Route{}, letter("rejected", "__delay.errors.header=__delay.errors.code=x"), map[Kind]int64{Altered: 1}, 0, 0},
		{"dead letter with a header more", Route{}, letter("rejected", "__delay.errors.reason=x"), map[Kind]int64{Altered: 1}, 0, 0},
		{"dead letter of no offset", Route{}, letter("rejected", "__delay.errors.offset=x"), map[Kind]int64{Stray: 1, Missing: 1}, 0, 0},
		{"dead letter of no topic of the check", Route{}, letter("rejected", "__delay.errors.topic=others"), map[Kind]int64{Missing: 1}, 0, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld()
			w.config.Routes[0].Emit, w.config.Routes[0].Timestamp = tt.route.Emit, tt.route.Timestamp
			c := w.surveyed(t)
			q := w.request("k", "v", "delay-until="+millis(due), "delay-target-topic=orders")
			feed(c, q)
			c.Observe(tt.arrives(w, q), read)
			r := c.Report()
			r.Found[Missing].Count += r.Pending // of which nothing was seen, and the group is done with all
			expectKinds(t, r, tt.want)
			if r.Otherwise != tt.otherwise || r.Foreign != tt.foreign {
				t.Errorf("otherwise %d, foreign %d, want %d and %d", r.Otherwise, r.Foreign, tt.otherwise, tt.foreign)
			}
		})
	}
}

// One pending request of a partition has an id: the later one of two was not delivered while the earlier one waited, whatever becomes of duplicates.
func TestTwoOfOneIDWereDelivered(t *testing.T) {
	for name, duplicates := range map[string]OnDuplicate{"reject": Reject, "replace": Replace, "leave out": LeaveOut} {
		for _, tt := range []struct {
			name         string
			first, later time.Duration // when they are delivered, from when the later one is due
			ids          [2]string
			atLeastOnce  bool
			want         int64
		}{
			{"the later one while the first one waited", time.Hour, 0, [2]string{"x", "x"}, false, 1},
			{"at least once", time.Hour, 0, [2]string{"x", "x"}, true, 0},
			{"of another id", time.Hour, 0, [2]string{"x", "y"}, false, 0},
			{"of none", time.Hour, 0, [2]string{"", ""}, false, 0},
			{"one after the other", 0, time.Hour, [2]string{"x", "x"}, false, 0},
			{"at nearly the same time", 30 * time.Second, 0, [2]string{"x", "x"}, false, 0},
		} {
			for _, order := range []string{"requests first", "arrivals first"} {
				t.Run(name+"/"+tt.name+"/"+order, func(t *testing.T) {
					w := newWorld()
					w.config.Routes[0].OnDuplicate, w.config.AllowDoubles = duplicates, tt.atLeastOnce
					c := w.surveyed(t)
					var asked, came []*kgo.Record
					for i, after := range []time.Duration{tt.first, tt.later} {
						headers := []string{"delay-until=" + millis(due.Add(after)), "delay-target-topic=orders"}
						if tt.ids[i] != "" {
							headers = append(headers, "delay-id="+tt.ids[i])
						}
						q := w.request("k", "v", headers...)
						asked, came = append(asked, q), append(came, w.deliver(q, due.Add(after)))
					}
					if order == "requests first" {
						feed(c, asked...)
					}
					for _, d := range came {
						c.Delivered(d, due.Add(2*time.Hour))
					}
					if order == "arrivals first" {
						feed(c, asked...)
					}
					for range 2 { // it is not forgotten
						expectKinds(t, c.Report(), map[Kind]int64{BadDelivered: tt.want})
						c.Forget()
					}
					if tt.want == 0 && len(c.ids.sent) > 0 {
						t.Errorf("%d are kept", len(c.ids.sent))
					}
				})
			}
		}
	}
}

// Of an id that always has a request that waits nothing is given up that shows a fault beside what came later.
func TestOneOfManyWithAnIDWasDelivered(t *testing.T) {
	const n = 2 * fewestOfID
	w := newWorld()
	w.config.Routes[0].OnDuplicate = Replace
	c := w.surveyed(t)
	at := func(i int) time.Time { return due.Add(time.Duration(i) * time.Minute) }
	ask := func(i int) *kgo.Record {
		q := w.request("k", "v", "delay-until="+millis(at(i)), "delay-target-topic=orders", "delay-id=x")
		feed(c, q)
		return q
	}
	for i := range n - 1 {
		c.Delivered(w.deliver(ask(i), at(i)), at(i))
	}
	c.Delivered(w.deliver(ask(3*n), at(3*n)), at(3*n))
	ask(4 * n)
	c.Delivered(w.deliver(ask(2*n), at(2*n)), at(2*n))
	for range 3 {
		expectKinds(t, c.Report(), map[Kind]int64{BadDelivered: 1})
		c.Forget()
	}
}

// What is tried again was due when it was put off, and waits for no longer than it may.
func TestPutOffForTooLong(t *testing.T) {
	for _, tt := range []struct {
		name    string
		at, due time.Duration // of the retry record, and what it says, from when the request was due
		most    time.Duration
		want    int64
	}{
		{"as long as it may be", time.Second, 6 * time.Minute, 5 * time.Minute, 0},
		{"for an hour", time.Second, time.Hour, 5 * time.Minute, 1},
		{"for an hour, which it may be", time.Second, time.Hour, time.Hour, 0},
		{"before it was due", -time.Hour, 5 * time.Minute, 24 * time.Hour, 1},
		{"a little before it was due, by another clock", -30 * time.Second, time.Second, 5 * time.Minute, 0},
		{"as long as it likes", time.Second, 1000 * time.Hour, 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld()
			w.config.Routes[0].PutOff = tt.most
			c := w.surveyed(t)
			q := w.request("k", "v", "delay-until="+millis(due), "delay-target-topic=orders")
			again := w.retry(q, due, due.Add(tt.due))
			again.Timestamp = due.Add(tt.at)
			feed(c, q, again)
			expectKinds(t, c.Report(), map[Kind]int64{Altered: tt.want})
		})
	}
}

// A record that lies where it does not belong is one of others, as long as its request has arrived; else it tells where that went.
func TestWhereItWentAstray(t *testing.T) {
	for _, tt := range []struct {
		name   string
		astray func(*world, *kgo.Record) *kgo.Record
		says   string
	}{
		{"delivered to a dead letter topic", func(w *world, q *kgo.Record) *kgo.Record {
			d := w.deliver(q, due)
			d.Topic, d.Partition, d.Offset = "requests.dead", 0, 7
			return d
		}, "it lies in requests.dead/0@7, as if it were delivered"},
		{"dead letter in a target", func(w *world, q *kgo.Record) *kgo.Record {
			d := w.condemn(q, "rejected")
			d.Topic, d.Partition, d.Offset = "orders", 2, 8
			return d
		}, "it lies in orders/2@8, as a dead letter"},
	} {
		for _, arrives := range []string{"never", "before", "after"} {
			t.Run(tt.name+", "+arrives, func(t *testing.T) {
				w := newWorld()
				c := w.surveyed(t)
				q := w.request("k", "v", "delay-until="+millis(due), "delay-target-topic=orders")
				feed(c, q)
				if arrives == "before" {
					c.Observe(w.deliver(q, due), due.Add(time.Minute))
				}
				c.Observe(tt.astray(w, q), due.Add(time.Minute))
				if arrives == "after" {
					c.Observe(w.deliver(q, due), due.Add(time.Minute))
				}
				r := c.Report()
				if r.Foreign != 1 || len(c.astray) > 0 != (arrives == "never") {
					t.Errorf("%d are of others, and remembered are %v", r.Foreign, c.astray)
				}
				if arrives != "never" {
					expectKinds(t, r, nil)
					return
				}
				c.config.Survey = loses{}
				r = c.Report()
				expectKinds(t, r, map[Kind]int64{Missing: 1})
				if first := r.Found[Missing].First; len(first) != 1 || !strings.Contains(first[0].Detail, tt.says) {
					t.Errorf("%v does not say %q", first, tt.says)
				}
			})
		}
	}
}

// loses is a group that is done with everything.
type loses struct{ knows }

func (loses) Unseen(Unseen) Verdict { return Verdict{Fate: Lost} }

package check

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// knows is a group that is done with everything.
type knows struct{}

func (knows) Resolved(Source, int64, int64) bool { return true }
func (knows) Unseen(Unseen) Verdict              { return Verdict{Fate: Waits} }

// BenchmarkSurvey is what a request and its delivery cost a survey, and what is held of one that waits and of one that is settled.
func BenchmarkSurvey(b *testing.B) {
	for _, settles := range []bool{true, false} {
		b.Run(fmt.Sprintf("settles=%v", settles), func(b *testing.B) {
			w := newWorld()
			w.config.Survey = knows{}
			c, err := New(w.config)
			if err != nil {
				b.Fatal(err)
			}
			q := w.request("key-1", fmt.Sprintf("%0100d", 1), "trace=1", "delay-until="+millis(due), "delay-target-topic=orders")
			d := w.deliver(q, due)
			c.Window(q.Topic, q.Partition, 0, math.MaxInt64)
			var place *[]byte
			for i, h := range d.Headers {
				if h.Key == "delay-source" {
					place = &d.Headers[i].Value
				}
			}
			before := heap()
			b.ReportAllocs()
			for b.Loop() {
				c.Requested(q)
				if settles {
					*place = fmt.Appendf((*place)[:0], "%s/%d/%d", q.Topic, q.Partition, q.Offset)
					c.Delivered(d, due.Add(5*time.Millisecond))
				}
				q.Offset++
				d.Offset++
				if q.Offset%100_000 == 0 {
					c.Forget()
				}
			}
			c.Forget()
			b.ReportMetric(float64(heap()-before)/float64(b.N), "held-B/op")
			b.ReportMetric(float64(c.Held())/float64(b.N), "said-B/op")
		})
	}
}

// TestHeld: what is said to be held is what is held, and what is settled costs a bit or two.
func TestHeld(t *testing.T) {
	w := newWorld()
	w.config.Survey = knows{}
	c := newChecker(t, w.config)
	c.Window("requests", 1, 0, math.MaxInt64)
	const n = 200_000
	before := heap()
	for range n {
		feed(c, w.request("k", "v", "delay-until="+millis(due), "delay-target-topic=orders"))
	}
	c.Forget()
	held, said := heap()-before, c.Held()
	if held > n*70 || said < held*2/3 || said > held*3/2 {
		t.Errorf("%d requests that wait take %d bytes, and %d are said to be held", n, held, said)
	}
	q := w.request("k", "v", "delay-until="+millis(due), "delay-target-topic=orders")
	d := w.deliver(q, due)
	for offset := range int64(n) {
		q.Offset = offset
		set(d, "delay-source", fmt.Sprintf("requests/1/%d", offset))
		c.Delivered(d, due.Add(5*time.Millisecond))
	}
	c.Forget()
	if said := c.Held(); said > n {
		t.Errorf("%d bytes are said to be held of %d that are settled", said, n)
	}
	r := c.Report()
	if r.Requested != n || r.Delivered != n || r.Pending != 0 || r.Faults != 0 {
		t.Errorf("%+v", r.Counts)
	}
}

// dueUntil is a group that is done with what is due by then.
type dueUntil struct{ millis *int64 }

func (d dueUntil) Resolved(_ Source, due, _ int64) bool { return due <= *d.millis }

func (d dueUntil) Unseen(u Unseen) Verdict {
	if u.Due > *d.millis {
		return Verdict{Fate: Waits}
	}
	return Verdict{Fate: Lost, Final: true}
}

// hot is a check of many requests with one id, each of which takes the place of the one before, a second before that is due.
func hot(t *testing.T, n int, forget bool) (c *Checker, held int64) {
	t.Helper()
	w := newWorld()
	w.config.Routes[0].OnDuplicate = Replace
	passed := int64(0)
	w.config.Survey = dueUntil{&passed}
	c = newChecker(t, w.config)
	c.Window("requests", 1, 0, math.MaxInt64)
	for i := range n {
		at := due.Add(time.Duration(i) * time.Second)
		c.Requested(w.request("k", "v", "delay-until="+millis(at.Add(2*time.Second)), "delay-target-topic=orders", "delay-id=x"))
		passed = at.UnixMilli()
		c.Until(passed, passed)
		if forget && i%500 == 499 {
			c.Forget()
			held = max(held, c.Held())
		}
	}
	return c, held
}

// One id that always has a request that waits, such as that of a key which is put off again and again, does not keep all that had it before.
func TestOneIDForEver(t *testing.T) {
	const n = 20_000
	c, held := hot(t, n, true)
	if held > 2000*specialBytes {
		t.Errorf("%d bytes are held of %d requests", held, n)
	}
	if r := c.Report(); r.Faults != 0 || r.Requested != n || r.Taken+r.Pending != n || r.Pending > 3 {
		t.Errorf("%+v %v", r.Counts, r)
	}
}

// What a request costs does not depend on how many have its id.
func TestOneIDOfMany(t *testing.T) {
	took := func(n int) time.Duration {
		least := time.Duration(math.MaxInt64)
		for range 3 {
			began := time.Now()
			hot(t, n, false)
			least = min(least, time.Since(began))
		}
		return least
	}
	if few, many := took(1000), took(8000); many > 30*few {
		t.Errorf("%v for 1000, and %v for 8000", few, many)
	}
}

// silences is a group that is done with what is due by then, and cannot be seen to deliver on a route that emits nothing.
type silences struct{ dueUntil }

func (s silences) Unseen(u Unseen) Verdict {
	if u.Silent {
		return Verdict{Fate: Untellable, Why: "silent", Final: true}
	}
	return s.dueUntil.Unseen(u)
}

// What --watch holds does not grow with the time, whatever is asked for, and whatever becomes of it.
func TestAWatchHoldsNothingOfWhatIsSettled(t *testing.T) {
	const rounds, each = 10, 1000
	w := newWorld()
	w.config.Routes = append(w.config.Routes, Route{Topic: "silent", Prefix: "x-", Emit: emitNone, Allow: []string{"orders"}})
	passed := due.UnixMilli()
	w.config.Survey = silences{dueUntil{&passed}}
	c := newChecker(t, w.config)
	for p := range int32(2) {
		c.Window("requests", p, 0, math.MaxInt64)
	}
	c.Window("silent", 0, 0, math.MaxInt64)
	handle := func(q *kgo.Record) string { return fmt.Sprintf("%d-%d-%s", q.Partition, q.Offset, millis(due)) }
	n := 0
	ask := func(more ...string) *kgo.Record {
		n++
		return w.request("k", "v", append(more, "delay-until="+millis(due), "delay-target-topic=orders")...)
	}
	round := func() {
		for i := range each {
			unique := fmt.Sprint(n)
			switch q := ask("delay-id=" + unique); i % 10 {
			case 0:
				feed(c, q, w.deliver(q, due))
			case 1:
				feed(c, q, w.request("", "", "delay-cancel="+handle(q)))
			case 2:
				feed(c, q, w.request("", "", "delay-cancel="+unique))
			case 3:
				other := ask("delay-replace=" + handle(q))
				feed(c, q, other, w.deliver(other, due))
			case 4:
				twice := ask("delay-id=" + unique)
				feed(c, q, twice, w.condemn(twice, "duplicate_id"), w.deliver(q, due))
			case 5:
				bad := w.request("k", "v", "delay-until="+millis(due), "delay-target-topic=nowhere")
				feed(c, q, bad, w.condemn(bad, "target_not_allowed"), w.deliver(q, due))
			case 6:
				again := w.retry(q, due, due.Add(time.Second))
				d := w.deliver(q, due)
				d.Headers = append(d.Headers, kgo.RecordHeader{Key: "delay-tries", Value: []byte("1")})
				d.Timestamp = due.Add(time.Second)
				feed(c, q, again, d)
			case 7:
				expires := ask("delay-expires=" + millis(due.Add(time.Second)))
				letter := w.condemn(expires, "expired")
				letter.Timestamp = due.Add(2 * time.Second)
				feed(c, q, expires, letter, w.deliver(q, due))
			case 8: // a cancel in another partition is passed on
				cancel := w.append(&kgo.Record{Topic: "requests", Partition: 0, Timestamp: now, Headers: parse([]string{"delay-cancel=" + handle(q)})})
				as := w.append(&kgo.Record{Topic: "requests", Partition: 1, Timestamp: now, Headers: parse([]string{"delay-cancel=" + handle(q), fmt.Sprintf("delay-forwarded=abcdef01:g:1:0:%d:%s", cancel.Offset, millis(now))})})
				feed(c, q, cancel, as)
			case 9: // what was delivered is passed on by a route that says nothing, and is delivered or is not
				d := w.deliver(q, due)
				relayed := w.append(&kgo.Record{Topic: "silent", Key: d.Key, Value: d.Value, Timestamp: now, Headers: append(d.Headers, parse([]string{"x-until=" + millis(due), "x-target-topic=orders"})...)})
				feed(c, q, d, relayed)
				if i%20 == 9 {
					twice := *d
					feed(c, w.append(&twice))
				}
			}
		}
		for p, next := range w.next {
			c.Ended(p.topic, p.partition, next, 0)
		}
		passed += (20 * time.Minute).Milliseconds()
		c.Until(passed, passed)
		c.Forget()
		c.Forget()
	}
	var after, said [rounds]int64
	for i := range rounds {
		round()
		after[i], said[i] = heap(), c.Held()
	}
	// A bit or two of each request stay, and what is left of some pages. A hundred bytes of each of one kind would be more than this. The heap has other things, too.
	const half, most = rounds / 2, rounds / 2 * each / 10 * 80
	if grown, held := after[rounds-1]-after[half-1], said[rounds-1]-said[half-1]; grown > 3*most || held > most {
		t.Errorf("%d bytes more are taken by %d more requests, and %d more are said to be held", grown, n/2, held)
	}
	if r := c.Report(); r.Faults > 0 || r.Requested < int64(n) {
		t.Error(r)
	}
}

// One that comes more often than a slot counts is told each time, and stays one.
func TestArrivesVeryOften(t *testing.T) {
	w := newWorld()
	q := w.request("k", "v", "delay-until="+millis(due), "delay-target-topic=orders")
	c := newChecker(t, w.config)
	feed(c, q)
	for range 300 {
		feed(c, w.deliver(q, due))
	}
	if r := c.Report(); r.Delivered != 300 || r.Count(Doubled) != 299 || r.Count(Missing) != 0 || r.Outstanding != 0 {
		t.Errorf("%v", r)
	}
}

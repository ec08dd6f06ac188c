package check

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const ms = time.Millisecond

// Late counts from the later of due, requested, and the end of what was broken.
func TestLate(t *testing.T) {
	for _, tt := range []struct {
		name string
		due  time.Duration // from now, when it is requested
		seen time.Duration // after now
		do   func(c *Checker)
		want int64
	}{
		{"in time", time.Second, time.Second + 90*ms, nil, 0},
		{"late", time.Second, time.Second + 91*ms, nil, 1},
		{"due already", -time.Hour, 90 * ms, nil, 0},
		{"due already, and late", -time.Hour, 91 * ms, nil, 1},
		{"while something is broken", time.Second, time.Hour, func(c *Checker) { c.Ill() }, 0},
		{"well again in time", time.Second, 3*time.Second + 90*ms, func(c *Checker) { c.Ill(); c.Well(now.Add(3 * time.Second)) }, 0},
		{"well again, and late", time.Second, 3*time.Second + 91*ms, func(c *Checker) { c.Ill(); c.Well(now.Add(3 * time.Second)) }, 1},
		{"well all the time", time.Second, 3 * time.Second, func(c *Checker) { c.Well(now.Add(3 * time.Second)) }, 1},
	} {
		for _, ceiling := range []time.Duration{90 * ms, 0} {
			w := newWorld()
			w.config.Late = ceiling
			c := newChecker(t, w.config)
			if tt.do != nil {
				tt.do(c)
			}
			q := w.request("k", "v", "delay-until="+millis(now.Add(tt.due)), "delay-target-topic=orders")
			feed(c, q)
			c.Delivered(w.deliver(q, now.Add(tt.due)), now.Add(tt.seen))
			if got, want := c.Report().Count(Late), tt.want*min(int64(ceiling), 1); got != want {
				t.Errorf("%s, at most %v: %d late, want %d", tt.name, ceiling, got, want)
			}
		}
	}
}

// attempted is a delivery that says how often it was tried before.
func (w *world) attempted(q *kgo.Record, due time.Time, attempt int) *kgo.Record {
	d := w.deliver(q, due)
	d.Headers = append(d.Headers, kgo.RecordHeader{Key: "delay-tries", Value: fmt.Append(nil, attempt)})
	return d
}

// What is delivered says how often it was tried, and nothing is put off too often.
func TestAttempts(t *testing.T) {
	for _, tt := range []struct {
		name    string
		attempt int
		doubles bool
		want    map[Kind]int64
	}{
		{"as the last retry record says", 3, false, map[Kind]int64{Insistent: 1}},
		{"one less", 2, false, map[Kind]int64{Insistent: 1, Altered: 1}},
		{"one more", 4, false, map[Kind]int64{Insistent: 1, Altered: 1}},
		{"one less, at least once", 2, true, map[Kind]int64{Insistent: 1}},
		{"one more, at least once", 4, true, map[Kind]int64{Insistent: 1, Altered: 1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld()
			w.config.Retries, w.config.AllowDoubles = 2, tt.doubles
			c := newChecker(t, w.config)
			q := w.request("k", "v", "delay-until="+millis(due), "delay-target-topic=orders")
			feed(c, q)
			for i := range 3 {
				r := w.retry(q, due, due.Add(time.Second))
				mark := r.Headers[len(r.Headers)-1]
				set(r, mark.Key, strings.Replace(string(mark.Value), millis(due)+":1:", fmt.Sprintf("%s:%d:", millis(due), i+1), 1))
				feed(c, r)
			}
			feed(c, w.attempted(q, due, tt.attempt))
			expectFaults(t, c, tt.want, "put off for the 3. time")
		})
	}
}

// What was accepted and what was delivered is in a checkpoint in time.
func TestCovered(t *testing.T) {
	at := func(d time.Duration) time.Time { return now.Add(d) }
	for _, tt := range []struct {
		name string
		do   func(c *Checker, q, d *kgo.Record)
		want int64
	}{
		{"accepted in time", func(c *Checker, q, d *kgo.Record) {
			c.Observe(q, at(0))
			c.Checkpoint("requests", 1, 0, 0, 0, at(300*ms))
			c.Checkpoint("requests", 1, 1, 0, 0, at(301*ms))
		}, 0},
		{"not accepted", func(c *Checker, q, d *kgo.Record) {
			c.Observe(q, at(0))
			c.Checkpoint("requests", 1, 0, 0, 0, at(301*ms))
			c.Checkpoint("requests", 1, 0, 0, 0, at(500*ms)) // and is told of once
		}, 1},
		{"not accepted, in an ill world", func(c *Checker, q, d *kgo.Record) {
			c.Observe(q, at(0))
			c.Ill()
			c.Checkpoint("requests", 1, 0, 0, 0, at(301*ms))
			c.Well(at(400 * ms))
			c.Checkpoint("requests", 1, 0, 0, 0, at(700*ms))
		}, 0},
		{"delivered, and W is below", func(c *Checker, q, d *kgo.Record) {
			c.Observe(d, at(0))
			c.Checkpoint("requests", 1, 1, due.UnixMilli()-1, 9, at(301*ms))
		}, 1},
		{"delivered, and W is below by offset", func(c *Checker, q, d *kgo.Record) {
			c.Observe(d, at(0))
			c.Checkpoint("requests", 1, 1, due.UnixMilli(), -1, at(301*ms))
		}, 1},
		{"delivered, and O is not above", func(c *Checker, q, d *kgo.Record) {
			c.Observe(d, at(0))
			c.Checkpoint("requests", 1, 0, due.UnixMilli()+1, 9, at(301*ms))
		}, 1},
		{"delivered and covered", func(c *Checker, q, d *kgo.Record) {
			c.Observe(d, at(0))
			c.Checkpoint("requests", 1, 1, due.UnixMilli(), 0, at(301*ms))
		}, 0},
		{"of another partition", func(c *Checker, q, d *kgo.Record) {
			c.Observe(d, at(0))
			c.Checkpoint("requests", 2, 1, due.UnixMilli(), 0, at(301*ms))
			c.Checkpoint("requests", 1, 0, 0, 0, at(301*ms))
		}, 1},
	} {
		w := newWorld()
		w.config.Covered = 300 * ms
		c := newChecker(t, w.config)
		q := w.request("k", "v", "delay-until="+millis(due), "delay-target-topic=orders")
		tt.do(c, q, w.deliver(q, due))
		if got := c.Report().Count(Uncovered); got != tt.want {
			t.Errorf("%s: %d uncovered, want %d", tt.name, got, tt.want)
		}
	}
}

// The checkpoint of a fixed-delay route is the offset alone.
func TestCoveredOfAQueue(t *testing.T) {
	for offset, want := range map[int64]int64{0: 1, 1: 0} {
		w := newWorld()
		w.config.Covered, w.config.Routes[0].Delay = 300*ms, time.Minute
		c := newChecker(t, w.config)
		q := w.request("k", "v", "delay-target-topic=orders")
		feed(c, q, w.deliver(q, now.Add(time.Minute)))
		c.Checkpoint("requests", 1, offset, 0, 0, now.Add(time.Hour))
		if got := c.Report().Count(Uncovered); got != want {
			t.Errorf("offset %d: %d uncovered, want %d", offset, got, want)
		}
	}
}

// At least once is not: again, although the checkpoint has long said that it is done.
func TestCoveredComesAgain(t *testing.T) {
	for _, tt := range []struct {
		name      string
		covered   time.Duration // after due
		watermark time.Duration // after due
		again     time.Duration // after due
		want      int64
	}{
		{"no checkpoint had covered it", time.Second, -ms, time.Minute, 0},
		{"a checkpoint had covered it", time.Second, 0, time.Second + 300*ms, 1},
		{"just now", time.Second, 0, time.Second + 299*ms, 0},
	} {
		w := newWorld()
		w.config.Covered, w.config.AllowDoubles = 300*ms, true
		c := newChecker(t, w.config)
		q := w.request("k", "v", "delay-until="+millis(due), "delay-target-topic=orders")
		feed(c, q, w.deliver(q, due))
		c.Checkpoint("requests", 1, 0, 0, 0, due)
		c.Checkpoint("requests", 1, 1, due.Add(tt.watermark).UnixMilli(), 0, due.Add(tt.covered))
		c.Checkpoint("requests", 1, 1, due.Add(time.Hour).UnixMilli(), 0, due.Add(2*time.Minute))
		again := w.deliver(q, due)
		again.Timestamp = due.Add(tt.again)
		c.Observe(again, due.Add(time.Hour))
		if got := c.Report().Count(Doubled); got != tt.want {
			t.Errorf("%s: %d doubled, want %d", tt.name, got, tt.want)
		}
	}
}

// The worst second counts, of each name.
func TestRate(t *testing.T) {
	var r Rate
	for i, n := range []int{3, 7, 5} {
		for range n {
			r.Count("a", now.Add(time.Duration(i)*time.Second))
		}
	}
	r.Count("b", now)
	if r.Worst("a") != 7 || r.Worst("b") != 1 || r.Worst("c") != 0 {
		t.Errorf("worst: %d, %d, %d", r.Worst("a"), r.Worst("b"), r.Worst("c"))
	}
	at := func(n int) func(string) int { return func(string) int { return n } }
	if over := r.Over(at(6)); len(over) != 1 || !strings.Contains(over[0], "a 7 times") || len(r.Over(at(7))) > 0 {
		t.Errorf("over: %q", over)
	}
}

package check

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// What the log has lost may be missing, and may arrive, once. What has arrived before, what lies behind, and what a copy or a retry record stands for that lies behind,
// is owed as ever.
func TestBeheaded(t *testing.T) {
	asks := []string{"a=b", "delay-until=" + millis(due), "delay-target-topic=orders"}
	for name, c := range map[string]struct {
		below int64
		came  []int // of the first three requests
		want  map[Kind]int64
		lost  int64
	}{
		"nothing is lost":               {0, []int{0, 1, 2}, nil, 0},
		"nothing is, and one is absent": {0, []int{0, 1}, map[Kind]int64{Missing: 1}, 0},
		"two are":                       {2, []int{2}, nil, 2},
		"two are, and one comes":        {2, []int{1, 2}, nil, 1},
		"two are, and one comes twice":  {2, []int{1, 1, 2}, map[Kind]int64{Doubled: 1}, 1},
		"what lies behind is owed":      {2, []int{0}, map[Kind]int64{Missing: 1}, 1},
		"the copy is lost, too":         {4, nil, nil, 3},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			var rs []*kgo.Record
			for range 3 {
				rs = append(rs, w.request("k", "v", asks...))
			}
			checker := newChecker(t, w.config)
			feed(checker, rs...)
			beheading{checker}.below("requests", 1, c.below)
			for _, i := range c.came {
				checker.Delivered(w.deliver(rs[i], due), due.Add(time.Second))
			}
			expectFaults(t, checker, c.want, "requested 3")
			if n := checker.Counts().Lost; n != c.lost {
				t.Errorf("%d lost, not %d", n, c.lost)
			}
		})
	}
	t.Run("a copy of the first one stands for no other", func(t *testing.T) {
		w := newWorld()
		q := w.request("k", "v", asks...)
		q.Offset = 0
		other := w.request("k", "v", asks...)
		other.Offset = 1
		again := w.request("k", "v", append(asks, "delay-seq=abcdef01:g:1:0:"+millis(due)+":-1", "delay-from=0")...)
		again.Offset = 2
		checker := newChecker(t, w.config)
		feed(checker, q, other, again)
		beheading{checker}.below("requests", 1, 2)
		expectFaults(t, checker, map[Kind]int64{Missing: 1}, "requested 2")
		if n := checker.Counts().Lost; n != 1 {
			t.Errorf("%d lost, not 1", n)
		}
	})
	t.Run("what said that it was resolved is lost, too", func(t *testing.T) {
		for name, c := range map[string]struct {
			below int64 // from the resolve record on
			came  int
			want  map[Kind]int64
		}{
			"it comes once":        {1, 1, nil},
			"it comes again":       {1, 2, nil},
			"it comes three times": {1, 3, map[Kind]int64{Doubled: 1}},
			"what said so is left": {0, 2, map[Kind]int64{Doubled: 1}},
		} {
			w := newWorld()
			q := w.request("k", "v", asks...)
			resolve := w.append(&kgo.Record{Topic: "requests", Partition: 1, Timestamp: now, Headers: parse([]string{fmt.Sprintf("delay-resolve=abcdef01:g:1:%d:%s:%d:-1", q.Offset, millis(due), q.Offset)})})
			checker := newChecker(t, w.config)
			feed(checker, q, resolve)
			checker.Delivered(w.deliver(q, due), due.Add(time.Second))
			beheading{checker}.below("requests", 1, resolve.Offset+c.below)
			for range c.came - 1 {
				checker.Delivered(w.deliver(q, due), due.Add(time.Second))
			}
			t.Log(name)
			expectFaults(t, checker, c.want, "requested 1")
		}
	})
	t.Run("with ids", func(t *testing.T) {
		for name, c := range map[string]struct {
			below    int64
			came     []int // of two requests of one id, and one of another
			remember bool
			want     map[Kind]int64
		}{
			"nothing is lost, and one is absent":        {0, []int{0, 1}, false, map[Kind]int64{Missing: 1}},
			"all are lost":                              {3, nil, false, nil},
			"one is, and what lies behind comes":        {1, []int{1, 2}, false, nil},
			"one is, and what lies behind is absent":    {1, []int{0, 2}, false, map[Kind]int64{Missing: 1}},
			"what was delivered is remembered":          {0, []int{0, 1, 2}, true, map[Kind]int64{Doubled: 1}},
			"what was delivered was lost and forgotten": {1, []int{0, 1, 2}, true, nil},
		} {
			w := newWorld()
			if c.remember {
				w.config.Routes[0].Remember = time.Hour
			}
			var rs []*kgo.Record
			for _, id := range []string{"a", "a", "b"} {
				rs = append(rs, w.request("k", "v", append(asks, "delay-id="+id)...))
			}
			checker := newChecker(t, w.config)
			feed(checker, rs...)
			below := c.below
			if below > 0 {
				below += rs[0].Offset
			}
			beheading{checker}.below("requests", 1, below)
			for _, i := range c.came {
				checker.Delivered(w.deliver(rs[i], due), due.Add(time.Second))
			}
			t.Log(name)
			expectFaults(t, checker, c.want, "requested 3")
		}
	})
	t.Run("a copy stands for it", func(t *testing.T) {
		w := newWorld()
		q := w.request("k", "v", asks...)
		again := w.request("k", "v", append(asks, fmt.Sprintf("delay-seq=abcdef01:g:1:%d:%s:-1", q.Offset, millis(due)), fmt.Sprintf("delay-from=%d", q.Offset))...)
		checker := newChecker(t, w.config)
		feed(checker, q, again)
		beheading{checker}.below("requests", 1, again.Offset)
		expectFaults(t, checker, map[Kind]int64{Missing: 1}, "requested 1")
		beheading{checker}.below("requests", 1, again.Offset+1)
		expectFaults(t, checker, nil, "requested 1")
	})
}

// A cancel of an id that was lost is not owed to other partitions, nor has it to have counted.
func TestBeheadedCancels(t *testing.T) {
	for name, c := range map[string]struct {
		below int64 // of either partition
		want  map[Kind]int64
	}{
		"what is left counts":     {0, map[Kind]int64{Missing: 1, BadDelivered: 1}},
		"what is lost need not":   {3, nil},
		"what lies behind counts": {2, map[Kind]int64{BadDelivered: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			n := newSharing(Reject)
			n.w.config.InTime = 30 * time.Second
			n.delivered(n.first, n.third)
			n.duplicate(n.second)
			checker := newChecker(t, n.w.config)
			for _, r := range n.more[:5] { // it is not passed on
				checker.Observe(r, now.Add(time.Second))
			}
			beheading{checker}.below("requests", 1, c.below)
			beheading{checker}.below("requests", 2, c.below)
			for _, r := range n.arrivals {
				checker.Observe(r, due.Add(2*time.Second))
			}
			expectFaults(t, checker, c.want, "")
		})
	}
}

// An id that was lost with the log of what had it may be had by another one.
func TestBeheadedIDs(t *testing.T) {
	for below, want := range map[int64]map[Kind]int64{0: {BadDelivered: 1}, 1: nil} {
		n := newSharing(Reject)
		n.w.config.InTime = 30 * time.Second
		n.delivered(n.first, n.second)
		checker := newChecker(t, n.w.config)
		for _, r := range n.more[:2] {
			checker.Observe(r, now.Add(time.Second))
		}
		beheading{checker}.below("requests", 1, below)
		for _, r := range n.arrivals {
			checker.Observe(r, due.Add(2*time.Second))
		}
		expectFaults(t, checker, want, "")
	}
}

// A request that was lost with its log is not owed although it is named, and a cancel or a replacement that was may have counted.
func TestBeheadedNamings(t *testing.T) {
	for name, c := range map[string]struct {
		below, elsewhere int64 // of the partition, and of the other one
		spoil            func(n *naming)
		want             map[Kind]int64
	}{
		"all come in vain":                     {0, 0, func(n *naming) { n.vain(n.first, n.second, n.instead, n.again) }, map[Kind]int64{Missing: 1}},
		"it is lost":                           {1, 0, func(n *naming) { n.vain(n.first, n.second, n.instead, n.again) }, nil},
		"it is lost, and cancelled twice":      {1, 0, func(n *naming) { n.vain(n.instead, n.again) }, map[Kind]int64{Doubled: 1}},
		"it is delivered, and cancels lost":    {3, 0, func(n *naming) { n.delivered(n.good); n.vain(n.instead, n.again) }, nil},
		"it is delivered, and one is not":      {2, 0, func(n *naming) { n.delivered(n.good); n.vain(n.instead, n.again) }, map[Kind]int64{Doubled: 1}},
		"one is not forwarded":                 {0, 0, func(n *naming) { n.more = n.more[:5]; n.delivered(n.good); n.vain(n.first, n.second, n.instead) }, map[Kind]int64{Missing: 1}},
		"and was lost before":                  {0, 1, func(n *naming) { n.more = n.more[:5]; n.delivered(n.good); n.vain(n.first, n.second, n.instead) }, nil},
		"what was replaced comes, and is lost": {4, 0, func(n *naming) { n.delivered(n.good, n.instead); n.vain(n.again) }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNaming()
			c.spoil(n)
			checker := newChecker(t, n.w.config)
			feed(checker, n.more...)
			beheading{checker}.below("requests", 1, n.good.Offset+c.below)
			beheading{checker}.below("requests", 2, n.foreign.Offset+c.elsewhere)
			feed(checker, n.arrivals...)
			expectFaults(t, checker, c.want, "")
			if left := checker.Counts().Outstanding; left != 0 && c.want == nil {
				t.Errorf("%d are still waited for", left)
			}
		})
	}
}

// What is named only after it was lost may have been held, and taken away.
func TestBeheadedIsNamedLater(t *testing.T) {
	n := newNaming()
	checker := newChecker(t, n.w.config)
	feed(checker, n.good)
	beheading{checker}.below("requests", 1, n.good.Offset+1)
	if n := checker.Counts().Lost; n != 1 {
		t.Errorf("%d lost, not 1", n)
	}
	n.delivered(n.instead)
	feed(checker, n.instead, n.arrivals[0])
	expectFaults(t, checker, nil, "requested 2")
	if c := checker.Counts(); c.Lost != 0 || c.Outstanding != 0 {
		t.Errorf("%d lost, %d are still waited for", c.Lost, c.Outstanding)
	}
}

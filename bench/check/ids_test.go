package check

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// sharing is an id that several requests have, and what has become of them.
type sharing struct {
	*outcome
	first, second, third *kgo.Record // of one id
	cancel               *kgo.Record // of that id, behind the second
	elsewhere, passed    *kgo.Record // one of another id that nothing has here, and what was written for it
}

func newSharing(mode OnDuplicate) *sharing {
	w := newWorld()
	w.config.Routes[0].OnDuplicate = mode
	n := &sharing{outcome: &outcome{w: w}}
	request := func(value string) *kgo.Record {
		return w.request("k", value, "delay-until="+millis(due), "delay-target-topic=orders", "delay-id=x")
	}
	n.first, n.second = request("1"), request("2")
	n.cancel = w.request("k", "", "delay-cancel=x")
	n.third = request("3")
	n.elsewhere = w.append(&kgo.Record{Topic: "requests", Partition: 2, Timestamp: now, Headers: parse([]string{"delay-cancel=y"})})
	n.passed = w.request("", "", "delay-cancel=y", fmt.Sprintf("delay-forwarded=abcdef01:g:1:2:%d:%d", n.elsewhere.Offset, now.UnixMilli()))
	n.passed.Key, n.passed.Value = nil, nil
	n.more = []*kgo.Record{n.first, n.second, n.cancel, n.third, n.elsewhere, n.passed}
	return n
}

func (n *sharing) remember(d time.Duration) { n.w.config.Routes[0].Remember = d }

func (n *sharing) delivered(rs ...*kgo.Record) {
	for _, r := range rs {
		n.arrivals = append(n.arrivals, n.w.deliver(r, due))
	}
}

func (n *sharing) duplicate(rs ...*kgo.Record) {
	for _, r := range rs {
		n.arrivals = append(n.arrivals, n.w.condemn(r, "duplicate_id"))
	}
}

// What has vanished was taken away, in whatever order all of it is seen.
func TestIDs(t *testing.T) {
	for _, tt := range []struct {
		name   string
		mode   OnDuplicate
		spoil  func(n *sharing)
		want   map[Kind]int64
		detail string
	}{
		{"one after the other", Reject, func(n *sharing) { n.delivered(n.first, n.second, n.third) }, nil, ""},
		{"the second is a duplicate", Reject, func(n *sharing) { n.delivered(n.third); n.duplicate(n.second) }, nil, ""},
		{"both others are", Reject, func(n *sharing) { n.delivered(n.first); n.duplicate(n.second, n.third) }, nil, ""},
		{"the first is cancelled, the second was lost", Reject, func(n *sharing) { n.delivered(n.third) }, map[Kind]int64{Missing: 1}, "nothing that came later"},
		{"the third is lost", Reject, func(n *sharing) { n.delivered(n.first); n.duplicate(n.second) }, map[Kind]int64{Missing: 1}, "nothing that came later"},
		{"nothing was before the first", Reject, func(n *sharing) { n.delivered(n.second, n.third); n.duplicate(n.first) }, map[Kind]int64{GoodDeadLettered: 1}, "nothing had before"},
		{"what is refused when it is read is lost, and nothing can have taken it away", Reject, func(n *sharing) {
			refused := n.w.request("k", "4", "delay-until="+millis(due), "delay-target-topic=forbidden", "delay-id=z")
			n.more = append(n.more, refused, n.w.request("k", "", "delay-cancel=z"))
			n.delivered(n.first, n.second, n.third)
		}, map[Kind]int64{Missing: 1}, "nothing that came later"},
		{"the third takes what the cancel has left", Replace, func(n *sharing) { n.delivered(n.third) }, nil, ""},
		{"the third is lost in the place of others", Replace, func(n *sharing) {}, map[Kind]int64{Missing: 1}, "nothing that came later"},
		{"the others are left out", LeaveOut, func(n *sharing) { n.delivered(n.first) }, nil, ""},
		{"the first is left out", LeaveOut, func(n *sharing) { n.more = append(n.more[:2:2], n.more[3:]...) }, map[Kind]int64{Missing: 1}, "nothing that came later"},
		{"it is not passed on", Reject, func(n *sharing) { n.delivered(n.first, n.second, n.third); n.more = n.more[:5] }, map[Kind]int64{Missing: 1}, "was not passed on"},
		{"it is not passed on, and its id came behind it", Reject, func(n *sharing) {
			late := n.w.append(&kgo.Record{Topic: "requests", Partition: 2, Key: []byte("k"), Timestamp: now, Headers: parse([]string{"delay-until=" + millis(due), "delay-target-topic=orders", "delay-id=y"})})
			n.more = append(n.more[:5:5], late)
			n.delivered(n.first, n.second, n.third, late)
		}, map[Kind]int64{Missing: 1}, "was not passed on"},
		{"it is passed on twice", Reject, func(n *sharing) {
			n.delivered(n.first, n.second, n.third)
			twice := *n.passed
			n.more = append(n.more, n.w.append(&twice))
		}, map[Kind]int64{Doubled: 1}, "passed on to partition 1 2 times"},
		{"no cancel has asked for it", Reject, func(n *sharing) {
			n.delivered(n.first, n.second, n.third)
			n.more = append(n.more[:4:4], n.more[5])
		}, map[Kind]int64{Stray: 1}, "is no cancel of an id"},
		{"a cancel is delivered", Reject, func(n *sharing) { n.delivered(n.first, n.second, n.cancel); n.duplicate(n.third) }, map[Kind]int64{BadDelivered: 1}, "of which nothing becomes"},
		{"what was delivered is remembered", Reject, func(n *sharing) {
			n.remember(time.Hour)
			n.delivered(n.first, n.third)
			n.duplicate(n.second)
		}, nil, ""},
		{"it is forgotten", Reject, func(n *sharing) { n.remember(time.Hour); n.delivered(n.first, n.second, n.third) }, map[Kind]int64{Doubled: 1}, "is remembered"},
		{"what takes the place of others takes that of what is remembered, too", Replace, func(n *sharing) { n.remember(time.Hour); n.delivered(n.first, n.second, n.third) }, nil, ""},
		{"a cancel by its handle ends it, also when it comes too late", Reject, func(n *sharing) {
			n.remember(time.Hour)
			n.delivered(n.first, n.second, n.third)
			n.more = append(n.more, n.w.request("", "", fmt.Sprintf("delay-cancel=1-%d-%s", n.first.Offset, millis(due))))
		}, nil, ""},
		{"its time was over when the next one came, which was due before", Reject, func(n *sharing) {
			n.remember(50 * time.Millisecond)
			n.delivered(n.first, n.second, n.third)
			n.w.config.Routes[0].Timestamp = "due"
			for i, r := range n.arrivals {
				r.Timestamp = due
				set(r, "delay-fired", millis(due.Add(time.Duration(i+1)*100*time.Millisecond)))
			}
		}, nil, ""},
		{"it is not known when they came", Reject, func(n *sharing) {
			n.remember(time.Hour)
			n.delivered(n.first, n.second, n.third)
			n.w.config.Routes[0].Timestamp, n.w.config.Routes[0].Emit = "due", "source"
			for _, r := range n.arrivals {
				r.Timestamp = due
				drop(r, "delay-fired")
				drop(r, "delay-source-timestamp")
			}
		}, nil, ""},
		{"its time is over", Reject, func(n *sharing) { n.remember(time.Millisecond); n.delivered(n.first, n.second, n.third) }, nil, ""},
	} {
		for seed := range uint64(12) {
			t.Run(fmt.Sprintf("%s/%d", tt.name, seed), func(t *testing.T) {
				n := newSharing(tt.mode)
				tt.spoil(n)
				c := newChecker(t, n.w.config)
				feed(c, n.shuffled(seed)...)
				expectFaults(t, c, tt.want, tt.detail)
				if left, passing := c.Counts().Outstanding, tt.detail == "was not passed on"; left != 0 != (tt.want[Missing] > 0) && !passing {
					t.Errorf("%d are still waited for", left)
				}
			})
		}
	}
}

// An id that was given up is known until all is read that was written before it was seen what became of it.
func TestFreed(t *testing.T) {
	var f freed
	f.note(1)
	f.ended(true)
	f.note(2)
	f.ended(false)
	f.note(3)
	for id, want := range map[uint64]bool{1: true, 2: true, 3: true, 4: false} {
		if f.has(id) != want {
			t.Errorf("%d: %v before all was read", id, !want)
		}
	}
	f.ended(true)
	for id, want := range map[uint64]bool{1: false, 2: false, 3: true} {
		if f.has(id) != want {
			t.Errorf("%d: %v", id, !want)
		}
	}
}

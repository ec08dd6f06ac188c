package check

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// bothDelivered are two requests of one id that were both delivered.
func bothDelivered(mode OnDuplicate) *sharing {
	n := newSharing(mode)
	n.more = []*kgo.Record{n.first, n.second}
	n.delivered(n.first, n.second)
	return n
}

// What had been in the partition of its request for long when that was delivered has to have counted.
func TestInTime(t *testing.T) {
	for _, tt := range []struct {
		name    string
		of      func() *outcome
		slack   time.Duration
		faults  int64
		details string
	}{
		{"cancels and a replacement come in vain", func() *outcome {
			n := newNaming()
			n.delivered(n.good)
			n.vain(n.first, n.second, n.instead, n.again)
			return n.outcome
		}, 30 * time.Second, 1, "had been in its partition for 59.005s"},
		{"a replacement comes in vain", func() *outcome {
			n := newNaming()
			n.more = []*kgo.Record{n.good, n.instead}
			n.delivered(n.good)
			n.vain(n.instead)
			return n.outcome
		}, 30 * time.Second, 1, "requests/1@3, which takes it away"},
		{"what was passed on is in the partition, too", func() *outcome {
			n := newNaming()
			n.more = []*kgo.Record{n.good, n.foreign, n.again}
			n.delivered(n.good)
			n.vain(n.again)
			return n.outcome
		}, 30 * time.Second, 1, "requests/1@4, which takes it away"},
		{"they were written shortly before", func() *outcome {
			n := newNaming()
			n.delivered(n.good)
			n.vain(n.first, n.second, n.instead, n.again)
			return n.outcome
		}, 2 * time.Minute, 0, ""},
		{"no time is told", func() *outcome {
			n := newNaming()
			n.delivered(n.good)
			n.vain(n.first, n.second, n.instead, n.again)
			return n.outcome
		}, 0, 0, ""},
		{"one has counted", func() *outcome {
			n := newNaming()
			n.vain(n.second, n.instead, n.again)
			return n.outcome
		}, 30 * time.Second, 0, ""},
		{"it was tried again, so its turn had come before", func() *outcome {
			n := newNaming()
			n.more = append(n.more, n.w.retry(n.good, due, due.Add(time.Minute)))
			as := n.w.deliver(n.good, due)
			as.Headers = append(as.Headers, parse([]string{"delay-tries=1"})...)
			n.arrivals = append(n.arrivals, as)
			n.vain(n.first, n.second, n.instead, n.again)
			return n.outcome
		}, 30 * time.Second, 0, ""},
		{"a cancel of an id comes in vain", func() *outcome {
			n := newSharing(Reject)
			n.delivered(n.first, n.third)
			n.duplicate(n.second)
			return n.outcome
		}, 30 * time.Second, 1, "requests/1@2, which takes it away"},
		{"a cancel of an id has counted", func() *outcome {
			n := newSharing(Reject)
			n.delivered(n.third)
			n.duplicate(n.second)
			return n.outcome
		}, 30 * time.Second, 0, ""},
		{"what has taken its place is delivered, too", func() *outcome { return bothDelivered(Replace).outcome }, 30 * time.Second, 1, "requests/1@1, which takes it away"},
		{"what has its id is delivered, too", func() *outcome { return bothDelivered(Reject).outcome }, 30 * time.Second, 1, "59.005s when requests/1@0 was, which has its id"},
		{"what is to be left out is delivered, too", func() *outcome { return bothDelivered(LeaveOut).outcome }, 30 * time.Second, 1, "59.005s when requests/1@0 was, which has its id"},
		{"with at_least_once an id may be free, and had again after a crash", func() *outcome {
			n := bothDelivered(Reject)
			n.w.config.AllowDoubles = true
			return n.outcome
		}, 30 * time.Second, 0, ""},
		{"what has the id next had it from what lies between", func() *outcome {
			n := newSharing(Reject)
			between := n.w.request("k", "4", "delay-until="+millis(due), "delay-target-topic=forbidden", "delay-replace=x")
			last := n.w.request("k", "5", "delay-until="+millis(due), "delay-target-topic=orders", "delay-id=x")
			n.more = []*kgo.Record{n.first, between, last}
			n.delivered(n.first, last)
			n.arrivals = append(n.arrivals, n.w.condemn(between, "target_not_allowed"))
			return n.outcome
		}, 30 * time.Second, 0, ""},
	} {
		for seed := range uint64(6) {
			t.Run(fmt.Sprintf("%s/%d", tt.name, seed), func(t *testing.T) {
				o := tt.of()
				o.w.config.InTime = tt.slack
				c := newChecker(t, o.w.config)
				for _, r := range o.shuffled(seed) {
					seen := now.Add(time.Second)
					if r.Topic != "requests" {
						seen = due.Add(2 * time.Second)
					}
					c.Observe(r, seen)
				}
				want := map[Kind]int64{}
				if tt.faults > 0 {
					want[BadDelivered] = tt.faults
				}
				expectFaults(t, c, want, tt.details)
			})
		}
	}
}

package retention

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/topics"
)

// The lane is given no more than its share of the budget, and no more in one turn than that of a second.
func TestCarryBudget(t *testing.T) {
	c, _, _ := testCarrier(topics.Route{})
	equal(t, "by records", c.share(Copied{Copies: 100, Bytes: 100}), 200*time.Millisecond)
	equal(t, "by bytes", c.share(Copied{Copies: 1, Bytes: 1 << 19}), time.Second)
	equal(t, "for nothing", c.share(Copied{}), 0)
	equal(t, "in a turn", c.most(), 500)
	c.CarryRecords = 1
	equal(t, "in a turn at least", c.most(), 1)
	c.CarryRecords = 1_000_000
	equal(t, "in a turn at most", c.most(), carryTurn)
}

// An excerpt becomes larger while one that is full takes so long that the budget is not kept pace with, and smaller when that is so no more. What
// lengthens a log does not make it larger, nor do a quota and what was small.
func TestCarryPace(t *testing.T) {
	c, _, _ := testCarrier(topics.Route{})
	c.CarryRecords, c.CarryBytes = 40_000, 40<<20
	pace := func(copies int, bytes int64, took time.Duration, long bool) {
		c.pace(&Excerpt{Most: c.most(), MostBytes: c.mostBytes()}, Copied{Copies: copies, Bytes: bytes}, took, long)
	}
	for i, want := range []int{2000, 4000, 8000, 8000} {
		pace(c.most(), 0, time.Duration(2*c.most())*time.Second/20_000+1, false)
		equal(t, fmt.Sprint("copies after ", i+1), c.most(), want)
		equal(t, fmt.Sprint("bytes after ", i+1), c.mostBytes(), want/1000<<20)
	}
	pace(c.most(), 0, time.Duration(c.most())*time.Second/20_000, false)
	equal(t, "copies when it keeps pace", c.most(), 8000)
	for _, want := range []int{4000, 2000, 1000, 1000} {
		pace(c.most(), 0, 0, false)
		equal(t, "copies when it is faster", c.most(), want)
	}
	pace(0, 1<<20, time.Hour, false)
	equal(t, "when it was full by bytes", c.wide, 1)
	pace(1, 1, time.Hour, false)
	equal(t, "when it was small", c.wide, 1)
	pace(c.most(), 0, time.Hour, true)
	equal(t, "for the length of a log", c.wide, 1)
	c.throttled = func(time.Duration) bool { return true }
	pace(c.most(), 0, time.Hour, false)
	equal(t, "beside a quota", c.wide, 1)
	c.wide, c.CarryRecords, c.CarryBytes = carryWidest, 3000, 100
	equal(t, "copies in a second at most", c.most(), 1500)
	equal(t, "bytes in a second at most, but for one excerpt", c.mostBytes(), excerptBytes)
}

// What could not be carried is tried again with less of it.
func TestCarryLessThatFailed(t *testing.T) {
	c, g, _ := testCarrier(topics.Route{})
	c.wide, c.CarryRecords = 2, 1_000_000
	lane := make(chan *Excerpt)
	c.to = lane
	go func() { (<-lane).Answer <- Copied{Err: errors.New("produce to t: nothing acknowledged for 1s")} }()
	c.handAll(t.Context(), g, []*kgo.Record{{Offset: 10}}, 11, false, time.Now())
	equal(t, "copies in the next turn", c.most(), 2*carryTurn)
}

package processor

import (
	"log/slog"
	"math"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/histogram"
	"github.com/duewheel/duewheel/processor/pending"
	"github.com/duewheel/duewheel/processor/turn"
	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
)

// What a partition shows of itself is counted from what it holds: how much, how much of it is overdue, and when the rest is due.
func TestPictureOfAPartition(t *testing.T) {
	l := testLane(t)
	p := livePartition(t, l)
	rs := []*kgo.Record{
		heavy(0, ms(0), 10), heavy(1, ms(-5), 100), heavy(2, ms(-4), 150), // the first moves W beyond the next two
		heavy(3, ms(30_000), 1000), heavy(4, ms(30*60_000), 2000), heavy(5, ms(5*3600_000), 4000), heavy(6, ms(100*3600_000), 8000),
	}
	l.read(t, p, testNow, rs[0])
	l.happened(p.take(testNow, nil, 10, anyBytes))
	l.read(t, p, testNow, rs[1:]...)
	size := func(of ...int) (n int64) {
		for _, i := range of {
			n += int64(len(pending.AppendRecord(nil, rs[i])))
			if i > 2 {
				n-- // where the log holds what is not late is not counted
			}
		}
		return n
	}
	p.publish(testNow, &l.kit)
	s := p.picture.Load()
	equal(t, "pending", s.Pending, 6)
	equal(t, "bytes pending", s.PendingBytes, size(1, 2, 3, 4, 5, 6))
	equal(t, "overdue", s.Overdue, 2)
	for i, want := range []AgendaEntry{
		{Within: time.Minute, Records: 1, Bytes: size(3)}, {Within: time.Hour, Records: 2, Bytes: size(3, 4)}, {Within: 24 * time.Hour, Records: 3, Bytes: size(3, 4, 5)},
	} {
		if s.Agenda[i] != want {
			t.Errorf("within %v: %+v, want %+v", want.Within, s.Agenda[i], want)
		}
	}
	p.publish(ms(40_000), &l.kit)
	equal(t, "overdue later", p.picture.Load().Overdue, 3)
}

// Lateness is of each record, from when it could have been delivered to the answer.
func TestLatenessOfATurn(t *testing.T) {
	l := testLane(t)
	p := livePartition(t, l)
	c := l.counters
	target := l.targets.Of([]byte("orders"))
	pt := p.part(&pending.Part{})
	out := func(since int64) turn.Output {
		return turn.Output{Kind: turn.OutDelivered, Part: pt, Target: target, Since: since}
	}
	c.outputs(&turn.Turn{Env: l.turnEnv(), Answered: time.UnixMilli(ms(0)), Renderer: &turn.Renderer{Env: l.turnEnv(), Outputs: []turn.Output{out(ms(-3)), out(ms(-3)), out(ms(-40)), out(ms(+10))}}})
	h := target.Counts.Lateness.Snapshot()
	var count int64
	for _, n := range h.Counts {
		count += n
	}
	equal(t, "count", count, 4)
	equal(t, "sum", h.Sum, 0.003+0.003+0.040)
	for i, bound := range histogram.Bounds {
		upTo := int64(0)
		for _, late := range []float64{0.003, 0.003, 0.040, 0} {
			if late <= bound && (i == 0 || late > histogram.Bounds[i-1]) {
				upTo++
			}
		}
		equal(t, "up to a bound", h.Counts[i], upTo)
	}
	equal(t, "delivered to the target", target.Counts.Delivered.Load(), 4)
	equal(t, "delivered of the topic", p.stats.delivered.Load(), 4)
}

// Stats gives each count by its own name, and sums up the lanes.
func TestStatsOfEverything(t *testing.T) {
	p := testProcessor(t, func(c *Config) { c.Lanes = 3 })
	c := p.counters
	for i, of := range p.lanes {
		of.memory.published.Store(int64(100 + i))
	}
	topic := c.topics[testTopic]
	for i, n := range []*atomic.Int64{&topic.accepted, &topic.delivered, &topic.late, &topic.lateOnArrival, &c.rebalances, &c.retried, &c.readAgain, &c.warm} {
		n.Store(int64(i + 1))
	}
	c.turns.add("committed", 11)
	c.checkpoints.add("written", 12)
	c.refused.add("no_due", 13)
	s := p.Stats()
	counted := s.Topics[0]
	equals(t, "of the topic", []int64{counted.Accepted, counted.Delivered, counted.Late, counted.LateOnArrival}, []int64{1, 2, 3, 4})
	equal(t, "rebalances", s.Rebalances, 5)
	equal(t, "retried", s.Retried, 6)
	equal(t, "read again", s.ReadAgain, 7)
	equal(t, "takeovers", s.Takeovers, 8)
	equal(t, "near bytes of all lanes", s.NearBytes, 100+101+102)
	equal(t, "lanes", s.Lanes, 3)
	equal(t, "transactions", s.Transactions["committed"], 11)
	equal(t, "checkpoints", s.Checkpoints["written"], 12)
	equal(t, "refused", s.Refused["no_due"], 13)
}

// Records are counted when they come in, once, however often they are read again; those that were due before they were written are
// counted apart, and what is carried on was counted when it first came.
func TestWhatIsAcceptedIsCountedOnce(t *testing.T) {
	l := testLane(t)
	p := livePartition(t, l)
	early := req(0, ms(1), "orders")
	early.Timestamp = time.UnixMilli(ms(2))
	l.read(t, p, testNow, early, req(1, ms(3), "orders"))
	equal(t, "accepted", p.stats.accepted.Load(), 2)
	equal(t, "late on arrival", p.stats.lateOnArrival.Load(), 1)
	p, err := l.assign(state.Checkpoint{Offset: 2}, 0, 2, 2) // after a restart
	if err != nil {
		t.Fatal(err)
	}
	l.read(t, p, testNow, early, req(1, ms(3), "orders"))
	equal(t, "accepted, when they are read again", p.stats.accepted.Load(), 2)
	equal(t, "late on arrival, when they are read again", p.stats.lateOnArrival.Load(), 1)
}

// The delay that a record asks for is counted once, by its own bounds; what is carried on, and what cannot be read, asks for none.
func TestRequestedDelays(t *testing.T) {
	l := testLane(t)
	p := livePartition(t, l)
	year := 365 * 24 * time.Hour
	early, unread, carried := req(3, ms(-5000), "orders"), req(4, ms(1), "orders"), req(5, ms(9000), "orders")
	unread.Headers[0].Value = []byte("soon")
	carried.Headers, _ = topics.AppendRetry(nil, carried.Headers, testMark, topics.Retry{Due: ms(9000), Attempt: 1, Origin: topics.Origin{Offset: 2, Timestamp: testNow, Due: ms(1)}}, nil)
	l.read(t, p, testNow, req(0, ms(1000), "orders"), req(1, ms(1001), "orders"), req(2, ms(2*year.Milliseconds()), "orders"), early, unread, carried)
	asked := p.stats.requested.Snapshot()
	equals(t, "bounds", asked.Bounds, histogram.Delays)
	want := make([]int64, len(histogram.Delays)+1)
	want[0], want[1], want[len(want)-1] = 2, 1, 1 // a second and 0; a bit more; more than a year
	equals(t, "counts", asked.Counts, want)
	if sum := 1 + 1.001 + 2*year.Seconds(); math.Abs(asked.Sum-sum) > 1e-6 {
		t.Errorf("the sum is %v s, want %v", asked.Sum, sum)
	}
}

// A turn takes from its beginning to its decision.
func TestTimeOfATurn(t *testing.T) {
	c := newCounters(nil, slog.New(slog.DiscardHandler))
	c.turn(&turn.Turn{Tried: []*turn.Part{{}}, Outcome: turn.Aborted, Began: time.Now().Add(-2 * time.Second), Answered: time.UnixMilli(testNow)})
	c.turn(&turn.Turn{Outcome: turn.Done, Began: time.Now().Add(-time.Hour)}) // nothing in it was tried
	if sum := c.turnTime.Snapshot().Sum; sum < 2 || sum > 3 {
		t.Errorf("%v s, want 2", sum)
	}
	equal(t, "aborted", c.turns.snapshot()["aborted"], 1)
	equal(t, "committed", c.turns.snapshot()["committed"], 0)
}

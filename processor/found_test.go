package processor

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/restore"
	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
)

// When the checkpoint of a group has expired and the parser of the route changes at once, what only memory held is read by the parser that it was
// written for: the store names it. What comes later is read by the new one.
func TestOldParserFromTheStore(t *testing.T) {
	l := testLane(t)
	p := livePartition(t, l)
	near := req(1, ms(2000), "orders")
	l.read(t, p, testNow, req(0, ms(farMs), "orders"), near)
	l.happened(p.prepareCommit())
	if err := p.Flush(); err != nil {
		t.Fatal(err)
	}
	r := testRoute(true)
	r.Prefix = "y-later-"
	l.routes[testTopic] = mustRoute(r)
	p, err := l.assign(state.Checkpoint{Offset: -1}, 0, 3, 3)
	if err != nil {
		t.Fatal(err)
	}
	fresh := req(2, ms(1000), "orders")
	fresh.Headers = []kgo.RecordHeader{{Key: "y-later-for", Value: []byte("1s")}, {Key: "y-later-target-topic", Value: []byte("orders")}}
	fresh.Timestamp = time.UnixMilli(testNow)
	l.read(t, p, testNow, near, fresh)
	if err := p.goLive(l.memory.room(len(l.order))); err != nil {
		t.Fatal(err)
	}
	if pt := p.prepareCommit(); pt != nil {
		l.happened(pt)
	}
	equals(t, "parsers", p.Marks().Committed.Parsers, []state.ParserEpoch{{From: 0, Spec: "p1"}, {From: 2, Spec: l.routes[testTopic].Spec()}})
	equals(t, "delivered", offsetsIn(p.take(ms(2000), nil, 10, anyBytes)), []int64{2, 1})
}

// A state directory that another group has used is of no use here, and does no harm: everything is
// read from the log, and what the other group holds stays.
func TestStoreOfAnotherGroup(t *testing.T) {
	l := testLane(t)
	other, err := l.store.Partition(state.PartitionID{Group: "other", Topic: testTopic, TopicID: testID, Partition: testTP.Partition})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(other.Put(state.Key{Due: ms(farMs), Seq: 3}, []byte("theirs")), other.Commit(state.Position{Resume: 9, Offset: 9})); err != nil {
		t.Fatal(err)
	}
	p, err := l.assign(state.Checkpoint{Offset: 9, LowWater: 2}, 0, 9, 9)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "start", p.Marks().Start, 2)
	equal(t, "pending", p.Pending(), 0)
	if pos, ok := other.Position(); !ok || pos.Offset != 9 {
		t.Errorf("the other group's part is at %+v, %v", pos, ok)
	}
}

// The store of a group without a checkpoint may hold what the log has lost: the partition stops, or goes on from where the log was cut.
func TestCutBelowTheStore(t *testing.T) {
	for _, accept := range []bool{false, true} {
		l := testLane(t, func(c *Config) { c.AcceptLoss = accept })
		p := livePartition(t, l)
		l.read(t, p, testNow, req(0, testNow, "orders"), req(1, testNow, "orders"), req(2, ms(farMs), "orders"))
		l.happened(p.take(testNow, nil, 10, anyBytes))
		if err := p.Flush(); err != nil {
			t.Fatal(err)
		}
		until := int64(1)
		again, err := l.bring(testTP, restore.Found{ID: testID, Fetched: kafka.Fetched{Offset: -1}, Bounds: kafka.Bounds{High: 10}, Ended: &until}, false)
		switch {
		case !accept && !errors.Is(err, ErrBeyondLog):
			t.Errorf("error %v, want %v", err, ErrBeyondLog)
		case accept && (err != nil || again.Marks().Committed.Offset != 1 || again.Marks().Committed.LowWater != 1):
			t.Errorf("error %v, checkpoint %+v", err, again.Marks().Committed)
		}
	}
}

// A log may have lost more than what O has passed. What the store has of that is kept, where it has all of it, and only what was never accepted is gone.
func TestLogBeginsAboveO(t *testing.T) {
	for _, c := range []struct {
		name          string
		accept        bool
		offset, begin int64
		says          string // the error; empty: none
		want          state.Checkpoint
		pending       int64
	}{
		{name: "not accepted", offset: 2, begin: 5, says: "has lost what lay from offset 2 to 5, which no replica has taken in"},
		{name: "accepted", accept: true, offset: 2, begin: 5, want: state.Checkpoint{Offset: 5}, pending: 2},
		{name: "another owner has accepted more, not accepted", offset: 3, begin: 5, says: "is needed from offset 0 on and begins at 5"},
		{name: "another owner has accepted more", accept: true, offset: 3, begin: 5, want: state.Checkpoint{Offset: 5, LowWater: 5, GivenUp: 5}},
		{name: "nothing that was never read", offset: 2, begin: 2, want: state.Checkpoint{Offset: 2}, pending: 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := testLane(t, func(cfg *Config) { cfg.AcceptLoss = c.accept })
			p := livePartition(t, l)
			l.read(t, p, testNow, req(0, ms(farMs), "orders"), req(1, ms(farMs), "orders"))
			l.happened(p.prepareCommit())
			if err := p.Flush(); err != nil {
				t.Fatal(err)
			}
			p, err := l.assign(state.Checkpoint{Offset: c.offset}, c.begin, 9, 9)
			if c.says != "" {
				if !errors.Is(err, ErrLogTruncated) || !strings.Contains(err.Error(), c.says) {
					t.Errorf("it says %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			m := p.Marks()
			equal(t, "O, L and what was given up", fmt.Sprint(m.Committed.Offset, m.Committed.LowWater, m.Committed.GivenUp), fmt.Sprint(c.want.Offset, c.want.LowWater, c.want.GivenUp))
			equal(t, "read from", m.Start, c.begin)
			equal(t, "pending", p.Pending(), c.pending)
			p.learnEnds(kafka.Bounds{Start: c.begin, Stable: c.begin, High: 9}, time.Now(), passage{}, testNow)
			p.Pass(9, state.NoEpoch)
			if err := p.goLive(l.memory.room(1)); err != nil {
				t.Fatal(err)
			}
			equal(t, "it is said as soon as it is live", errors.Is(p.loss, ErrLogTruncated), c.pending > 0)
		})
	}
}

// What a queue has sighted is what was there then: a record that was written at the same offset after the log had been cut counts by its own timestamp.
func TestSightingOfWhatTheLogHasLost(t *testing.T) {
	l := testLane(t, func(c *Config) {
		r := testRoute(false)
		r.Target, r.Delay = "orders", time.Hour
		c.Routes = []topics.Route{r}
	})
	before := testNow - time.Hour.Milliseconds()
	md, err := state.Checkpoint{TopicID: testID.Short(), Offset: 5, LowWater: 5, Watermark: state.Key{Due: before, Seq: 20}, Parsers: []state.ParserEpoch{{Spec: "p1+3600000"}}}.Metadata()
	if err != nil {
		t.Fatal(err)
	}
	until := int64(10)
	restored := func() *partition {
		p, err := l.bring(testTP, restore.Found{ID: testID, Fetched: kafka.Fetched{Offset: 5, Metadata: md}, Bounds: kafka.Bounds{High: 30, Epoch: 4}, Ended: &until}, false)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	equal(t, "sighted up to", restored().Marks().Committed.Watermark, state.Key{Due: before, Seq: 10})

	hour, sighted, read := time.Hour.Milliseconds(), l.clock.Now(), l.clock.Now()+3*time.Hour.Milliseconds() // when the log is read, after it was cut while reading paused
	for _, c := range []struct {
		offset int64
		epoch  int32
		since  int64
	}{
		{5, 4, before}, {10, 4, sighted}, {5, 5, sighted + hour}, {30, 5, sighted + hour}, {5, 6, read}, {40, 5, read},
	} {
		p := restored()
		p.learnEnds(kafka.Bounds{High: 40, Epoch: 5}, time.Now(), passage{}, sighted+hour)
		r := req(c.offset, 0, "")
		r.Headers, r.Timestamp, r.LeaderEpoch = nil, time.UnixMilli(read+2*hour), c.epoch
		if _, err := p.Accept(r, read); err != nil {
			t.Fatal(err)
		}
		due := p.Figures(read).NextDue
		equal(t, fmt.Sprintf("the record at %d, of epoch %d, counts as written", c.offset, c.epoch), due-hour, c.since)
	}
}

// Where records of ours may lie at or above O, a catch-up reads up to what was the high watermark when
// the checkpoint had been fetched: their markers may still be on their way. What is asked for later
// is the last stable offset, since a later high watermark may never be reached.
func TestEndOfCatchUp(t *testing.T) {
	l := testLane(t)
	for appended, want := range map[bool][3]int64{false: {6, 7, 12}, true: {9, 9, 12}} {
		p, err := l.assign(state.Checkpoint{Offset: 5, LowWater: 5, Appended: appended}, 0, 6, 9)
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "end", p.logEnd, want[0])
		for i, stable := range []int64{7, 12} {
			l.ends.answered(logEnds{asked: time.Now(), of: map[*partition]kafka.Bounds{p: {Stable: stable, High: 20}}}, testNow)
			equal(t, "end as asked again", p.logEnd, want[i+1])
		}
	}
}

// A record is replayed by the parser that held when it was accepted, and the checkpoint knows
// that parser for as long as a replay may need it (design rule 10).
func TestReplayByTheOldParser(t *testing.T) {
	l := testLane(t)
	p := livePartition(t, l)
	old := req(0, ms(2000), "orders")
	l.read(t, p, testNow, old)
	l.happened(p.prepareCommit())
	r := testRoute(true)
	r.Target, r.Delay = "orders", time.Second
	l.routes[testTopic] = mustRoute(r)
	var err error
	fresh := req(1, 0, "orders")
	fresh.Headers = nil
	for range 2 { // the checkpoint of the second life keeps the parser of the first
		if p, err = l.assign(p.Marks().Committed, 0, 2, 2); err != nil {
			t.Fatal(err)
		}
		l.read(t, p, testNow, old, fresh)
		if err := p.goLive(l.memory.room(len(l.order))); err != nil {
			t.Fatal(err)
		}
		if pt := p.prepareCommit(); pt != nil {
			l.happened(pt)
		}
		equals(t, "parsers", p.Marks().Committed.Parsers, []state.ParserEpoch{{From: 0, Spec: "p1"}, {From: 1, Spec: topics.Spec(time.Second)}})
	}
	pt := p.take(ms(1000), nil, 10, anyBytes)
	equals(t, "first", offsetsIn(pt), []int64{1})
	l.happened(pt)
	pt = p.take(ms(2000), nil, 10, anyBytes)
	equals(t, "then", offsetsIn(pt), []int64{0})
	equals(t, "parsers in the end", pt.To.Parsers, []state.ParserEpoch{{From: 1, Spec: topics.Spec(time.Second)}})
}

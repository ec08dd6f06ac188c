package processor

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/local"
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

// Where records begin to replace what has their id, that holds from O on; where an owner may have refused what lies above, from the end of the log on. It may have at least
// once, whatever the guarantee is by now: its checkpoint names no writer.
func TestParserAtLeastOnce(t *testing.T) {
	for _, c := range []struct {
		guarantee Guarantee
		writer    string
		from      int64
	}{{ExactlyOnce, "before", 2}, {ExactlyOnce, "", 3}, {AtLeastOnce, "", 3}, {AtLeastOnce, "before", 2}} {
		t.Run(string(c.guarantee)+" "+c.writer, func(t *testing.T) {
			l := testLane(t, func(cfg *Config) { cfg.Guarantee = c.guarantee })
			found := checkpointAt(l, state.Checkpoint{Offset: 2, Writer: c.writer})
			r := testRoute(true)
			r.OnDuplicate = topics.DuplicateReplaces
			l.routes[testTopic] = mustRoute(r)
			p, err := l.assign(found, 0, 3, 3)
			if err != nil {
				t.Fatal(err)
			}
			equals(t, "parsers", p.Marks().Committed.Parsers, []state.ParserEpoch{{From: 0, Spec: "p1"}, {From: c.from, Spec: "p1/r"}})
		})
	}
}

// A store that holds what the log has lost since is emptied, whatever offsets say: that log was written on.
func TestStoreOfWhatTheLogHasLost(t *testing.T) {
	for _, c := range []struct {
		name  string
		epoch int32 // of the store
		holds int32 // of the checkpoint
		end   int64 // what the broker says; -1: it does not know that epoch
		last  int64 // and of its own epoch
		mute  bool  // brokers cannot be asked
		kept  bool
	}{
		{"cut below", 4, 5, 49, 60, false, false},
		{"cut above", 4, 5, 50, 60, false, true},
		{"not known any more", 4, 5, -1, 60, false, true},
		{"of the checkpoint's epoch", 5, 5, 0, 60, false, true},
		{"of no epoch", state.NoEpoch, 5, 0, 60, false, true},
		{"the answer is 0 whatever is asked", 4, 5, 0, 0, false, true},
		{"nobody can be asked", 4, 5, 49, 60, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, w := testCluster(t)
			w.epochs(func(epoch int32) int64 {
				if epoch == c.epoch {
					return c.end
				}
				return c.last // of the leader itself
			})
			store, err := l.store.Partition(l.store.ID(testTP, testID))
			if err != nil {
				t.Fatal(err)
			}
			if err := store.Commit(state.Position{Resume: 60, Offset: 50, Epoch: c.epoch}); err != nil {
				t.Fatal(err)
			}
			l.epochs.Tell(!c.mute)
			heir := local.Heir{TP: testTP, Store: store, Reader: l.reader, Epochs: &l.epochs, Log: l.log}
			if err := heir.ForgetLost(t.Context(), state.Checkpoint{Offset: 60, LowWater: 60}, c.holds, 60); err != nil {
				t.Fatal(err)
			}
			_, kept := store.Position()
			equal(t, "kept", kept, c.kept)
			equal(t, "its epoch is asked for where there is no checkpoint", l.storeEpoch(testTP, testID) == c.epoch, kept)
		})
	}
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
		again, _, err := (&restore{kit: &l.kit}).make(testTP, found{id: testID, fetched: kafka.Fetched{Offset: -1}, bounds: kafka.Bounds{High: 10}, ended: &until})
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
		p, _, err := (&restore{kit: &l.kit}).make(testTP, found{id: testID, fetched: kafka.Fetched{Offset: 5, Metadata: md}, bounds: kafka.Bounds{High: 30, Epoch: 4}, ended: &until})
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

// epochs has a broker say where leader epochs end.
func (w *wiretap) epochs(end func(epoch int32) int64) {
	w.answer(kmsg.OffsetForLeaderEpoch, func(req kmsg.Request) (kmsg.Response, error) {
		resp := req.ResponseKind().(*kmsg.OffsetForLeaderEpochResponse)
		for _, of := range req.(*kmsg.OffsetForLeaderEpochRequest).Topics {
			rt := kmsg.NewOffsetForLeaderEpochResponseTopic()
			rt.Topic = of.Topic
			for _, asked := range of.Partitions {
				p := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
				p.Partition, p.LeaderEpoch, p.EndOffset = asked.Partition, asked.LeaderEpoch, end(asked.LeaderEpoch)
				rt.Partitions = append(rt.Partitions, p)
			}
			resp.Topics = append(resp.Topics, rt)
		}
		return resp, nil
	})
}

// What says that a log was cut is believed of a leader that says of its own epoch that it ends where the log does.
func TestLookUpAsksTwice(t *testing.T) {
	const own = 0 // the leader's epoch
	for _, c := range []struct {
		name      string
		epoch     int32
		end, last int64 // of the checkpoint's epoch, and of the leader's own
		asked     int
		ended     int64 // -1: not known
		lacking   error
		fresh     bool // the restore has just begun
	}{
		{"it was not cut", 7, 5, 5, 1, 5, nil, true},
		{"it was cut", 7, 3, 5, 2, 3, nil, true},
		{"the answer is 0 whatever is asked", 7, 0, 0, 2, -1, nil, true},
		{"a leader of before says so", 7, 3, 4, 2, -1, kerr.NotLeaderForPartition, true},
		{"a leader of before does not know it", 7, -1, 5, 1, -1, kerr.NotLeaderForPartition, true},
		{"it is not known", 7, -1, 5, 1, -1, nil, false},
		{"nor older than the leader", own, -1, -1, 1, -1, nil, true},
		{"the checkpoint bears none", -1, 3, 5, 0, -1, nil, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, w := testCluster(t)
			l.epochs.Tell(true)
			asked := 0
			w.epochs(func(epoch int32) int64 {
				if asked++; epoch == own {
					return c.last
				}
				return c.end
			})
			cl := w.client(t)
			for range 5 {
				if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: testTopic, Partition: testTP.Partition}).FirstErr(); err != nil {
					t.Fatal(err)
				}
			}
			of := map[kafka.TopicPartition]found{testTP: {id: testID, fetched: kafka.Fetched{Offset: 4, Epoch: c.epoch}}}
			r := &restore{kit: &l.kit}
			if c.fresh {
				r.began = time.Now()
			}
			lacking, err := r.lookUp(t.Context(), of)
			if err != nil || !errors.Is(lacking, c.lacking) {
				t.Fatal(lacking, err)
			}
			ended := int64(-1)
			if f := of[testTP]; f.ended != nil {
				ended = *f.ended
			}
			equal(t, "where it ended", ended, c.ended)
			if _, is := of[testTP]; is != (c.lacking == nil) {
				t.Errorf("among what was found: %v", is)
			}
			equal(t, "questions", asked, c.asked)
		})
	}
}

// Where a log was cut below the place from which on another parser holds, what is written there now is read by that.
func TestCutReadsByTheNewestParser(t *testing.T) {
	l := testLane(t, func(c *Config) { c.AcceptLoss = true })
	p := &partition{tp: testTP, id: testID, log: l.log}
	c := state.Checkpoint{Offset: 100, LowWater: 20, Parsers: []state.ParserEpoch{{From: 0, Spec: "p1"}, {From: 92, Spec: "p1+1"}, {From: 95, Spec: "p1+2"}}}
	until := int64(90)
	got, err := l.cut(p, c, found{bounds: kafka.Bounds{High: 120}, ended: &until})
	if err != nil {
		t.Fatal(err)
	}
	equals(t, "parsers", got.Parsers, []state.ParserEpoch{{From: 0, Spec: "p1"}, {From: 90, Spec: "p1+2"}})
}

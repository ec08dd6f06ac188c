package processor

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/duewheel/duewheel/processor/internal/answers"
	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/producer"
	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
)

// joined makes a lane a member of its group.
func joined(t *testing.T, l *lane) {
	t.Helper()
	m, err := l.group.Join()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		m.Leave()
		l.group.Wait()
		l.wg.Wait()
	})
	h := <-l.group.Handovers()
	h.Done()
	l.membership = m
}

// brought runs a restore of some partitions to its end and returns what it brings.
func brought(t *testing.T, l *lane, tps ...kafka.TopicPartition) (ps []*partition, lost error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if l.membership == nil {
		joined(t, l)
	}
	l.restore(ctx, tps, 0)
	for {
		select {
		case r := <-l.restores.restored:
			switch {
			case r.lostMembership != nil:
				return ps, r.lostMembership
			case r.p == nil:
				return ps, nil
			}
			ps = append(ps, r.p)
		case <-ctx.Done():
			t.Fatal("the restore does not end")
		}
	}
}

// checkpoints answers fetches of checkpoints; unstable ones are refused to those who ask for
// stable offsets.
func (w *wiretap) checkpoints(t *testing.T, c state.Checkpoint, unstable func() bool) {
	t.Helper()
	md := ""
	if c.Offset >= 0 {
		id := w.c.TopicInfo(testTopic).TopicID
		c.TopicID = kafka.TopicID(id).Short()
		var err error
		if md, err = c.Metadata(); err != nil {
			t.Fatal(err)
		}
	}
	w.answer(kmsg.OffsetFetch, func(kreq kmsg.Request) (kmsg.Response, error) {
		req := kreq.(*kmsg.OffsetFetchRequest)
		if req.RequireStable && unstable != nil && unstable() {
			return answers.Fetch(req, -1, md, kerr.UnstableOffsetCommit.Code), nil
		}
		return answers.Fetch(req, c.Offset, md, 0), nil
	})
}

var otherWriter = state.Checkpoint{Writer: "g-other-0", Parsers: []state.ParserEpoch{{Spec: "p1"}}}

// A writer claims a partition on every assignment unless the checkpoint bears its name, before
// its first transaction, and asks for the end of the log after the checkpoint (design rules 2, 9).
func TestRestoreClaims(t *testing.T) {
	mine := otherWriter
	mine.Writer = "g-0@me"
	for _, c := range []struct {
		name  string
		found state.Checkpoint
		want  bool
	}{
		{"nothing committed", state.Checkpoint{Offset: -1}, true},
		{"another's", otherWriter, true},
		{"its own", mine, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, w := testCluster(t)
			w.checkpoints(t, c.found, nil)
			joined(t, l)
			for len(only(w.take(), "OffsetFetch")) == 0 { // the member's client asks, too, for itself
				runtime.Gosched()
			}
			for range 2 { // on every assignment
				ps, err := brought(t, l, kafka.TopicPartition{Topic: testTopic, Partition: 0})
				if err != nil || len(ps) != 1 {
					t.Fatalf("%d partitions are brought, %v", len(ps), err)
				}
				seen := w.take()
				want := []string{"OffsetFetch stable=true", "ListOffsets"}
				if c.want {
					want = append(want, "OffsetCommit")
				}
				equals(t, "requests", slices.Compact(seen), want)
				equal(t, "writer", ps[0].Marks().Committed.Writer, "g-0@me")
				equal(t, "phase", ps[0].phase, PhaseCatchUp)
			}
		})
	}
}

// Where the stable fetch is refused for longer than markers may take, the writer that the
// checkpoint names is fenced, with all of its ids; where it is not, none is (design rule 9).
func TestRestoreFences(t *testing.T) {
	for _, c := range []struct {
		name     string
		unstable func(asked time.Duration, fenced bool) bool
		want     bool
	}{
		{"stable", func(time.Duration, bool) bool { return false }, false},
		{"markers on their way", func(asked time.Duration, _ bool) bool { return asked < fencePatience/2 }, false},
		{"an open transaction", func(_ time.Duration, fenced bool) bool { return !fenced }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, w := testCluster(t)
			fenced, began := false, time.Now()
			w.checkpoints(t, otherWriter, func() bool { return c.unstable(time.Since(began), fenced) })
			w.answer(kmsg.InitProducerID, func(req kmsg.Request) (kmsg.Response, error) {
				fenced = fenced || *req.(*kmsg.InitProducerIDRequest).TransactionalID == "g-other-0-1"
				return nil, nil
			})
			ps, err := brought(t, l, kafka.TopicPartition{Topic: testTopic, Partition: 0})
			if err != nil || len(ps) != 1 {
				t.Fatalf("%d partitions are brought, %v", len(ps), err)
			}
			seen := w.take()
			var want []string
			if c.want {
				for _, id := range producer.IDsOf("g-other-0") {
					want = append(want, "InitProducerID "+id)
				}
			}
			fences := only(seen, "InitProducerID")
			slices.Sort(fences)
			equals(t, "fenced", fences, want)
			if i := slices.Index(seen, "OffsetCommit"); i < 0 || slices.Contains(seen[:i], "OffsetCommit") || len(only(seen[:i], "InitProducerID")) < len(want) {
				t.Errorf("claimed before: %v", seen)
			}
		})
	}
}

// A transaction that neither fencing nor its timeout ends needs a person, who is told what to do;
// when it is gone, the restore goes on by itself.
func TestRestoreTellsOfHangingTransactions(t *testing.T) {
	l, w := testCluster(t)
	var gone atomic.Bool
	w.checkpoints(t, otherWriter, func() bool { return !gone.Load() })
	joined(t, l)
	tp := kafka.TopicPartition{Topic: testTopic, Partition: 0}
	l.restore(t.Context(), []kafka.TopicPartition{tp}, 0)
	for r := range l.restores.m {
		r.cancel()
		<-r.done
		r = &restore{kit: &l.kit, to: l.restores.restored, member: l.membership, left: map[kafka.TopicPartition]bool{tp: true}, cancel: func() {}, done: make(chan struct{}), began: time.Now().Add(-l.cfg.TransactionTimeout - hangsAfter)}
		go func() {
			defer close(r.done)
			r.run(t.Context(), []kafka.TopicPartition{tp})
		}()
		for why := ""; !strings.Contains(why, ErrHangingTransaction.Error()); {
			why = l.assigned.All()[0].Reason
		}
		gone.Store(true)
		if got := <-l.restores.restored; got.p == nil || got.p.tp != tp {
			t.Errorf("brought %+v", got)
		}
		<-l.restores.restored
		<-r.done
	}
}

// A claim that is not answered ends the membership: a late copy must find its generation gone.
func TestClaimNotAnswered(t *testing.T) {
	l, w := testCluster(t)
	w.checkpoints(t, otherWriter, nil)
	w.cut(kmsg.OffsetCommit)
	ps, lost := brought(t, l, kafka.TopicPartition{Topic: testTopic, Partition: 0})
	if !errors.Is(lost, kafka.ErrUnanswered) || len(ps) != 0 {
		t.Errorf("%d partitions are brought, and the membership is lost by %v", len(ps), lost)
	}
	equal(t, "claims sent", len(only(w.take(), "OffsetCommit")), 1)
}

// Control records are read: they advance the position, and logs end in them.
func TestReaderSeesMarkers(t *testing.T) {
	l, w := testCluster(t)
	cl, err := kgo.NewClient(append(slices.Clone(l.cfg.Client), kgo.TransactionalID("someone"), kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	for _, how := range []kgo.TransactionEndTry{kgo.TryAbort, kgo.TryCommit} {
		if err := cl.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: testTopic}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if err := cl.EndTransaction(t.Context(), how); err != nil {
			t.Fatal(err)
		}
	}
	high := w.c.PartitionInfo(testTopic, 0).HighWatermark
	l.reader.AddConsumePartitions(map[string]map[int32]kgo.Offset{testTopic: {0: kgo.NewOffset().At(0)}})
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	var records, controls []int64
	for last := int64(-1); last < high-1; {
		fs := l.reader.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Fatalf("nothing is read up to %d after %d", high, last)
		}
		fs.EachRecord(func(r *kgo.Record) {
			last = r.Offset
			if r.Attrs.IsControl() {
				controls = append(controls, r.Offset)
			} else {
				records = append(records, r.Offset)
			}
		})
	}
	equals(t, "records", records, []int64{2}) // what was aborted never counts
	if n := len(controls); n == 0 || controls[n-1] != 3 {
		t.Errorf("markers are read at %v, want one at 3", controls)
	}
}

// What is wrong with a checkpoint stops the partition with an error that says what to do;
// without one a group begins where the log does (design rules 11, 12).
func TestCheckpointOf(t *testing.T) {
	good := state.Checkpoint{TopicID: testID.Short(), Offset: 50, LowWater: 20}
	other := good
	other.TopicID = [4]byte{9}
	moved := good
	moved.Identity = "former"
	metadata := func(c state.Checkpoint) string {
		md, err := c.Metadata()
		if err != nil {
			t.Fatal(err)
		}
		return md
	}
	given, err := good.GivenTo("heir")
	if err != nil {
		t.Fatal(err)
	}
	bounds := kafka.Bounds{Start: 10, Stable: 60, High: 70}
	for _, c := range []struct {
		name        string
		offset      int64
		metadata    string
		bounds      kafka.Bounds
		ended       int64 // where the checkpoint's epoch ends; 0: not known
		acceptLoss  bool
		o, l, given int64
		err         error
		says        string
	}{
		{name: "as it is", offset: 50, metadata: metadata(good), bounds: bounds, o: 50, l: 20},
		{name: "nothing committed", offset: -1, bounds: bounds, o: 10, l: 10, given: 10},
		{name: "the topic was made anew", offset: 50, metadata: metadata(other), bounds: bounds, o: 10, l: 10, given: 10},
		{name: "set by a tool", offset: 50, bounds: bounds, err: ErrForeignCheckpoint, says: "duewheel checkpoints reset"},
		{name: "mirrored", offset: 50, metadata: "mm2", bounds: bounds, err: ErrForeignCheckpoint, says: "--to-offset"},
		{name: "of a later version", offset: 50, metadata: "dw2 t=01020304", bounds: bounds, err: state.ErrUnknownVersion},
		{name: "of a group in whose place this one is", offset: 50, metadata: metadata(moved), bounds: bounds, err: ErrOtherIdentity, says: "says former, and the group goes by g: set group.identity to the former"},
		{name: "given to another group", offset: 50, metadata: given, bounds: bounds, err: ErrGiven, says: "group heir takes the place of this one"},
		{name: "corrupt", offset: 50, metadata: "dw1 l=x", bounds: bounds, err: state.ErrCorrupt},
		{name: "above the log", offset: 50, metadata: metadata(good), bounds: kafka.Bounds{Start: 10, Stable: 40, High: 49}, err: ErrBeyondLog},
		{name: "above where the log was cut, though that was written on", offset: 50, metadata: metadata(good), bounds: bounds, ended: 49, err: ErrBeyondLog, says: "from 49 on"},
		{name: "and an operator has decided to go on from there", offset: 50, metadata: metadata(good), bounds: bounds, ended: 49, acceptLoss: true, o: 49, l: 20},
		{name: "cut below what was pending", offset: 50, metadata: metadata(good), bounds: bounds, ended: 15, acceptLoss: true, o: 15, l: 15},
		{name: "cut at both ends", offset: 50, metadata: metadata(good), bounds: kafka.Bounds{Start: 30, Stable: 60, High: 60}, ended: 40, acceptLoss: true, o: 40, l: 30, given: 30},
		{name: "cut above it", offset: 50, metadata: metadata(good), bounds: bounds, ended: 50, o: 50, l: 20},
		{name: "at the end of the log", offset: 50, metadata: metadata(good), bounds: kafka.Bounds{Start: 10, Stable: 50, High: 50}, o: 50, l: 20},
		{name: "the log has lost pending records", offset: 50, metadata: metadata(good), bounds: kafka.Bounds{Start: 21, Stable: 60, High: 60}, err: ErrLogTruncated,
			says: "start the replica that had it last, with its state directory, and stop the others until it has the partition. Give the topic retention.ms=-1, or a longer one. Only when no replica has them, go on without them with `--accept-loss`"},
		{name: "and an operator has decided to go on", offset: 50, metadata: metadata(good), bounds: kafka.Bounds{Start: 55, Stable: 60, High: 60}, acceptLoss: true, o: 55, l: 55, given: 55},
		{name: "trimmed up to what is needed", offset: 50, metadata: metadata(good), bounds: kafka.Bounds{Start: 20, Stable: 60, High: 60}, o: 50, l: 20},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := testLane(t, func(cfg *Config) { cfg.AcceptLoss = c.acceptLoss })
			p := &partition{tp: testTP, id: testID, log: l.log, route: l.routes[testTopic]}
			f := found{id: testID, fetched: kafka.Fetched{Offset: c.offset, Metadata: c.metadata}, bounds: c.bounds}
			if c.ended > 0 {
				f.ended = &c.ended
			}
			got, err := l.checkpointOf(p, f)
			if !errors.Is(err, c.err) || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Fatalf("got %v, want %v that says %q", err, c.err, c.says)
			}
			if err == nil && (got.Offset != c.o || got.LowWater != c.l || got.GivenUp != c.given) {
				t.Errorf("got %+v, want O %d, L %d and %d given up", got, c.o, c.l, c.given)
			}
		})
	}
}

// A group without a checkpoint goes on from what its store knows of the topic.
func TestCheckpointFromTheStore(t *testing.T) {
	l := testLane(t)
	p := livePartition(t, l)
	l.read(t, p, testNow, req(0, testNow, "orders"), req(1, ms(farMs), "orders"))
	l.happened(p.take(testNow, nil, 10, anyBytes))
	if err := p.Flush(); err != nil {
		t.Fatal(err)
	}
	p, err := l.assign(state.Checkpoint{Offset: -1}, 0, 2, 2)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "W", p.Marks().Judge, state.Key{Due: testNow, Seq: 0})
	if p.Marks().Committed.Offset > 2 || p.Marks().Committed.LowWater > 1 {
		t.Errorf("it goes on from %+v", p.Marks().Committed)
	}
	if _, err := l.assign(state.Checkpoint{Offset: -1}, 0, 1, 1); !errors.Is(err, ErrBeyondLog) {
		t.Errorf("a log that ends below what the store knows: %v", err)
	}
	equal(t, "given up", p.Marks().Committed.GivenUp, 0)
	if p, err = l.assign(state.Checkpoint{Offset: -1}, 3, 3, 3); err != nil || p.Marks().Committed.Offset != 3 || p.Marks().Judge != (state.Key{}) {
		t.Errorf("a store below the log is used: %+v, %v", p.Marks().Committed, err)
	}
}

// A store that resumes below its O, since only memory held what lies there or a crash came on the way, is a whole checkpoint: what was carried has its copy below
// that O and its record below that L, and the store alone may have what the log has lost.
func TestCopiesFromTheStore(t *testing.T) {
	for _, c := range []struct {
		name     string
		logStart int64
		onTheWay bool // the next owner has read a part of the log
	}{
		{"the log has all", 0, false},
		{"the log has lost some", 2, false},
		{"in the middle of a catch-up", 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := testLane(t)
			p := livePartition(t, l)
			copied := req(3, 0, "orders")
			copied.Headers, _ = topics.AppendCopy(nil, req(0, ms(farMs), "orders").Headers, p.mark, topics.Copy{Due: ms(farMs), Timestamp: testNow}, nil)
			log := []*kgo.Record{req(0, ms(farMs), "orders"), req(1, ms(farMs+1), "orders"), req(2, ms(1000), "orders"), copied, req(4, ms(500), "orders")}
			l.read(t, p, testNow, log...)
			l.happened(p.take(ms(500), nil, 10, anyBytes))
			must := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			must(p.Flush())
			if c.onTheWay {
				part, err := l.store.Partition(l.store.ID(testTP, testID))
				must(err)
				must(part.Drop())
				p, err = l.assign(p.Marks().Committed, c.logStart, 5, 5)
				must(err)
				l.read(t, p, ms(500), log[1:3]...)
				must(p.Flush())
			}
			p, err := l.assign(state.Checkpoint{Offset: -1}, c.logStart, 5, 6)
			must(err)
			equal(t, "end", p.logEnd, 6)
			for _, r := range log[max(c.logStart, p.Marks().Position):] {
				_, err := p.Accept(r, ms(500))
				must(err)
			}
			must(p.goLive(l.memory.room(len(l.order))))
			must(p.Load(ms(farMs+1), l.memory.room(len(l.order))))
			equals(t, "delivered", offsetsIn(p.take(ms(farMs+1), nil, 10, anyBytes)), []int64{2, 3, 1})
		})
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

// A configuration that changes before anything was accepted by it leaves no trace, and one that
// does not fit into the checkpoint waits.
func TestParsersOfACheckpoint(t *testing.T) {
	l := testLane(t)
	p, err := l.assign(state.Checkpoint{Offset: 7, LowWater: 3, Parsers: []state.ParserEpoch{{From: 0, Spec: "p1+5"}, {From: 7, Spec: "p1+9"}}}, 0, 7, 7)
	if err != nil {
		t.Fatal(err)
	}
	equals(t, "parsers", p.Marks().Committed.Parsers, []state.ParserEpoch{{From: 0, Spec: "p1+5"}, {From: 7, Spec: "p1"}})
	full := state.Checkpoint{Offset: 1 << 40, LowWater: 0}
	for from := int64(0); ; from++ {
		next := full
		next.Parsers = append(slices.Clone(full.Parsers), state.ParserEpoch{From: from, Spec: topics.Spec(time.Duration(from+1) * time.Second)})
		next.TopicID, next.Writer = testID.Short(), "g-0@me"
		if _, err := next.Metadata(); err != nil {
			break
		}
		full = next
	}
	if p, err = l.assign(full, 0, 1<<40, 1<<40); err != nil {
		t.Fatal(err)
	}
	equal(t, "parsers", len(p.Marks().Committed.Parsers), len(full.Parsers))
}

package ahead

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
)

// sight is a cluster with one partition that is looked at.
type sight struct {
	*testing.T
	c  *kfake.Cluster
	cl *kgo.Client
	l  *Looker
	tp kafka.TopicPartition
	id kafka.TopicID
}

func newSight(t *testing.T) *sight {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "requests"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	s := &sight{T: t, c: c, tp: kafka.TopicPartition{Topic: "requests"}, id: kafka.TopicID(c.TopicInfo("requests").TopicID)}
	s.cl = s.client()
	s.l = &Looker{Client: s.cl, Group: "g", Skew: time.Second, Now: time.UnixMilli(testNow)}
	return s
}

func (s *sight) client(opts ...kgo.Opt) *kgo.Client {
	s.Helper()
	cl, err := kgo.NewClient(append(opts, kgo.SeedBrokers(s.c.ListenAddrs()...), kgo.DefaultProduceTopic("requests"))...)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(cl.Close)
	return cl
}

func (s *sight) write(n int) {
	s.Helper()
	for i := range n {
		if err := s.cl.ProduceSync(s.Context(), request(0, testNow+1000*int64(i+1))).FirstErr(); err != nil {
			s.Fatal(err)
		}
	}
}

// write1 writes a record, and returns its offset.
func (s *sight) write1(r *kgo.Record) int64 {
	s.Helper()
	if err := s.cl.ProduceSync(s.Context(), r).FirstErr(); err != nil {
		s.Fatal(err)
	}
	return r.Offset
}

// carry writes a copy of the record that write has made at an offset.
func (s *sight) carry(offset int64) { s.carryBy("g", offset) }

// carryBy is carry of some group.
func (s *sight) carryBy(group string, offset int64) {
	s.Helper()
	due := testNow + 1000*(offset+1)
	r := request(0, due)
	r.Headers, _ = topics.AppendCopy(nil, r.Headers, topics.NewMark(s.id.Short(), group, 0), topics.Copy{Seq: offset, Due: due, Timestamp: r.Timestamp.UnixMilli(), From: offset}, nil)
	if err := s.cl.ProduceSync(s.Context(), r).FirstErr(); err != nil {
		s.Fatal(err)
	}
}

// commit writes a checkpoint, of this topic unless it says of which.
func (s *sight) commit(c state.Checkpoint) {
	s.Helper()
	c.Parsers = []state.ParserEpoch{{Spec: "p1"}}
	if c.TopicID == [4]byte{} {
		c.TopicID = s.id.Short()
	}
	m, err := c.Metadata()
	if err != nil {
		s.Fatal(err)
	}
	o := kadm.Offsets{}
	o.Add(kadm.Offset{Topic: "requests", At: c.Offset, LeaderEpoch: -1, Metadata: m})
	if err := kadm.NewClient(s.cl).CommitAllOffsets(s.Context(), "g", o); err != nil {
		s.Fatal(err)
	}
}

// meanwhile has something happen when the log is read for the nth time.
func (s *sight) meanwhile(nth int64, do func()) {
	var reads atomic.Int64
	s.c.ControlKey(int16(kmsg.Fetch), func(kmsg.Request) (kmsg.Response, error, bool) {
		s.c.KeepControl()
		if reads.Add(1) == nth {
			s.c.SleepControl(do)
		}
		return nil, nil, false
	})
}

func (s *sight) look() *Looked {
	s.Helper()
	got, err := s.l.Look(s.Context(), s.tp, s.id)
	if err != nil {
		s.Fatal(err)
	}
	return got
}

// What an owner resolves while the log is read is not pending: the checkpoint is asked for again before O is passed.
func TestLookFollows(t *testing.T) {
	s := newSight(t)
	s.write(10)
	s.commit(state.Checkpoint{Offset: 5})
	s.meanwhile(1, func() {
		s.commit(state.Checkpoint{Offset: 9, Watermark: state.Key{Due: testNow + 7000, Seq: 6}})
	})
	if got := s.look(); !slices.Equal(offsetsOf(got.Partition), []int64{7, 8, 9}) {
		t.Errorf("pending are %v", offsetsOf(got.Partition))
	}
}

// A coordinator that has just gone refuses connections, or ends them, until another broker has taken its place: that is waited for.
func TestLookWaitsForACoordinator(t *testing.T) {
	s := newSight(t)
	s.write(3)
	s.commit(state.Checkpoint{Offset: 1})
	var asked atomic.Int64
	s.c.ControlKey(int16(kmsg.OffsetFetch), func(kmsg.Request) (kmsg.Response, error, bool) {
		s.c.KeepControl()
		if asked.Add(1) > 2 {
			return nil, nil, false
		}
		return nil, errors.New("the connection ends"), true
	})
	if got := s.look(); !slices.Equal(offsetsOf(got.Partition), []int64{0, 1, 2}) {
		t.Errorf("pending are %v", offsetsOf(got.Partition))
	}
	if asked.Load() <= 2 {
		t.Errorf("asked %d times", asked.Load())
	}
	if !s.l.away.again.IsZero() {
		t.Error("the next one that is away would be waited for as long as this one has left")
	}
}

// A checkpoint that is set back, as `checkpoints reset` does, has all read again.
func TestLookBeginsAnew(t *testing.T) {
	s := newSight(t)
	s.write(6)
	s.commit(state.Checkpoint{Offset: 5, LowWater: 3, Watermark: state.Key{Due: testNow + 4000, Seq: 3}})
	s.meanwhile(1, func() { s.commit(state.Checkpoint{Offset: 0}) })
	if got := s.look(); !slices.Equal(offsetsOf(got.Partition), []int64{0, 1, 2, 3, 4, 5}) {
		t.Errorf("pending are %v", offsetsOf(got.Partition))
	}
	s.commit(state.Checkpoint{Offset: 20})
	if _, err := s.l.Look(t.Context(), s.tp, s.id); !errors.Is(err, ErrBeyondLog) {
		t.Errorf("beyond the log: %v", err)
	}
}

// The checkpoint of a topic that had this name before says nothing of this one: all that the log has is new.
func TestLookAtATopicMadeAnew(t *testing.T) {
	s := newSight(t)
	s.write(4)
	other := s.id.Short()
	other[0]++
	s.commit(state.Checkpoint{TopicID: other, Offset: 3, LowWater: 2, Watermark: state.Key{Due: testNow + 3000, Seq: 2}})
	if got := s.look(); !got.Anew || got.Fresh || !slices.Equal(offsetsOf(got.Partition), []int64{0, 1, 2, 3}) {
		t.Errorf("made anew: %v, pending are %v", got.Anew, offsetsOf(got.Partition))
	}
	// Its end may lie beyond that of this one.
	s.commit(state.Checkpoint{TopicID: other, Offset: 300})
	if got := s.look(); !got.Anew || len(offsetsOf(got.Partition)) != 4 {
		t.Errorf("made anew: %v, pending are %v", got.Anew, offsetsOf(got.Partition))
	}
}

// cut deletes what lies below an offset.
func (s *sight) cut(below int64) {
	s.Helper()
	var o kadm.Offsets
	o.Add(kadm.Offset{Topic: "requests", At: below})
	if rs, err := kadm.NewClient(s.cl).DeleteRecords(s.Context(), o); err != nil || rs.Error() != nil {
		s.Fatal(err, rs.Error())
	}
}

// A log that is cut while it is read, because its owner trims it or by retention, is read again from where it begins now. What was pending
// and is gone is told.
func TestLookAtALogThatIsCut(t *testing.T) {
	for name, c := range map[string]struct {
		low  int64
		lost bool
		want []int64
	}{
		"trimmed, and what is left waits": {4, false, []int64{4, 5, 6, 7, 8, 9}},
		"cut by retention":                {1, true, []int64{4, 5, 6, 7, 8, 9}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSight(t)
			s.write(10)
			s.commit(state.Checkpoint{Offset: 7, LowWater: 1, Watermark: state.Key{Due: testNow + 1000, Seq: 0}})
			s.meanwhile(1, func() {
				s.commit(state.Checkpoint{Offset: 7, LowWater: c.low, Watermark: state.Key{Due: testNow + 1000 + 1000*(c.low-1), Seq: c.low - 1}})
				s.cut(4)
			})
			got := s.look()
			if !slices.Equal(offsetsOf(got.Partition), c.want) || got.Lost != c.lost || got.Bounds.Start != 4 {
				t.Errorf("pending are %v, lost %v, from %d on", offsetsOf(got.Partition), got.Lost, got.Bounds.Start)
			}
		})
	}
}

// What another group has carried belongs to that one: of what has left its log before a group has ever read that, nothing waits in the new one.
func TestLookOfANewGroup(t *testing.T) {
	s := newSight(t)
	s.write(6)
	for _, offset := range []int64{1, 3, 5} {
		s.carryBy("others", offset)
	}
	s.cut(5)
	want := []int64{5}
	if got := s.look(); !slices.Equal(offsetsOf(got.Partition), want) {
		t.Errorf("pending are %v, want %v", offsetsOf(got.Partition), want)
	}
}

// A log that is cut each time it is read cannot be told, and it is not tried for ever.
func TestLookGivesUp(t *testing.T) {
	s := newSight(t)
	s.write(30)
	s.commit(state.Checkpoint{Offset: 25})
	below, asked := int64(0), 0
	s.c.ControlKey(int16(kmsg.Fetch), func(kmsg.Request) (kmsg.Response, error, bool) {
		s.c.KeepControl()
		s.c.SleepControl(func() { asked, below = asked+1, below+1; s.cut(below) })
		return nil, nil, false
	})
	if _, err := s.l.Look(t.Context(), s.tp, s.id); !errors.Is(err, ErrMoving) {
		t.Errorf("got %v", err)
	}
	if asked != tries {
		t.Errorf("it was read %d times", asked)
	}
}

// Of a route with a fixed delay no more is read than was asked for: a few records, or those that are due by then. Of any other all is read, since whatever is due
// first may come last.
func TestLookStopsEarly(t *testing.T) {
	const n = 3000
	for name, c := range map[string]struct {
		kind     string
		enough   func(seen int, last Pending) bool
		from, to int64 // so many records are read
	}{
		"a few":         {"fixed", func(seen int, _ Pending) bool { return seen > 20 }, 21, 25},
		"due by a time": {"fixed", func(_ int, last Pending) bool { return last.Due >= testNow-2900 }, 100, 105},
		"in no order":   {"p1", func(seen int, _ Pending) bool { return seen > 20 }, n, n},
	} {
		t.Run(name, func(t *testing.T) {
			s, route := newSight(t), testRoute(t, c.kind)
			var all []*kgo.Record
			for i := range int64(n) {
				r := &kgo.Record{Timestamp: time.UnixMilli(testNow - 5000 + i), Value: []byte("v")}
				if c.kind != "fixed" {
					r.Headers = request(0, testNow+10_000-i).Headers
				}
				all = append(all, r)
			}
			if err := s.cl.ProduceSync(t.Context(), all...).FirstErr(); err != nil {
				t.Fatal(err)
			}
			s.l.Route = func(string) *topics.Route { return route }
			s.l.Enough = func() func(Pending, bool) bool {
				seen := 0
				return func(last Pending, _ bool) bool { seen++; return c.enough(seen, last) }
			}
			if got := s.look(); got.Stopped != (c.to < n) || got.Records < c.from || got.Records > c.to {
				t.Errorf("read %d records, stopped: %v; want %d to %d", got.Records, got.Stopped, c.from, c.to)
			}
		})
	}
}

// What was aborted is not pending, and does not hold up the reading, also where an open transaction lies before its marker.
func TestLookPassesAborted(t *testing.T) {
	s := newSight(t)
	s.write(2)
	begin := func(id string) *kgo.Client {
		t.Helper()
		cl := s.client(kgo.TransactionalID(id))
		if err := cl.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		if err := cl.ProduceSync(t.Context(), request(0, testNow+9000)).FirstErr(); err != nil {
			t.Fatal(err)
		}
		return cl
	}
	aborted := begin("aborted")
	if err := aborted.EndTransaction(t.Context(), kgo.TryAbort); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		began := time.Now()
		got := s.look()
		if !slices.Equal(offsetsOf(got.Partition), []int64{0, 1}) || time.Since(began) > 5*time.Second {
			t.Errorf("pending are %v, after %v", offsetsOf(got.Partition), time.Since(began))
		}
		begin("open") // and stays so
	}
}

// A transaction that has brought the checkpoint may be open in the log still, and is waited for: what it says of a record counts. What is open for
// long is told, and does not hold up what comes behind it.
func TestLookWaitsForTransactions(t *testing.T) {
	for _, ends := range []bool{true, false} {
		s := newSight(t)
		s.write(4)
		s.commit(state.Checkpoint{Offset: 4})
		cl := s.client(kgo.TransactionalID("turn"))
		if err := cl.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		resolved := &kgo.Record{Headers: topics.Resolve(topics.NewMark(s.id.Short(), "g", 0), 2, testNow+3000, 2)}
		if err := cl.ProduceSync(t.Context(), resolved).FirstErr(); err != nil {
			t.Fatal(err)
		}
		var asked atomic.Int64
		s.c.ControlKey(int16(kmsg.ListOffsets), func(kmsg.Request) (kmsg.Response, error, bool) {
			s.c.KeepControl()
			if asked.Add(1) == 9 && ends {
				s.c.SleepControl(func() {
					if err := cl.EndTransaction(context.Background(), kgo.TryCommit); err != nil {
						t.Error(err)
					}
				})
			}
			return nil, nil, false
		})
		began := time.Now()
		got, again := s.look(), s.look()
		want := map[bool][]int64{true: {0, 1, 3}, false: {0, 1, 2, 3}}[ends]
		if !slices.Equal(offsetsOf(got.Partition), want) || got.Open == ends || again.Open == ends || time.Since(began) > settling+time.Second {
			t.Errorf("it ends: %v; pending are %v, open %v, after %v", ends, offsetsOf(got.Partition), got.Open, time.Since(began))
		}
		s.l = &Looker{Client: s.cl, Group: "g", Skew: time.Second, Now: time.UnixMilli(testNow), Watch: Watch{Offset: 2, Has: true}}
		began = time.Now()
		if traced, err := s.l.Trace(t.Context(), s.tp, s.id, began); err != nil || traced.Open == ends || time.Since(began) > time.Second {
			t.Errorf("it ends: %v; open %v, after %v: %v", ends, traced.Open, time.Since(began), err)
		}
	}
}

// A record that its log loses while it is looked for has no fate, and that is no error.
func TestTraceOfWhatIsCut(t *testing.T) {
	s := newSight(t)
	s.write(20)
	s.commit(state.Checkpoint{Offset: 20, LowWater: 17, Watermark: state.Key{Due: testNow + 17_000, Seq: 16}})
	s.meanwhile(1, func() { s.cut(17) })
	s.l.Watch = Watch{Offset: 15, Has: true}
	got, err := s.l.Trace(t.Context(), s.tp, s.id, time.Now().Add(time.Minute))
	if err != nil || len(got.Fates()) != 0 || got.Bounds.Start != 17 {
		t.Errorf("it has become %+v, %v", got, err)
	}
}

// What lies before a record that an owner has read has no say in what becomes of it, and is not read, however much of it waits.
func TestTraceBeginsAtItsRecord(t *testing.T) {
	s := newSight(t)
	s.write(20)
	s.commit(state.Checkpoint{Offset: 20})
	s.l.Watch = Watch{Offset: 15, Has: true}
	got, err := s.l.Trace(t.Context(), s.tp, s.id, time.Now().Add(time.Minute))
	if err != nil || got.Records != 5 {
		t.Fatalf("read %d records, %v", got.Records, err)
	}
	if f := got.Fates(); len(f) != 1 || f[0].State != IsPending || f[0].Waits.Offset != 15 {
		t.Errorf("it has become %+v", f)
	}
}

// What no owner has read yet is found behind however much that waits. What lies before it has a say in it if it has an id, or replaces another one: for
// half of the time that is looked for.
func TestTraceOfWhatIsNew(t *testing.T) {
	s := newSight(t)
	s.write(1500)
	last := s.write1(request(0, testNow+1, topics.HeaderID, "a"))
	again := s.write1(request(0, testNow+1, topics.HeaderID, "a"))
	instead := s.write1(request(0, testNow+1, topics.HeaderReplace, topics.Handle{Offset: 7, Due: testNow + 8000}.String()))
	for _, tt := range []struct {
		at     int64
		within time.Duration
		want   State
		blind  bool
	}{
		{1400, time.Minute, IsPending, false}, {1400, 0, IsPending, true},
		{last, time.Minute, IsPending, false}, {again, time.Minute, IsDeadLettered, false}, {again, 0, IsPending, true}, {instead, time.Minute, IsPending, false}, {instead, 0, IsPending, true},
	} {
		s.l.Watch = Watch{Offset: tt.at, Has: true}
		got, err := s.l.Trace(t.Context(), s.tp, s.id, time.Now().Add(tt.within))
		if err != nil {
			t.Fatal(err)
		}
		if f := got.Fates(); len(f) != 1 || f[0].State != tt.want || got.Blind() != tt.blind {
			t.Errorf("of offset %d within %v: %+v, blind: %v", tt.at, tt.within, f, got.Blind())
		}
	}
}

// Of records that are read where they lie the log may have lost the first ones. The others are found all the same.
func TestFindInALogThatIsCut(t *testing.T) {
	s := newSight(t)
	s.write(10)
	s.commit(state.Checkpoint{Offset: 10})
	got := s.look()
	s.cut(4)
	var found []int64
	if err := s.l.Find(t.Context(), got, []int64{1, 3, 4, 8}, func(_ int, r *kgo.Record) { found = append(found, r.Offset) }); err != nil || !slices.Equal(found, []int64{4, 8}) {
		t.Errorf("found %v, %v", found, err)
	}
}

// Of a record that its log has lost a copy may wait: it is found by where the record was first, and read where the copy lies. What lies before all that is
// pending is not read for that.
func TestTraceOfWhatWasCarried(t *testing.T) {
	for _, tt := range []struct {
		name    string
		c       state.Checkpoint
		records int64
	}{
		{"and the copy was read", state.Checkpoint{Offset: 21, LowWater: 19, Watermark: state.Key{Due: testNow + 3000, Seq: 3}}, 2},
		{"and the copy was not read yet", state.Checkpoint{Offset: 20, LowWater: 15, Watermark: state.Key{Due: testNow + 3000, Seq: 3}}, 4},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSight(t)
			s.write(20)
			s.carry(15)
			s.commit(tt.c)
			s.cut(17)
			s.l.Watch = Watch{Offset: 15, Has: true}
			got, err := s.l.Trace(t.Context(), s.tp, s.id, time.Now().Add(time.Minute))
			if err != nil {
				t.Fatal(err)
			}
			if f := got.Fates(); len(f) != 1 || f[0].State != IsPending || f[0].Offset != 15 || f[0].Place != 20 || f[0].Waits.Place != 20 || !f[0].Waits.Read {
				t.Errorf("it has become %+v", f)
			}
			if got.Records != tt.records {
				t.Errorf("%d records were read", got.Records)
			}
		})
	}
}

package processor

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/duewheel/duewheel/processor/internal/wiretap"
	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/pending"
	"github.com/duewheel/duewheel/processor/targets"
	"github.com/duewheel/duewheel/processor/turn"
	"github.com/duewheel/duewheel/topics"
)

// cancelOf cancels a request of a partition.
func cancelOf(offset int64, partition int32, of, due int64) *kgo.Record {
	r := req(offset, testNow, "orders")
	r.Headers = []kgo.RecordHeader{{Key: topics.HeaderCancel, Value: []byte(topics.Handle{Partition: partition, Offset: of, Due: due}.String())}}
	return r
}

// decidedTurn is readyTurn after it was decided what cancels do.
func decidedTurn(t *testing.T, l *lane, w *wiretap.Tap, rs ...*kgo.Record) *turn.Turn {
	t.Helper()
	first := req(0, testNow, "orders")
	if prefix := l.cfg.Routes[0].Prefix; prefix != "" {
		for _, r := range append(rs, first) {
			for i, h := range r.Headers {
				r.Headers[i].Key = prefix + strings.TrimPrefix(h.Key, topics.HeaderPrefix)
			}
		}
	}
	tn := readyTurn(t, l, w, first)
	p := partitionOf(tn.Parts[0])
	tn.Tried = tn.Parts // as if it had happened
	l.turnDecided(t.Context(), tn)
	l.read(t, p, testNow, rs...)
	if err := p.Load(testNow, pending.Room{}); err != nil {
		t.Fatal(err)
	}
	pt := p.take(testNow, nil, 1000, anyBytes)
	p.Begin()
	return &turn.Turn{Env: l.turnEnv(), Parts: []*turn.Part{pt}, Member: someone, Began: time.Now(), Cancel: func() {}, Producer: tn.Producer, Renderer: &turn.Renderer{Env: l.turnEnv()}}
}

// A turn of cancels has nothing to write but the checkpoint: a plain commit settles it, and what that does not settle is tried again.
func TestTurnOfCancels(t *testing.T) {
	for _, refused := range []bool{false, true} {
		l, w := testCluster(t)
		tn := decidedTurn(t, l, w, req(1, testNow+1000, "orders"), cancelOf(2, testTP.Partition, 1, testNow+1000), cancelOf(3, testTP.Partition, 1, testNow+1000))
		p := partitionOf(tn.Parts[0])
		w.Take()
		if refused {
			w.Answer(kmsg.OffsetCommit, func(r kmsg.Request) (kmsg.Response, error) {
				resp := r.ResponseKind().(*kmsg.OffsetCommitResponse)
				for _, rt := range r.(*kmsg.OffsetCommitRequest).Topics {
					st := kmsg.NewOffsetCommitResponseTopic()
					st.Topic, st.TopicID = rt.Topic, rt.TopicID
					for _, rp := range rt.Partitions {
						sp := kmsg.NewOffsetCommitResponseTopicPartition()
						sp.Partition, sp.ErrorCode = rp.Partition, kerr.RebalanceInProgress.Code
						st.Partitions = append(st.Partitions, sp)
					}
					resp.Topics = append(resp.Topics, st)
				}
				return resp, nil
			})
		}
		tn.Run(t.Context())
		equals(t, "requests", wiretap.Only(w.Take(), "OffsetCommit", "TxnOffsetCommit", "EndTxn", "Produce"), []string{"OffsetCommit"})
		l.turnDecided(t.Context(), tn)
		effects := l.counters.cancels.snapshot()
		if refused {
			equal(t, "parts that are tried again", len(p.Repeated()), 1)
			equal(t, "O", p.Marks().Committed.Offset, 1)
			for what, n := range effects {
				equal(t, "counted as "+what, n, 0)
			}
			continue
		}
		equal(t, "O", p.Marks().Committed.Offset, 4)
		equal(t, "pending", p.Pending(), 0)
		equal(t, "cancelled", effects["cancelled"], 1)
		equal(t, "unknown", effects["unknown"], 1)
	}
}

// A replacement that comes too late is counted as a cancel is that does, once, when its dead letter is written; a cancel that is dead-lettered
// is not counted twice.
func TestLateReplacementIsCounted(t *testing.T) {
	for _, prefix := range []string{"", "x-wheel-"} {
		route := testRoute(true)
		route.CancelsAnswered, route.Prefix, route.Target = true, prefix, "orders"
		l, w := testCluster(t, func(c *Config) { c.Routes = []topics.Route{route} })
		late := req(1, testNow, "orders")
		late.Headers = append(late.Headers, kgo.RecordHeader{Key: topics.HeaderReplace, Value: []byte(topics.Handle{Partition: testTP.Partition, Due: testNow}.String())})
		tn := decidedTurn(t, l, w, late, cancelOf(2, testTP.Partition, 0, testNow))
		tn.Run(t.Context())
		equal(t, "outcome", tn.Outcome, turn.Done)
		equal(t, "counted before it is decided", l.counters.cancels.snapshot()["too_late"], 0)
		l.turnDecided(t.Context(), tn)
		dead := 0
		for i := range tn.Renderer.Outputs {
			if tn.Renderer.Outputs[i].Kind == turn.OutDeadLetter {
				dead++
			}
		}
		equal(t, "dead letters", dead, 2)
		equal(t, "too late", l.counters.cancels.snapshot()["too_late"], 2)
	}
}

// A cancel of a record of another partition goes there, once, with our mark; one of a partition that is not there is answered.
func TestTurnForwards(t *testing.T) {
	route := testRoute(true)
	route.CancelsAnswered = true
	l, w := testCluster(t, func(c *Config) { c.Routes = []topics.Route{route} })
	asked := func(at time.Time) {
		l.targets.Of([]byte(testTopic)).State.Store(&targets.State{Status: targets.Ready, Partitions: 4, Takes: targets.Limits{MaxBytes: kafka.DefaultMaxBytes}, Asked: at})
	}
	there := cancelOf(1, 2, 7, testNow)
	there.Headers = append(there.Headers, kgo.RecordHeader{Key: "trace", Value: []byte("x")})
	tn := decidedTurn(t, l, w, there, cancelOf(2, 4, 7, testNow))
	asked(time.Now().Add(-time.Minute)) // partitions may have been added since
	if _, err := tn.Renderer.Part(t.Context(), tn.Parts[0], testNow); !errors.Is(err, turn.ErrAsking) {
		t.Fatalf("what is known is old, and the cancel is rendered: %v", err)
	}
	equal(t, "it is looked up now", l.targets.Of([]byte(testTopic)).Hurry.Load(), true)
	asked(time.Now())
	tn.Run(t.Context())
	equal(t, "outcome", tn.Outcome, turn.Done)
	outs := tn.Renderer.Outputs
	if len(outs) != 2 || outs[0].Kind != turn.OutForward || outs[1].Kind != turn.OutDeadLetter {
		t.Fatalf("outputs are %+v", outs)
	}
	r := outs[0].Record
	equal(t, "topic", r.Topic, testTopic)
	equal(t, "partition", r.Partition, 2)
	q, err := topics.ParserFor("p1")
	if err != nil {
		t.Fatal(err)
	}
	got, err := q.Parse(r.Headers, topics.Stamp{}, 100, testMark.In(2))
	if err != nil || got.Kind != topics.KindCancel || !got.Forwarded || got.Handle != (topics.Handle{Partition: 2, Offset: 7, Due: testNow}) {
		t.Errorf("it is read as %+v, %v", got, err)
	}
	equal(t, "what its producer wrote goes along", string(r.Headers[1].Value), "x")
	equal(t, "answer", string(outs[1].Refusal.Code), string(topics.CodeUnknownHandle))
	equal(t, "appended", tn.Parts[0].To.Appended, false) // no owner of this partition has to read up to where it lies
	l.turnDecided(t.Context(), tn)
	effects := l.counters.cancels.snapshot()
	equal(t, "forwarded", effects["forwarded"], 1)
	equal(t, "unknown", effects["unknown"], 1)
}

// A cancel that is passed on to a partition waits for a leader of that one, and for no other; one by an id, which goes to all others, for each.
func TestTurnForwardsBesideALeaderless(t *testing.T) {
	byID := cancelOf(1, 0, 0, 0)
	byID.Headers[0].Value = []byte("id")
	for name, test := range map[string]struct {
		cancel *kgo.Record
		stuck  bool
	}{"to another one": {cancelOf(1, 2, 7, testNow), false}, "to the one without": {cancelOf(1, 1, 7, testNow), true}, "by an id": {byID, true}} {
		l, w := testCluster(t)
		tn := decidedTurn(t, l, w, test.cancel)
		l.targets.Of([]byte(testTopic)).State.Store(&targets.State{
			Status: targets.Troubled, Why: "no leader", Partitions: 4, Sound: []bool{true, false, true, true}, Takes: targets.Limits{MaxBytes: kafka.DefaultMaxBytes}, Asked: time.Now(),
		})
		_, err := tn.Renderer.Part(t.Context(), tn.Parts[0], testNow)
		if _, stuck := errors.AsType[turn.StuckError](err); stuck != test.stuck || !stuck && (err != nil || len(tn.Renderer.Outputs) != 1) {
			t.Errorf("%s: %v, and %d outputs", name, err, len(tn.Renderer.Outputs))
		}
	}
}

// A cancel of an id that is passed on names that id and no other one, whatever it looks like.
func TestTurnForwardsIDAsItIs(t *testing.T) {
	for _, id := range []string{"null", `{"schema":null,"payload":"another"}`} {
		l, w := testCluster(t)
		cancel := cancelOf(1, 0, 0, 0)
		cancel.Headers[0].Value = topics.NameOf(l.cfg.Routes[0].Parser(), []byte(id))
		tn := decidedTurn(t, l, w, cancel)
		l.targets.Of([]byte(testTopic)).State.Store(&targets.State{Status: targets.Ready, Partitions: testTP.Partition + 1, Takes: targets.Limits{MaxBytes: kafka.DefaultMaxBytes}, Asked: time.Now()})
		tn.RenderParts(t.Context(), tn.Parts)
		if len(tn.Renderer.Outputs) != int(testTP.Partition) {
			t.Fatalf("%s: outputs are %+v", id, tn.Renderer.Outputs)
		}
		for _, o := range tn.Renderer.Outputs {
			q, err := new(topics.Parser).Parse(o.Record.Headers, topics.Stamp{}, 100, testMark.In(o.Record.Partition))
			if err != nil || q.Kind != topics.KindCancel || string(q.NamedID) != id {
				t.Errorf("%s: %s is read as %q, %v", id, o.Record.Headers[0].Value, q.NamedID, err)
			}
		}
	}
}

// A cancel of an id that is not pending goes to all other partitions, with the time at which it was written, and is never answered; what
// came with an id that is pending, and is left out, has a resolve record and nothing else.
func TestTurnForwardsIDs(t *testing.T) {
	route := testRoute(true)
	route.CancelsAnswered, route.OnDuplicate = true, topics.DuplicateIgnored
	l, w := testCluster(t, func(c *Config) { c.Routes = []topics.Route{route} })
	cancel, duplicate, passed := cancelOf(1, 0, 0, 0), req(3, testNow+2000, "orders"), cancelOf(4, 0, 0, 0)
	cancel.Headers[0].Value, cancel.Value = []byte("id"), bytes.Repeat([]byte("x"), 100_000)
	first := req(2, testNow+1000, "orders")
	first.Headers = append(first.Headers, kgo.RecordHeader{Key: topics.HeaderID, Value: []byte("a")})
	duplicate.Headers = append(duplicate.Headers, first.Headers[len(first.Headers)-1])
	passed.Headers, _ = topics.AppendForward(nil, []kgo.RecordHeader{{Key: topics.HeaderCancel, Value: []byte("elsewhere")}}, testMark, 2, 5, testNow, nil)
	tn := decidedTurn(t, l, w, cancel, first, duplicate, passed)
	state := targets.State{Status: targets.Ready, Partitions: testTP.Partition + 3, Takes: targets.Limits{MaxBytes: kafka.DefaultMaxBytes}, Asked: time.Now().Add(-time.Minute)}
	ask := func(s targets.State) { l.targets.Of([]byte(testTopic)).State.Store(&s) }
	ask(state)
	if _, err := tn.Renderer.Part(t.Context(), tn.Parts[0], testNow); !errors.Is(err, turn.ErrAsking) {
		t.Fatalf("what is known is old, and the cancel is rendered: %v", err)
	}
	state.Asked = time.Now()
	ask(state)
	if _, err := tn.Renderer.Part(t.Context(), tn.Parts[0], testNow); err != nil {
		t.Fatal(err)
	}
	outs := tn.Renderer.Outputs
	to := map[int32]bool{}
	for _, o := range outs[:len(outs)-1] {
		to[o.Record.Partition] = true
		q, err := new(topics.Parser).Parse(o.Record.Headers, topics.StampOf(o.Record), 100, testMark.In(o.Record.Partition))
		if err != nil || o.Kind != turn.OutForward || !q.Forwarded || string(q.NamedID) != "id" || q.WrittenBy != cancel.Timestamp.UnixMilli() || o.Record.Value != nil {
			t.Errorf("to partition %d: %+v, %v", o.Record.Partition, q, err)
		}
	}
	if len(to) != int(state.Partitions)-1 || to[testTP.Partition] {
		t.Errorf("it goes to the partitions %v of %d", to, state.Partitions)
	}
	equal(t, "what was left out has a resolve record", outs[len(outs)-1].Kind, turn.OutResolve)
	state.Partitions = 1
	ask(state)
	tn.Renderer.Reset()
	tn.Parts[0].TP.Partition = 0
	if _, err := tn.Renderer.Part(t.Context(), tn.Parts[0], testNow); err != nil || len(tn.Renderer.Outputs) != 1 {
		t.Errorf("with one partition: %+v, %v", tn.Renderer.Outputs, err)
	}
	equal(t, "where there is no other partition it is", tn.Parts[0].Items[0].Effect, pending.EffectUnknown)
}

// One that does not fit with one more header is made of what counts, wherever its bulk is, and so is one that brokers refuse for its size.
func TestTurnForwardsWhatIsLarge(t *testing.T) {
	large := make([]byte, kafka.DefaultMaxBytes-120)
	rand.NewChaCha8([32]byte{}).Read(large) // cannot be compressed
	there := topics.Handle{Partition: 2, Offset: 7, Due: testNow}.String()
	for _, c := range []struct {
		name    string
		headers []kgo.RecordHeader
		stays   bool
	}{
		{"an earlier header", []kgo.RecordHeader{{Key: topics.HeaderCancel, Value: large}, {Key: topics.HeaderCancel, Value: []byte(there)}}, false},
		{"white space", []kgo.RecordHeader{{Key: topics.HeaderCancel, Value: append(bytes.Repeat([]byte(" "), len(large)), there...)}}, true},
		{"a name", []kgo.RecordHeader{{Key: string(large), Value: nil}, {Key: topics.HeaderCancel, Value: []byte(there)}}, false},
		{"refused", []kgo.RecordHeader{{Key: "a", Value: []byte("b")}, {Key: topics.HeaderCancel, Value: []byte(there)}}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, w := testCluster(t)
			r := cancelOf(1, 2, 7, testNow)
			r.Headers = c.headers
			tn := decidedTurn(t, l, w, r)
			tn.Parts[0].Items[0].Stays = c.stays
			tn.Run(t.Context())
			outs := tn.Renderer.Outputs
			if tn.Outcome != turn.Done || len(outs) != 1 || outs[0].Kind != turn.OutForward || outs[0].Size > 300 {
				t.Fatalf("%v, %v: %+v", tn.Outcome, tn.Err, outs)
			}
			q, err := topics.ParserFor("p1")
			if err != nil {
				t.Fatal(err)
			}
			if got, err := q.Parse(outs[0].Record.Headers, topics.Stamp{}, 100, testMark.In(2)); err != nil || !got.Forwarded || got.Handle.Offset != 7 {
				t.Errorf("it is read as %+v, %v", got, err)
			}
		})
	}
}

// When a plain commit was refused for one partition, the turn that was rendered ahead of it is put back: it says that the refused part has
// happened.
func TestRefusedCancelsPutBackWhatIsAhead(t *testing.T) {
	l, w := testCluster(t)
	tn := decidedTurn(t, l, w, req(1, testNow+1000, "orders"), cancelOf(2, testTP.Partition, 1, testNow+1000), cancelOf(3, testTP.Partition, 1, testNow+1000))
	p := partitionOf(tn.Parts[0])
	first, second := tn.Parts[0].Split(1)
	tn.Parts = []*turn.Part{p.part(first)}
	tn.Tried, tn.Plain, tn.Outcome = tn.Parts, true, turn.Done
	tn.Refused = map[*turn.Part]error{tn.Parts[0]: kerr.UnknownTopicID}
	ahead := &turn.Turn{Env: l.turnEnv(), Parts: []*turn.Part{p.part(second)}, Begin: make(chan bool, 1), Cancel: func() {}}
	p.Begin()
	l.turns.inFlight, l.turns.ahead = tn, ahead
	began := make(chan bool, 1)
	go func() {
		began <- <-ahead.Begin
		l.turns.decided <- ahead
	}()
	l.turns.conclude(t.Context(), l.order, tn, member{})
	equal(t, "what is ahead begins", <-began, false)
	parts := p.Repeated()
	if len(parts) != 2 || parts[0].To.Offset != first.To.Offset || parts[1].To.Offset != second.To.Offset {
		t.Errorf("to be tried again are %d parts", len(parts))
	}
}

// member is a stay of a lane that the group has.
type member struct{ outsider }

func (member) Member() kafka.Member { return someone }

// At least once, the resolve record of a dead letter is not written before that is acknowledged.
func TestResolveFollowsItsDeadLetter(t *testing.T) {
	for _, refused := range []bool{true, false} {
		l, w := testCluster(t, func(c *Config) { c.Guarantee, c.Routes = AtLeastOnce, []topics.Route{testRoute(true)} })
		l.targets.Of([]byte("bills")).State.Store(&targets.State{Status: targets.Ready, Partitions: 4, Takes: targets.Limits{MaxBytes: kafka.DefaultMaxBytes}})
		tn := readyTurn(t, l, w, req(0, testNow+1000, "elsewhere"))
		if refused {
			refuse(w, testTopic+".dead", kerr.InvalidRecord, nil)
		}
		tn.Run(t.Context())
		want := 2 // one after the other
		if refused {
			want = 1
		}
		equal(t, "requests to produce", len(wiretap.Only(w.Take(), "Produce")), want)
		p := partitionOf(tn.Parts[0])
		l.turnDecided(t.Context(), tn)
		equal(t, "resolved", p.Marks().OwnEnd > 0, !refused)
	}
}

// A record of a retry route goes to its topic once more when it is not known when it came, and to the parking topic in the end.
func TestTurnOfRetryRoute(t *testing.T) {
	route := testRoute(false)
	route.Retry = &topics.Retrying{Backoff: topics.Backoff{Initial: 3 * time.Second, Factor: 2, Max: time.Hour}, MaxAttempts: 2, FromHeaders: true, Parking: "bills", Strip: topics.ErrorHeaders}
	l, w := testCluster(t, func(c *Config) { c.Routes = []topics.Route{route} })
	l.targets.Of([]byte(route.Retry.Parking)).State.Store(&targets.State{Status: targets.Ready, Partitions: 4, Takes: targets.Limits{MaxBytes: kafka.DefaultMaxBytes}})
	failed := func(offset int64, attempt string) *kgo.Record {
		r := req(offset, testNow, "orders")
		r.Headers = []kgo.RecordHeader{{Key: "__connect.errors.topic", Value: []byte("orders")}, {Key: topics.HeaderAttempt, Value: []byte(attempt)}}
		return r
	}
	tn := readyTurn(t, l, w, failed(0, "1"), failed(1, "2"))
	tn.Run(t.Context())
	if tn.Outcome != turn.Done {
		t.Fatal(tn.Outcome, tn.Err)
	}
	byKind := map[turn.Kind]*kgo.Record{}
	for _, o := range tn.Renderer.Outputs {
		byKind[o.Kind] = o.Record
	}
	again, parked := byKind[turn.OutPostponed], byKind[turn.OutDeadLetter]
	if len(byKind) < 2 || again == nil || parked == nil {
		t.Fatalf("outputs are %+v", tn.Renderer.Outputs)
	}
	equal(t, "parked in", parked.Topic, route.Retry.Parking)
	q, err := mustRoute(route).Parser().Parse(again.Headers, topics.Stamp{}, 100, testMark)
	if err != nil || !q.Retry || q.Due != testNow+6000 || q.Round != 1 || q.Origin.Offset != 0 || q.Origin.Due != q.Due {
		t.Errorf("appended again is %+v, %v", q, err)
	}
	equal(t, "retried because of a target", l.counters.retried.Load(), 0)
}

// A late record that was taken away has a resolve record as long as O has not passed what has done it.
func TestTakenAwayByWhatLiesAhead(t *testing.T) {
	l, w := testCluster(t)
	tn := readyTurn(t, l, w)
	pt := tn.Parts[0]
	it := &pt.Items[0]
	it.By = 5
	for _, tt := range []struct{ o, want int64 }{{6, 0}, {5, 1}, {4, 1}} {
		pt.To.Offset = tt.o
		r := &turn.Renderer{Env: l.turnEnv()}
		if _, err := r.Part(t.Context(), pt, testNow); err != nil {
			t.Fatal(err)
		}
		equal(t, "resolve records", int64(len(r.Outputs)), tt.want)
	}
}

// A partition that has something due learns how many others a cancel by an id goes to, as far as that is known.
func TestCancelsForAllKnowHowMany(t *testing.T) {
	l := testLane(t)
	s := newSelection(&l.kit)
	equal(t, "other partitions, not looked up", s.others(testTopic), pending.UnknownOthers)
	l.targets.Of([]byte(testTopic)).State.Store(&targets.State{Status: targets.Ready, Partitions: 4})
	equal(t, "other partitions", s.others(testTopic), 3)
	p := livePartition(t, l)
	cancel := func(offset int64) *kgo.Record {
		return &kgo.Record{Offset: offset, Timestamp: time.UnixMilli(testNow), Headers: []kgo.RecordHeader{{Key: topics.HeaderCancel, Value: []byte("x")}}}
	}
	l.read(t, p, testNow, cancel(0), cancel(1), cancel(2), cancel(3))
	if err := p.Load(testNow, l.memory.room(1)); err != nil {
		t.Fatal(err)
	}
	parts, left, _ := s.share([]*partition{p}, testNow, batch{records: 7, bytes: anyBytes})
	if len(parts) != 1 || len(parts[0].Items) != 2 || left.records != 1 {
		t.Errorf("taken are %+v, with room for %d more records", parts, left.records)
	}
}

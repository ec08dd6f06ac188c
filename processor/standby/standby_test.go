package standby

import (
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/local"
	"github.com/duewheel/duewheel/processor/pending"
	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
)

// newStandby is one of the test's partition, which has not got its store.
func newStandby(e *Env) *standby {
	return &standby{Heir: local.Heir{TP: testTP, Route: e.Routes[testTopic], Epochs: e.Epochs, Log: e.Log}, id: testID, mark: testMark}
}

// followed is a standby of the test's partition that has followed a checkpoint from the beginning.
func followed(t *testing.T, e *Env, c state.Checkpoint, rs ...*kgo.Record) *standby {
	t.Helper()
	b := newStandby(e)
	var err error
	if b.Store, err = e.Store.Partition(e.Store.ID(testTP, testID)); err != nil {
		t.Fatal(err)
	}
	if err := b.open(t.Context(), checkpointAt(e, c), 0); err != nil {
		t.Fatal(err)
	}
	if err := b.read(rs); err != nil {
		t.Fatal(err)
	}
	return b
}

// checkpointAt completes a checkpoint of the test's partition.
func checkpointAt(e *Env, c state.Checkpoint) state.Checkpoint {
	c.TopicID = testID.Short()
	c.Parsers = pending.WithParser(state.Checkpoint{}, e.Routes[testTopic].Spec(), 0)
	return c
}

func (b *standby) follows(t *testing.T, e *Env, c state.Checkpoint) (jumped bool) {
	t.Helper()
	jumped, err := b.Follow(checkpointAt(e, c))
	if err != nil {
		t.Fatal(err)
	}
	return jumped
}

// stored lists the offsets of all that the store holds, in the order of keys.
func (b *standby) stored(t *testing.T) []int64 {
	t.Helper()
	var out []int64
	if err := b.Store.Scan(state.Key{}, func(k state.Key, _ []byte) bool { out = append(out, k.Seq); return true }); err != nil {
		t.Fatal(err)
	}
	return out
}

// A standby never gets ahead of its owner: what lies at or above O waits until O has passed it.
func TestStandbyStaysBelowO(t *testing.T) {
	e := testEnv(t)
	b := followed(t, e, state.Checkpoint{Offset: 2}, req(0, ms(10), "orders"), req(1, ms(20), "orders"), req(2, ms(30), "orders"), req(3, ms(40), "orders"))
	equals(t, "stored", b.stored(t), []int64{0, 1})
	equal(t, "position", b.Marks().Position, 2)
	b.follows(t, e, state.Checkpoint{Offset: 3})
	equals(t, "stored", b.stored(t), []int64{0, 1, 2})
	equal(t, "records ahead", b.Waiting(), 1)
	pos, _ := b.Store.Position()
	equal(t, "the store's position", pos, state.Position{Resume: 3, Offset: 3, Parsers: "0:p1"})
}

// A process that is killed while its standby takes in a resolve record reads this record again: what it names must not come back.
func TestStandbyKilledWhileItResolves(t *testing.T) {
	e := testEnv(t)
	resolve := &kgo.Record{Topic: testTopic, Offset: 2, Headers: topics.Resolve(testMark, 1, ms(20), 1)}
	carried := req(3, 0, "orders")
	carried.Headers, _ = topics.AppendCopy(nil, req(0, ms(10), "orders").Headers, testMark, topics.Copy{Due: ms(10), Timestamp: testNow}, nil)
	c := state.Checkpoint{Offset: 4}
	killed := followed(t, e, c, req(0, ms(10), "orders"), req(1, ms(20), "orders"))
	for _, r := range []*kgo.Record{resolve, carried} { // the store is asked for a copy's record, and has to know by then what came before
		if _, err := killed.Accept(r); err != nil {
			t.Fatal(err)
		}
	}
	b := followed(t, e, c)
	equal(t, "position", b.Marks().Position, 2)
	if err := b.read([]*kgo.Record{resolve}); err != nil {
		t.Fatal(err)
	}
	equals(t, "stored", b.stored(t), []int64{0})
}

// What a lane has left in the store is counted once it was read again, and not at all when it is at or below W: a standby that begins
// with it must not take out of its count what is not in there.
func TestStandbyFindsMoreThanItCounts(t *testing.T) {
	for _, c := range []struct {
		name   string
		resume int64 // of what the lane has left
		then   func(t *testing.T, e *Env)
	}{
		{"trimmed late and resolved", 2, func(t *testing.T, e *Env) {
			resolve := &kgo.Record{Topic: testTopic, Offset: 3, Headers: topics.Resolve(testMark, 0, ms(10), 0)}
			b := followed(t, e, state.Checkpoint{Offset: 4, Watermark: state.Key{Due: ms(10), Seq: 0}}, req(2, ms(30), "orders"), resolve)
			equal(t, "pending", int(b.Pending()), 2)
		}},
		{"not read again when W passes it", 1, func(t *testing.T, e *Env) {
			b := followed(t, e, state.Checkpoint{Offset: 2})
			b.follows(t, e, state.Checkpoint{Offset: 2, Watermark: state.Key{Due: ms(20), Seq: 1}})
			equal(t, "pending", int(b.Pending()), 0)
		}},
		{"not read again when it is handed over", 1, func(t *testing.T, e *Env) {
			b := followed(t, e, state.Checkpoint{Offset: 2})
			got, ok, err := b.HandOver(b.Store, checkpointAt(e, state.Checkpoint{Offset: 2, Watermark: state.Key{Due: ms(20), Seq: 1}}))
			if err != nil || !ok {
				t.Fatal(ok, err)
			}
			equal(t, "pending", got.Pending(), 0)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := testEnv(t)
			before := followed(t, e, state.Checkpoint{Offset: 2}, req(0, ms(10), "orders"), req(1, ms(20), "orders"))
			if err := before.Store.Commit(state.Position{Resume: c.resume, Offset: 2}); err != nil {
				t.Fatal(err)
			}
			c.then(t, e)
		})
	}
}

// What the owner has resolved is forgotten: by W, by a resolve record, or because it was late.
func TestStandbyForgetsWhatIsResolved(t *testing.T) {
	e := testEnv(t)
	resolved := req(3, ms(50), "orders")
	resolve := &kgo.Record{Topic: testTopic, Offset: 4, Timestamp: resolved.Timestamp, Headers: topics.Resolve(testMark, 3, ms(50), 3)}
	b := followed(t, e, state.Checkpoint{Offset: 5},
		req(0, ms(10), "orders"), req(1, ms(20), "orders"), control(2), resolved, resolve)
	equals(t, "stored", b.stored(t), []int64{0, 1})
	b.follows(t, e, state.Checkpoint{Offset: 6, Watermark: state.Key{Due: ms(10), Seq: 0}})
	equals(t, "stored", b.stored(t), []int64{1})
	if err := b.read([]*kgo.Record{req(5, ms(9), "orders")}); err != nil { // late
		t.Fatal(err)
	}
	equals(t, "stored", b.stored(t), []int64{1})
	equal(t, "counted", int(b.Pending()), 1)
	equal(t, "position", b.Marks().Position, 6)
}

// What lies below L is resolved, by what the standby has not read: it begins anew there. So it does
// when the checkpoint was set back, and when nothing is pending any more.
func TestStandbyBeginsAnew(t *testing.T) {
	for _, c := range []struct {
		name string
		to   state.Checkpoint
		at   int64
	}{
		{"overtaken", state.Checkpoint{Offset: 9, LowWater: 5, Watermark: state.Key{Due: ms(1)}}, 5},
		{"set back", state.Checkpoint{Offset: 1}, 0},
		{"W set back", state.Checkpoint{Offset: 4}, 0},
		{"resolved by what lies ahead", state.Checkpoint{Offset: 2, LowWater: 2, Watermark: state.Key{Due: ms(1)}}, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := testEnv(t)
			b := followed(t, e, state.Checkpoint{Offset: 2, Watermark: state.Key{Due: ms(1)}}, req(0, ms(10), "orders"), req(1, ms(20), "orders"))
			equal(t, "counted", int(b.Pending()), 2)
			if c.name == "overtaken" { // what it has may have been carried: it reads what was accepted first
				equal(t, "begins anew", b.follows(t, e, c.to), false)
				if err := b.read([]*kgo.Record{req(8, ms(0), "orders")}); err != nil {
					t.Fatal(err)
				}
			}
			if !b.follows(t, e, c.to) {
				t.Error("it goes on reading where it was")
			}
			equals(t, "stored", b.stored(t), nil)
			equal(t, "counted", int(b.Pending()), 0)
			equal(t, "position", b.Marks().Position, c.at)
		})
	}
}

// L moves with each record that is resolved, mostly past what the owner had accepted half a second ago.
// A standby that has read that far goes on: to begin anew each time would be to fetch all of it twice.
func TestStandbyGoesOnBehindL(t *testing.T) {
	e := testEnv(t)
	b := followed(t, e, state.Checkpoint{Offset: 2}, req(0, ms(10), "orders"), req(1, ms(20), "orders"), req(2, ms(30), "orders"), req(3, ms(90), "orders"), req(4, ms(95), "orders"))
	for _, c := range []struct {
		to      state.Checkpoint
		counted int
	}{
		{state.Checkpoint{Offset: 4, LowWater: 3, Watermark: state.Key{Due: ms(30), Seq: 2}}, 1},
		{state.Checkpoint{Offset: 5, LowWater: 5, Watermark: state.Key{Due: ms(95), Seq: 4}}, 0},
	} {
		if b.follows(t, e, c.to) {
			t.Errorf("it begins anew at %+v", c.to)
		}
		equal(t, "position", b.Marks().Position, c.to.Offset)
		equal(t, "counted", int(b.Pending()), c.counted)
	}
}

// A lane takes over with what the standby has counted, less what was resolved since, and reads
// from where the standby was. Where the checkpoint is not one that it could follow, it does not.
func TestHandOver(t *testing.T) {
	at := state.Checkpoint{Offset: 3, Watermark: state.Key{Due: ms(1)}}
	for _, c := range []struct {
		name    string
		to      state.Checkpoint
		pending int
		ok      bool
	}{
		{"as it was", at, 3, true},
		{"gone on", state.Checkpoint{Offset: 8, Watermark: state.Key{Due: ms(20), Seq: 1}}, 1, true},
		{"all resolved", state.Checkpoint{Offset: 3, Watermark: state.Key{Due: ms(30), Seq: 2}, LowWater: 3}, 0, true},
		{"overtaken", state.Checkpoint{Offset: 9, Watermark: state.Key{Due: ms(1)}, LowWater: 4}, 0, false},
		{"set back", state.Checkpoint{Offset: 2, Watermark: state.Key{Due: ms(1)}}, 0, false},
		{"W set back", state.Checkpoint{Offset: 4}, 0, false},
		{"it has not read up to L", state.Checkpoint{Offset: 9, Watermark: state.Key{Due: ms(30), Seq: 2}, LowWater: 4}, 0, false},
		{"given up", state.Checkpoint{Offset: 3, Watermark: state.Key{Due: ms(1)}, GivenUp: 1}, 0, false},
		{"nothing is pending by it", state.Checkpoint{Offset: 3, Watermark: state.Key{Due: ms(1)}, LowWater: 3}, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := testEnv(t)
			b := followed(t, e, at, req(0, ms(10), "orders"), req(1, ms(20), "orders"), req(2, ms(30), "orders"))
			store, err := e.Store.Partition(e.Store.ID(testTP, testID))
			if err != nil {
				t.Fatal(err)
			}
			got, ok, err := b.HandOver(store, checkpointAt(e, c.to))
			if err != nil || ok != c.ok {
				t.Fatalf("ok %v, want %v; error %v", ok, c.ok, err)
			}
			if ok {
				equal(t, "start", got.Start, 3)
				equal(t, "pending", got.Pending(), c.pending)
			}
		})
	}
}

// Before a standby is taken over it takes in what its owner has accepted: the log may not have that any more. A checkpoint that was set back changes nothing.
func TestStandbyAdvances(t *testing.T) {
	e := testEnv(t)
	b := followed(t, e, state.Checkpoint{Offset: 1}, req(0, ms(10), "orders"), req(1, ms(20), "orders"), req(2, ms(30), "orders"))
	equals(t, "stored", b.stored(t), []int64{0})
	for _, c := range []struct {
		to       state.Checkpoint
		stored   []int64
		position int64
		offset   int64
	}{
		{state.Checkpoint{Offset: 2}, []int64{0, 1}, 2, 2},
		{state.Checkpoint{Offset: 1}, []int64{0, 1}, 2, 2}, // by which what it lacks would count as resolved
		{state.Checkpoint{Offset: 9, Watermark: state.Key{Due: ms(10)}}, []int64{1, 2}, 3, 9},
	} {
		if err := b.Advance(checkpointAt(e, c.to)); err != nil {
			t.Fatal(err)
		}
		equals(t, "stored", b.stored(t), c.stored)
		equal(t, "position", b.Marks().Position, c.position)
		equal(t, "O", b.Marks().Committed.Offset, c.offset)
	}
}

// When a lane has opened the store, a standby that goes on all the same writes nothing any more.
func TestStandbyEnds(t *testing.T) {
	e := testEnv(t)
	b := followed(t, e, state.Checkpoint{Offset: 1}, req(0, ms(10), "orders"))
	if _, err := e.Store.Partition(e.Store.ID(testTP, testID)); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Follow(checkpointAt(e, state.Checkpoint{Offset: 2})); err == nil {
		err = b.read([]*kgo.Record{req(1, ms(20), "orders")})
		if !errors.Is(err, state.ErrEnded) {
			t.Errorf("error %v, want %v", err, state.ErrEnded)
		}
	}
}

// A standby that the store does not agree with is not taken over.
func TestHandOverOfAnotherStore(t *testing.T) {
	e := testEnv(t)
	b := followed(t, e, state.Checkpoint{Offset: 1}, req(0, ms(10), "orders"))
	store, err := e.Store.Partition(e.Store.ID(testTP, testID))
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Drop(); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := b.HandOver(store, checkpointAt(e, state.Checkpoint{Offset: 1})); ok || err != nil {
		t.Errorf("ok %v, error %v", ok, err)
	}
}

// What the local store alone holds, because the log has lost it, is left alone.
func TestStandbyLeavesASoleStoreAlone(t *testing.T) {
	e := testEnv(t)
	store, err := e.Store.Partition(e.Store.ID(testTP, testID))
	if err != nil {
		t.Fatal(err)
	}
	for offset := range int64(20) {
		if err := store.Put(state.Key{Due: ms(farMs), Seq: 10 + offset}, pending.AppendRecord(nil, req(10+offset, ms(farMs), "orders"))); err != nil {
			t.Fatal(err)
		}
	}
	if err := store.Commit(state.Position{Resume: 30, Offset: 20, LowWater: 5}); err != nil {
		t.Fatal(err)
	}
	b := newStandby(e)
	if b.Store, err = e.Store.Partition(e.Store.ID(testTP, testID)); err != nil {
		t.Fatal(err)
	}
	before := len(b.stored(t))
	if err := b.open(t.Context(), checkpointAt(e, state.Checkpoint{Offset: 20, LowWater: 5}), 15); !errors.Is(err, local.ErrLogTruncated) {
		t.Errorf("error %v, want %v", err, local.ErrLogTruncated)
	}
	equal(t, "records in the store", len(b.stored(t)), before)
}

// A checkpoint without a parser is the owner's to mend.
func TestStandbyWithoutParser(t *testing.T) {
	e := testEnv(t)
	b := followed(t, e, state.Checkpoint{Offset: 0})
	if _, err := b.Follow(state.Checkpoint{TopicID: testID.Short(), Offset: 2}); !errors.Is(err, pending.ErrNoParser) {
		t.Errorf("error %v, want %v", err, pending.ErrNoParser)
	}
}

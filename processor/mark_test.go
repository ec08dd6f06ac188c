package processor

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/pending"
	"github.com/duewheel/duewheel/processor/targets"
	"github.com/duewheel/duewheel/processor/turn"
	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
)

// retryOf is a retry record of a group, of the request at offset 0 that it is given.
func retryOf(m topics.Mark, q *kgo.Record, offset, due int64) *kgo.Record {
	r := *q
	r.Offset = offset
	r.Headers, _ = topics.AppendRetry(nil, q.Headers, m, topics.Retry{
		Due: due, Attempt: 1, Origin: topics.Origin{Offset: q.Offset, Timestamp: q.Timestamp.UnixMilli(), Due: testNow},
	}, nil)
	return &r
}

// marks are those of this group, and of others that the test's partition may meet.
var (
	otherGroup     = topics.NewMark(testID.Short(), "h", testTP.Partition)
	otherPartition = topics.NewMark(testID.Short(), "g", testTP.Partition+1)
	otherTopic     = topics.NewMark([4]byte{9}, "g", testTP.Partition)
)

// Two groups share a log and nothing else: what another one has refused stays pending here, and
// what it tries again is no request (design rule 10). What was copied here from elsewhere is the
// request that it was.
func TestWhatOthersWroteForThemselves(t *testing.T) {
	for _, c := range []struct {
		name     string
		mark     topics.Mark
		resolved bool    // record 0
		pending  []int64 // offsets
	}{
		{"this group", testMark, true, []int64{2}},
		{"another group", otherGroup, false, []int64{0}},
		{"another partition", otherPartition, false, []int64{0, 2}},
		{"another topic", otherTopic, false, []int64{0, 2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			q := req(0, ms(500), "orders")
			rs := func() []*kgo.Record {
				return []*kgo.Record{q, {Topic: testTopic, Offset: 1, Headers: topics.Resolve(c.mark, 0, ms(500), 0)}, retryOf(c.mark, q, 2, ms(700))}
			}
			l := testLane(t)
			p := livePartition(t, l)
			l.read(t, p, testNow, rs()...)
			equal(t, "position", p.Marks().Position, 3)
			equal(t, "pending", p.Counted(), len(c.pending))
			pt := p.take(ms(700), nil, 10, anyBytes)
			got := slices.DeleteFunc(offsetsIn(pt), func(offset int64) bool { return offset == 1 }) // refused, where it is not passed over
			equals(t, "delivered", got, c.pending)

			l = testLane(t)
			livePartition(t, l)
			b := followed(t, l, state.Checkpoint{Offset: 3}, rs()...)
			equal(t, "position of the standby", b.Marks().Position, 3)
			equal(t, "pending in the standby", b.Pending(), int64(len(c.pending)))
		})
	}
}

// followed is what a standby knows that has followed a checkpoint of the test's partition from the beginning.
func followed(t *testing.T, l *lane, c state.Checkpoint, rs ...*kgo.Record) *pending.Follower {
	t.Helper()
	c = checkpointAt(l, c)
	store, err := l.store.Partition(l.store.ID(testTP, testID))
	if err != nil {
		t.Fatal(err)
	}
	got, err := pending.Inherit(t.Context().Err, l.routes[testTopic], store, c, 0, math.MaxInt64)
	if err != nil {
		t.Fatal(err)
	}
	f, err := pending.Follow(pending.Env{Route: l.routes[testTopic], Mark: testMark}, c, store, got)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rs {
		if _, err := f.Accept(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	return f
}

// A dead letter is the request as it was written, and names it, whatever was tried meanwhile and
// whatever refuses it in the end.
func TestDeadLetterIsTheRequestAsWritten(t *testing.T) {
	for _, c := range []struct {
		name   string
		target string
		status targets.Status
	}{
		{"the target does not exist", "orders", targets.Missing},
		{"the target is not allowed any more when the retry is accepted", "elsewhere", targets.Ready},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, w := testCluster(t)
			q := req(0, testNow, c.target)
			q.Headers = append(q.Headers, kgo.RecordHeader{Key: topics.HeaderFor, Value: []byte("5s")}, kgo.RecordHeader{Key: topics.HeaderAttempt, Value: []byte("7")}, kgo.RecordHeader{Key: "a"})
			tn := readyTurn(t, l, w, retryOf(testMark, q, 2, testNow))
			l.targets.Of([]byte(c.target)).State.Store(&targets.State{Status: c.status, Asked: time.Now().Add(time.Minute)})
			tn.RenderParts(t.Context(), tn.Parts)
			if len(tn.Renderer.Outputs) == 0 || tn.Renderer.Outputs[0].Kind != turn.OutDeadLetter {
				t.Fatalf("outputs are %+v", tn.Renderer.Outputs)
			}
			got := tn.Renderer.Outputs[0].Record.Headers
			equals(t, "the first headers", texts(got[:len(q.Headers)]), texts(q.Headers))
			var added []string
			for _, h := range got[len(q.Headers):] {
				switch h.Key {
				case topics.HeaderErrorPartition, topics.HeaderErrorOffset, topics.HeaderErrorTimestamp, topics.HeaderErrorAttempts:
					added = append(added, text(h))
				case topics.HeaderRetry:
					t.Errorf("a header of ours is among them: %s", text(h))
				}
			}
			equals(t, "what it names", added, []string{"__delay.errors.partition=3", "__delay.errors.offset=0", "__delay.errors.timestamp=1000000000000", "__delay.errors.attempts=1"})
		})
	}
}

func text(h kgo.RecordHeader) string { return h.Key + "=" + string(h.Value) }

func texts(hs []kgo.RecordHeader) []string {
	out := make([]string, len(hs))
	for i, h := range hs {
		out[i] = text(h)
	}
	return out
}

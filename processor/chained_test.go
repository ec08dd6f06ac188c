package processor

import (
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/pending"
	"github.com/duewheel/duewheel/processor/targets"
	"github.com/duewheel/duewheel/processor/turn"
	"github.com/duewheel/duewheel/topics"
)

// chainedTurn is a turn with two parts of one partition: the first has a record that is refused beside others, and the later one is for bills.
func chainedTurn(t *testing.T, troubled string) (*lane, *turn.Turn) {
	t.Helper()
	l := testLane(t, func(c *Config) { c.Routes = []topics.Route{testRoute(true)} })
	for _, name := range []string{"orders", "bills", testTopic, testTopic + ".dead"} {
		st := &targets.State{Status: targets.Ready, Partitions: 4, Takes: targets.Limits{MaxBytes: kafka.DefaultMaxBytes}}
		if name == troubled {
			st.Status, st.Why = targets.Troubled, "why"
		}
		l.targets.Of([]byte(name)).State.Store(st)
	}
	p := livePartition(t, l)
	read := func(names ...string) {
		for _, name := range names {
			l.read(t, p, testNow, []*kgo.Record{req(p.Marks().Position, testNow, name)}...)
		}
	}
	read("elsewhere", "orders", "orders", "orders", "bills")
	first := p.take(testNow, nil, 3, anyBytes)
	read("bills")
	later := p.part(pending.Beside{Partition: p.Partition}.Take(testNow, nil, 2, anyBytes))
	if first == nil || later == nil {
		t.Fatal("there are no two parts")
	}
	for range 2 {
		p.Begin()
	}
	tn := &turn.Turn{Env: l.turnEnv(), Parts: []*turn.Part{first, later}, Joining: []*turn.Part{later}, Renderer: &turn.Renderer{Env: l.turnEnv()}}
	tn.RenderParts(t.Context(), tn.Parts[:1])
	tn.RenderParts(t.Context(), tn.Joining)
	return l, tn
}

// What cannot be tried keeps the later part of its partition from being tried, whose checkpoint says that it has happened.
func TestLaterPartWaitsForTheFirst(t *testing.T) {
	l, tn := chainedTurn(t, testTopic+".dead")
	equal(t, "parts that are tried", len(tn.Tried), 0)
	equal(t, "parts that are held up", len(tn.Untried), 2)
	equal(t, "the first of them", tn.Untried[0].Part, tn.Parts[0])
	for _, h := range tn.Untried {
		l.turns.hold(h)
	}
	p := partitionOf(tn.Parts[0])
	var sizes []int
	for _, pt := range p.Repeated() {
		sizes = append(sizes, len(pt.Items))
	}
	equals(t, "records that are tried again", sizes, []int{3, 1})
}

// A partition of which a turn has two parts has one checkpoint to count.
func TestCheckpointsAreCountedByPartition(t *testing.T) {
	l, tn := chainedTurn(t, "")
	other := emptyPartition(partitionOf(tn.Parts[0]), 1).part(&pending.Part{})
	tn.Tried, tn.Outcome = append(tn.Tried, other), turn.Done
	tn.Refused = map[*turn.Part]error{tn.Tried[0]: kerr.UnknownServerError, tn.Tried[1]: kerr.UnknownServerError}
	before := l.counters.checkpoints.snapshot()
	l.counters.checkpoint(tn)
	after := l.counters.checkpoints.snapshot()
	for what, want := range map[string]int64{"written": 1, "refused": 1} {
		equal(t, what, after[what]-before[what], want)
	}
}

// What waits for an answer that is on its way is tried again soon: all that is due of its partition waits with it.
func TestAskingIsNoLongPause(t *testing.T) {
	for why, most := range map[error]time.Duration{turn.ErrAsking: 60 * time.Millisecond, errors.New("why"): 260 * time.Millisecond} {
		l := testLane(t)
		p := livePartition(t, l)
		l.read(t, p, testNow, req(0, testNow, "orders"))
		pt := p.take(testNow, nil, 10, anyBytes)
		began := l.clock.Now()
		l.turns.hold(turn.Untried{Part: pt, Why: why})
		due, is := p.Next()
		if !is || due-began > most.Milliseconds() || due-began < most.Milliseconds()/2 {
			t.Errorf("%v: it is tried again after %d ms (%v)", why, due-began, is)
		}
	}
}

package processor

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/pending"
	"github.com/duewheel/duewheel/processor/targets"
	"github.com/duewheel/duewheel/topics"
)

// chainedTurn is a turn with two parts of one partition: the first has a record that is refused beside others, and the later one is for bills.
func chainedTurn(t *testing.T, troubled string) *turn {
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
	tn := &turn{kit: &l.kit, parts: []*part{first, later}, joining: []*part{later}, render: &renderer{kit: &l.kit}}
	tn.renderParts(t.Context(), tn.parts[:1])
	tn.renderParts(t.Context(), tn.joining)
	return tn
}

// A turn with two parts of a partition commits one checkpoint, which says what both of them do.
func TestOneCheckpointForEachPartition(t *testing.T) {
	tn := chainedTurn(t, "")
	equal(t, "parts that are tried", len(tn.tried), 2)
	first, later := tn.tried[0], tn.tried[1]
	first.To.Appended, later.To.Appended = true, false
	entries, err := tn.entries()
	if err != nil || len(entries) != 1 {
		t.Fatalf("%d checkpoints (%v), want one", len(entries), err)
	}
	equal(t, "what the first part has appended counts", later.To.Appended, true)
	want, err := entry(later.p.tp, later.p.id, later.To)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "checkpoint", fmt.Sprintf("%+v", entries[0]), fmt.Sprintf("%+v", want))
}

// What cannot be tried keeps the later part of its partition from being tried, whose checkpoint says that it has happened.
func TestLaterPartWaitsForTheFirst(t *testing.T) {
	tn := chainedTurn(t, testTopic+".dead")
	equal(t, "parts that are tried", len(tn.tried), 0)
	equal(t, "parts that are held up", len(tn.held), 2)
	equal(t, "the first of them", tn.held[0].part, tn.parts[0])
	for _, h := range tn.held {
		(&turns{kit: tn.kit}).hold(h)
	}
	p := tn.parts[0].p
	var sizes []int
	for _, pt := range p.Repeated() {
		sizes = append(sizes, len(pt.Items))
	}
	equals(t, "records that are tried again", sizes, []int{3, 1})
}

// A partition of which a turn has two parts has one checkpoint to count.
func TestCheckpointsAreCountedByPartition(t *testing.T) {
	tn := chainedTurn(t, "")
	other := &part{p: emptyPartition(tn.parts[0].p, 1), Part: &pending.Part{}}
	tn.tried, tn.outcome = append(tn.tried, other), outcomeDone
	tn.refused = map[*part]error{tn.tried[0]: kerr.UnknownServerError, tn.tried[1]: kerr.UnknownServerError}
	before := tn.counters.checkpoints.snapshot()
	tn.counters.checkpoint(tn)
	after := tn.counters.checkpoints.snapshot()
	for what, want := range map[string]int64{"written": 1, "refused": 1} {
		equal(t, what, after[what]-before[what], want)
	}
}

// What waits for an answer that is on its way is tried again soon: all that is due of its partition waits with it.
func TestAskingIsNoLongPause(t *testing.T) {
	for why, most := range map[error]time.Duration{errAsking: 60 * time.Millisecond, errors.New("why"): 260 * time.Millisecond} {
		l := testLane(t)
		p := livePartition(t, l)
		l.read(t, p, testNow, req(0, testNow, "orders"))
		pt := p.take(testNow, nil, 10, anyBytes)
		began := l.clock.Now()
		l.turns.hold(heldPart{pt, 0, why})
		due, is := p.Next()
		if !is || due-began > most.Milliseconds() || due-began < most.Milliseconds()/2 {
			t.Errorf("%v: it is tried again after %d ms (%v)", why, due-began, is)
		}
	}
}

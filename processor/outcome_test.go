package processor

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/pending"
	"github.com/duewheel/duewheel/processor/targets"
	"github.com/duewheel/duewheel/processor/turn"
)

// A turn tells of what has happened: of partitions whose checkpoints were refused it has delivered nothing.
func TestEventOfAPartlyRefusedTurn(t *testing.T) {
	var got Event
	l := testLane(t)
	p := livePartition(t, l)
	refused, done := p.part(&pending.Part{Items: make([]pending.Item, 2)}), p.part(&pending.Part{Items: make([]pending.Item, 3)})
	done.TP.Partition++
	events{to: func(e Event) { got = e }}.turn(&turn.Turn{Tried: []*turn.Part{refused, done}, Refused: map[*turn.Part]error{refused: kerr.OffsetMetadataTooLarge}})
	equal(t, "records", got.Records, 3)
	equals(t, "partitions", got.Partitions, []kafka.TopicPartition{done.TP})
}

// Turns that something has joined are counted, and those among them with two parts of one partition.
func TestJoinedAndChainedAreCounted(t *testing.T) {
	l := testLane(t)
	p := livePartition(t, l)
	first, later, other := p.part(&pending.Part{}), p.part(&pending.Part{}), p.part(&pending.Part{})
	other.TP.Partition++
	for _, c := range []struct {
		joining         *turn.Part
		joined, chained int64
	}{{nil, 0, 0}, {other, 1, 0}, {later, 2, 1}} {
		tn := &turn.Turn{Tried: []*turn.Part{first}}
		if c.joining != nil {
			tn.Tried, tn.Joining = append(tn.Tried, c.joining), []*turn.Part{c.joining}
		}
		l.counters.turn(tn)
		equal(t, "joined", l.counters.joined.Load(), c.joined)
		equal(t, "chained", l.counters.chained.Load(), c.chained)
	}
}

// A turn whose outcome is not known blames a target only for what that has answered.
func TestUnknownTurnBlamesAnswersOnly(t *testing.T) {
	for _, c := range []struct {
		outcome turn.Outcome
		err     error
		want    targets.Status
	}{
		{turn.Unknown, kafka.ErrUnanswered, targets.Ready}, {turn.Unknown, kerr.NotEnoughReplicas, targets.Troubled}, {turn.Aborted, kafka.ErrUnanswered, targets.Troubled},
	} {
		l := testLane(t)
		o := l.targets.Of([]byte("orders"))
		o.State.Store(&targets.State{Status: targets.Ready})
		l.turns.blame(&turn.Turn{Outcome: c.outcome, Blamed: map[string]error{"orders": c.err}})
		equal(t, c.outcome.String()+", "+c.err.Error(), o.State.Load().Status, c.want)
	}
}

// What the search for a refused record has taken is forgotten with time.
func TestTimeLostIsForgotten(t *testing.T) {
	var s lost
	s.add(time.Second)
	s.at = s.at.Add(-2 * time.Second)
	s.add(0)
	if s.time > 500*time.Millisecond || s.time < 400*time.Millisecond {
		t.Errorf("2 s later %v of 1 s are left", s.time)
	}
	s.at = s.at.Add(-time.Minute)
	s.add(time.Second)
	equal(t, "a minute later", s.time, time.Second)
}

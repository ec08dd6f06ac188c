package processor

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/pending"
	"github.com/duewheel/duewheel/processor/targets"
	"github.com/duewheel/duewheel/processor/turn"
)

// insider is a stay of a lane that the group has.
type insider struct{ outsider }

func (insider) Member() kafka.Member { return kafka.Member{ID: "me", Generation: 1} }

// leaver is a stay that has ended as soon as it is left.
type leaver struct{ outsider }

func (leaver) Left() <-chan struct{} {
	left := make(chan struct{})
	close(left)
	return left
}

// aheadOf is a lane with a turn that was rendered ahead, of records of a partition.
func aheadOf(t *testing.T) (*lane, *partition, *turn.Turn) {
	t.Helper()
	l := testLane(t)
	p := livePartition(t, l)
	l.read(t, p, testNow, req(0, testNow, "orders"))
	parts, _ := l.selection.records(l.order, testNow)
	tn := &turn.Turn{Env: l.turnEnv(), Parts: parts, Begin: make(chan bool, 1), Cancel: func() {}}
	l.turns.ahead = tn
	l.turns.decided <- tn // as one does that does not begin
	return l, p, tn
}

// A turn that was rendered ahead begins when the one before it has happened, and in no other case: what is due of it is tried again then.
func TestAheadBegins(t *testing.T) {
	for name, c := range map[string]struct {
		make   func(l *lane)
		stay   membership
		begins bool
	}{
		"at once":                  {func(*lane) {}, insider{}, true},
		"under a quota":            {func(l *lane) { l.quota.OnBrokerThrottle(kgo.BrokerMetadata{}, time.Hour, true) }, insider{}, false},
		"while a turn is awaited":  {func(l *lane) { l.turns.draining = true }, insider{}, false},
		"without a member":         {func(*lane) {}, outsider{}, false},
		"while producers are none": {func(l *lane) { l.producers.renewing = true }, insider{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			l, p, tn := aheadOf(t)
			c.make(l)
			p.Appended(100)
			l.turns.release(l.order, true, c.stay)
			equal(t, "it begins", <-tn.Begin, c.begins)
			equal(t, "records that are tried again", len(p.Repeated()) > 0, !c.begins)
			if c.begins {
				equal(t, "its checkpoint says that records of ours lie above O", tn.Parts[0].To.Appended, true)
			}
		})
	}
}

// Turns go on being rendered ahead when one was awaited.
func TestAwaitedTurnHoldsUpNone(t *testing.T) {
	l := testLane(t)
	l.membership = outsider{}
	p := livePartition(t, l)
	l.read(t, p, testNow, req(0, testNow, "orders"))
	parts, _ := l.selection.records(l.order, testNow)
	l.turns.inFlight = &turn.Turn{Env: l.turnEnv(), Parts: parts, Tried: parts, Cancel: func() {}, Outcome: turn.Aborted, Err: kerr.RebalanceInProgress}
	l.turns.decided <- l.turns.inFlight
	l.awaitTurn(t.Context())
	equal(t, "a turn is in flight", l.turns.inFlight != nil, false)
	equal(t, "none may begin", l.turns.draining, false)
}

// A checkpoint that is on its way must not arrive when its partition is looked up anew, whatever that starts over for (design rule 7).
func TestCheckpointOnItsWayIsAwaited(t *testing.T) {
	for name, startsOver := range map[string]func(ctx context.Context, l *lane, p *partition){
		"it starts over": func(ctx context.Context, l *lane, p *partition) { l.startOver(ctx, p, 0) },
		"its turn is unknown": func(ctx context.Context, l *lane, p *partition) {
			l.dropUnknown(ctx, &turn.Turn{Tried: []*turn.Part{p.part(&pending.Part{})}, Renderer: &turn.Renderer{}, Outcome: turn.Unknown, Err: kafka.ErrUnanswered})
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := testLane(t, func(c *Config) { c.Guarantee = AtLeastOnce })
			ctx, cancel := context.WithCancel(t.Context())
			defer l.wg.Wait()
			cancel()
			l.membership = outsider{}
			p := livePartition(t, l)
			l.read(t, p, testNow, control(0))
			commit := &turn.Turn{Env: l.turnEnv(), Parts: []*turn.Part{p.prepareCommit()}, Plain: true, Cancel: func() {}, Outcome: turn.Aborted, Err: kerr.IllegalGeneration}
			commit.Tried = commit.Parts
			l.checkpoints.commit = commit
			l.checkpoints.committed <- commit
			startsOver(ctx, l, p)
			equal(t, "a checkpoint is on its way", l.checkpoints.commit != nil, false)
			equals(t, "partitions to restore", l.restoring(), []kafka.TopicPartition{testTP})
		})
	}
}

// What was refused counts no more when something was taken.
func TestRefusalsEndWithSuccess(t *testing.T) {
	l := testLane(t, func(c *Config) { c.Guarantee = AtLeastOnce })
	l.checkpoints.refusals = 3
	l.checkpoints.refused(&turn.Turn{Plain: true, Outcome: turn.Done})
	equal(t, "interval", l.checkpoints.interval(), 250*time.Millisecond)
}

// A checkpoint is not overdue of which there is nothing to be written any more.
func TestNothingToWriteIsNotOverdue(t *testing.T) {
	l := testLane(t, func(c *Config) { c.Guarantee = AtLeastOnce })
	p := livePartition(t, l)
	l.read(t, p, testNow, control(0))
	l.happened(p.prepareCommit())
	stale := func() int {
		p.writing.tried = time.Time{}
		return len(l.checkpoints.stale(l.order))
	}
	equal(t, "to be written", stale(), 0)
	l.checkpoints.unanswered.until = time.Now().Add(time.Hour)
	equal(t, "to be written while a late one may arrive", stale(), 1)
	equal(t, "since when is known", p.writing.behind.IsZero(), false)
	l.checkpoints.unanswered.until = time.Time{}
	equal(t, "to be written after that", stale(), 0)
	equal(t, "overdue", p.writing.overdue(), 0)
}

// Without a member nothing is committed, and nothing refused.
func TestNoCheckpointWithoutAMember(t *testing.T) {
	l := testLane(t, func(c *Config) { c.Guarantee = AtLeastOnce })
	p := livePartition(t, l)
	l.read(t, p, testNow, control(0))
	l.checkpoints.begin(l.order, outsider{})
	equal(t, "a checkpoint is on its way", l.checkpoints.commit != nil, false)
}

// A checkpoint that is written beside a turn (at_least_once) is no answer to that.
func TestCheckpointAnswersNoTurn(t *testing.T) {
	l := testLane(t, func(c *Config) { c.Guarantee = AtLeastOnce })
	p := livePartition(t, l)
	l.read(t, p, testNow, control(0))
	wrote := func() bool {
		p.answeredAt = time.Time{}
		l.checkpoints.wrote(&turn.Turn{Tried: []*turn.Part{p.part(&pending.Part{To: p.Marks().Committed})}})
		return !p.answeredAt.IsZero()
	}
	equal(t, "answered", wrote(), true)
	p.Begin()
	equal(t, "answered beside a turn", wrote(), false)
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

// What the last turn has started over is given up when the process ends: nobody waits for it.
func TestShutdownEndsWhatItsTurnHasBegun(t *testing.T) {
	l := testLane(t)
	until, giveUp := context.WithCancel(t.Context())
	defer l.wg.Wait()
	defer giveUp()
	l.until, l.membership = until, leaver{}
	p := livePartition(t, l)
	l.read(t, p, testNow, control(0))
	parts := []*turn.Part{p.prepareCommit()}
	p.Begin()
	l.turns.inFlight = &turn.Turn{Env: l.turnEnv(), Parts: parts, Tried: parts, Plain: true, Cancel: func() {}, Outcome: turn.Aborted, Err: kerr.UnknownTopicID}
	l.turns.decided <- l.turns.inFlight
	l.shutdown()
	equal(t, "partitions", len(l.partitions), 0)
	ended := make(chan struct{})
	go func() {
		l.wg.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(5 * time.Second):
		t.Error("something goes on")
	}
}

package processor

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/producer"
	"github.com/duewheel/duewheel/processor/turn"
)

// insider is a stay of a lane that the group has.
type insider struct{ outsider }

func (insider) Member() kafka.Member { return kafka.Member{ID: "me", Generation: 1} }

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
		"at once":                 {func(*lane) {}, insider{}, true},
		"under a quota":           {func(l *lane) { l.quota.OnBrokerThrottle(kgo.BrokerMetadata{}, time.Hour, true) }, insider{}, false},
		"while a turn is awaited": {func(l *lane) { l.turns.draining = true }, insider{}, false},
		"without a member":        {func(*lane) {}, outsider{}, false},
		"in doubt":                {func(l *lane) { l.checkpoints.standstill.ended = time.Now() }, insider{}, false},
		"when it has just woken up": {func(l *lane) {
			l.cfg.Guarantee = AtLeastOnce
			l.checkpoints.steps(time.Now().Add(-time.Hour))
		}, insider{}, false},
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

// As soon as a turn begins that was rendered ahead and could not hold all that is due, the next one is rendered.
func TestNextIsRenderedAhead(t *testing.T) {
	for _, full := range []bool{true, false} {
		l, p, tn := aheadOf(t)
		<-l.turns.decided // it begins
		tn.Full, l.membership = full, insider{}
		client := producer.New(l.producers.config("me-0"))
		t.Cleanup(client.Close)
		l.producers.list, l.producers.renderers = []*producer.Producer{client}, [2]*turn.Renderer{{}, {}}
		l.read(t, p, testNow, req(1, testNow, "orders"))
		l.turnDecided(t.Context(), &turn.Turn{Env: l.turnEnv(), Outcome: turn.Done})
		equal(t, "the one that was rendered ahead begins", l.turns.inFlight == tn, true)
		equal(t, "the next one is rendered", l.turns.ahead != nil, full)
		l.turns.release(l.order, false, outsider{})
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

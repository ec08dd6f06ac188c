package processor

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/duewheel/duewheel/processor/internal/disk"
	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/local"
	"github.com/duewheel/duewheel/processor/turn"
	"github.com/duewheel/duewheel/state"
)

// Partitions that are stopped look again all at once, also those that were stopped while the store could not be asked. It takes the store away from no other one,
// and keeps nothing else from being tidied.
func TestStoppedLookAgainTogether(t *testing.T) {
	l := testLane(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	defer l.wg.Wait()
	p := livePartition(t, l)
	l.read(t, p, testNow, req(0, ms(farMs), "orders"))
	why := fmt.Errorf("%w: the local store may hold what is missing: %w: %w", ErrLogTruncated, local.ErrNoStore, fmt.Errorf("spill: %w", state.ErrFailed))
	const stopped = 3
	for n := range int32(stopped) {
		tp := kafka.TopicPartition{Topic: testTopic, Partition: testTP.Partition - 1 + 3*n}
		l.partitions[tp] = &partition{tp: tp, id: testID, stats: p.stats, log: p.log, phase: PhaseStopped, err: why, since: time.Now().Add(-stoppedRetry - time.Second)}
	}
	l.order = inOrder(l.partitions)
	l.tidy(ctx, testNow)
	equal(t, "partitions that look again", len(l.restoring()), stopped)
	equal(t, "partitions that stay", len(l.order), 1)
	equal(t, "the other one has its store", p.HasStore(), true)
	equal(t, "and a picture", p.picture.Load() != nil, true)
}

// A partition that waits for its checkpoint, to be read again, is read again when that is written, although there is no reason any more: it has begun nothing
// new since.
func TestReadAgainIsNotPutOff(t *testing.T) {
	var broken disk.Broken
	l := testLane(t, onDisk(&broken), func(c *Config) { c.Guarantee = AtLeastOnce })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	defer l.wg.Wait()
	l.membership = outsider{}
	l.loseStore(t, &broken)
	p := livePartition(t, l)
	l.read(t, p, testNow, req(0, ms(-1), "orders"), req(1, testNow, "orders"))
	l.happened(p.take(testNow, nil, 1, anyBytes))
	l.mendStore(t, &broken) // it works for a moment
	l.readAgain(ctx, testNow)
	l.loseStore(t, &broken)
	equal(t, "it is here until its checkpoint is written", l.partitions[testTP], p)
	equal(t, "records that it delivers meanwhile", p.wants(testNow), 0)
	l.readAgain(ctx, testNow)
	l.happened(p.prepareCommit())
	l.readAgain(ctx, testNow)
	equal(t, "partitions that are read again", len(l.restoring()), 1)
}

// A partition of which nothing but the checkpoint was in turns that were given up is not held up, and one whose records were resolved without a turn is no more.
func TestNothingHeldUp(t *testing.T) {
	l := testLane(t)
	l.membership = outsider{}
	p := livePartition(t, l)
	l.read(t, p, testNow, control(0))
	for range 10 {
		pt := p.prepareCommit()
		p.Begin()
		tn := &turn.Turn{Env: l.turnEnv(), Parts: []*turn.Part{pt}, Tried: []*turn.Part{pt}, Cancel: func() {}, Outcome: turn.Aborted, Err: kerr.RebalanceInProgress}
		l.turns.inFlight = tn
		l.turnDecided(t.Context(), tn)
	}
	equal(t, "why it is held up", p.err, nil)
	l.read(t, p, testNow, req(1, testNow, "orders"))
	p.err = turn.ErrAsking
	pt := p.take(testNow, nil, 1, anyBytes)
	l.checkpoints.wrote(&turn.Turn{Env: l.turnEnv(), Tried: []*turn.Part{pt}})
	equal(t, "why it is held up when it is resolved", p.err, nil)
}

// waited is a context that counts what waits for its end.
type waited struct {
	context.Context
	n atomic.Int64
}

func (w *waited) Value(any) any { return nil }

func (w *waited) AfterFunc(func()) (stop func() bool) {
	w.n.Add(1)
	return func() bool { w.n.Add(-1); return true }
}

// A turn that was rendered ahead and does not begin leaves nothing behind.
func TestTurnThatDoesNotBeginLeavesNothing(t *testing.T) {
	l := testLane(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	until := &waited{Context: ctx}
	l.until = until
	tn := &turn.Turn{Env: l.turnEnv(), Begin: make(chan bool, 1), Renderer: &turn.Renderer{Env: l.turnEnv()}}
	l.turns.ahead = tn
	tn.Start(l.until, l.wg, l.turns.decided)
	l.turns.release(l.order, false, outsider{})
	equal(t, "contexts that wait for the end of the process", until.n.Load(), 0)
}

// That it cannot be asked where the log of one partition ends keeps it from being asked of no other one.
func TestEndsOfOthersAreAsked(t *testing.T) {
	l, _ := testCluster(t)
	p, err := l.assign(state.Checkpoint{Offset: 0}, 0, 3, 3)
	if err != nil {
		t.Fatal(err)
	}
	p.endAsked = time.Time{}
	without := &partition{tp: kafka.TopicPartition{Topic: testTopic, Partition: 9}, phase: PhaseLive} // there is none, so it has no leader
	ask := func(ps ...*partition) (asks bool) {
		l.ends.ask(t.Context(), ps)
		if asks = l.ends.asking; asks {
			l.ends.answered(<-l.ends.answers, testNow)
		}
		return asks
	}
	equal(t, "it is asked", ask(without), true)
	equal(t, "questions in a row that were not answered", l.ends.inVain, 1)
	equal(t, "it is asked again at once", ask(without), false)
	equal(t, "it is asked of the other one", ask(without, p), true)
	equal(t, "which is answered", p.endAsked.IsZero(), false)
	equal(t, "questions in a row that were not answered, when one is", l.ends.inVain, 0)
}

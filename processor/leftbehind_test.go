package processor

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/targets"
	"github.com/duewheel/duewheel/processor/turn"
)

// What a step leaves behind is not in the way of the next one.

// A partition that is given up while reading of it pauses is read when it comes back: what is made of it then knows of no pause.
func TestDroppedPartitionIsReadAgain(t *testing.T) {
	l := testLane(t)
	p := livePartition(t, l)
	l.reader.PauseFetchPartitions(map[string][]int32{testTP.Topic: {testTP.Partition}})
	p.paused = true
	l.drop(t.Context(), []kafka.TopicPartition{testTP})
	equal(t, "topics with partitions that are not read", len(l.reader.PauseFetchPartitions(nil)), 0)
}

// A turn that was rendered ahead and does not begin gives back the targets that it would have tried.
func TestTrialsEndWithATurnThatDoesNotBegin(t *testing.T) {
	l := testLane(t)
	l.membership = outsider{}
	on := l.targets.Of([]byte("orders"))
	on.Trying.Store(true)
	l.turns.ahead = &turn.Turn{Env: l.turnEnv(), Begin: make(chan bool, 1), Trials: []*targets.Target{on}}
	l.turns.decided <- l.turns.ahead
	l.turns.release(l.order, false, l.membership)
	equal(t, "a turn has it on trial", on.Trying.Load(), false)
}

// What is tried again says of records of ours above its O, also of those that have come to lie there since it was made.
func TestRepeatSaysWhatWasAppended(t *testing.T) {
	l := testLane(t)
	p := livePartition(t, l)
	l.read(t, p, testNow, req(0, ms(0), "orders"))
	pt := p.take(testNow, nil, 10, anyBytes)
	equal(t, "appended", pt.To.Appended, false)
	p.End()
	p.Repeat(pt.Part, 0)
	p.Appended(pt.To.Offset + 1)
	equal(t, "appended meanwhile", p.take(testNow, nil, 10, anyBytes).To.Appended, true)
}

// Turns that run out of time get longer, until one has happened.
func TestPatienceEndsWithSuccess(t *testing.T) {
	l := testLane(t)
	p := livePartition(t, l)
	l.read(t, p, testNow, req(0, ms(0), "orders"))
	parts, _ := l.selection.records(l.order, testNow)
	l.turns.timeouts = 3
	tn := &turn.Turn{Env: l.turnEnv(), Parts: parts, Tried: parts, Cancel: func() {}, Renderer: &turn.Renderer{Env: l.turnEnv()}, Began: time.Now()}
	l.turns.inFlight = tn
	l.turnDecided(t.Context(), tn)
	equal(t, "turns in a row that ran out of time", l.turns.timeouts, 0)
}

// Neither a turn nor a commit that is not answered holds up the end of a process for longer than half of the time that it has.
func TestEndDoesNotWaitForATurn(t *testing.T) {
	for _, name := range []string{"turn", "commit"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := testLane(t)
				l.turns.stopping, l.cfg.TurnTimeout = true, 10*time.Hour
				began := time.Now()
				tn := &turn.Turn{Env: l.turnEnv(), Plain: name == "commit", Outcome: turn.Unknown, Err: kafka.ErrUnanswered, Renderer: &turn.Renderer{Env: l.turnEnv()}}
				var once sync.Once
				if tn.Plain {
					l.checkpoints.commit, tn.Cancel = tn, func() { once.Do(func() { l.checkpoints.committed <- tn }) }
				} else {
					l.turns.inFlight, tn.Cancel = tn, func() { once.Do(func() { l.turns.decided <- tn }) }
				}
				giveUp := time.AfterFunc(time.Hour, tn.Cancel)
				l.awaitTurn(t.Context())
				giveUp.Stop()
				equal(t, "waited", time.Since(began), l.cfg.ShutdownTimeout/2)
				l.reader.Close()
			})
		})
	}
}

// Nothing that comes of what was sent for a partition counts once the lane has it no more: it is neither restored nor stopped for it.
func TestWhatComesForADroppedPartition(t *testing.T) {
	for name, comes := range map[string]func(ctx context.Context, l *lane, tn *turn.Turn){
		"a turn with unknown outcome": func(ctx context.Context, l *lane, tn *turn.Turn) {
			tn.Renderer = &turn.Renderer{Env: l.turnEnv()}
			tn.Outcome, tn.Err = turn.Unknown, kafka.ErrUnanswered
			l.turnDecided(ctx, tn)
		},
		"a turn that its coordinator refuses": func(ctx context.Context, l *lane, tn *turn.Turn) {
			tn.Outcome, tn.Err, tn.Refused = turn.Aborted, kerr.OffsetMetadataTooLarge, map[*turn.Part]error{tn.Parts[0]: kerr.OffsetMetadataTooLarge}
			l.turnDecided(ctx, tn)
		},
		"a commit for a topic that is gone": func(ctx context.Context, l *lane, tn *turn.Turn) {
			tn.Plain, tn.Outcome, tn.Err = true, turn.Aborted, kerr.UnknownTopicID
			l.turnDecided(ctx, tn)
		},
		"where its log ends": func(_ context.Context, l *lane, tn *turn.Turn) {
			l.ends.answered(logEnds{asked: time.Now(), of: map[*partition]kafka.Bounds{partitionOf(tn.Parts[0]): {Start: 7, Stable: 9, High: 9}}}, testNow)
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := testLane(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer l.wg.Wait()
			defer cancel()
			p := livePartition(t, l)
			l.read(t, p, testNow, req(0, testNow, "orders"))
			parts, _ := l.selection.records(l.order, testNow)
			l.turns.inFlight = &turn.Turn{Env: l.turnEnv(), Parts: parts, Tried: slices.Clone(parts), Cancel: func() {}, Began: time.Now()}
			l.drop(ctx, []kafka.TopicPartition{testTP})
			was := p.writing
			comes(ctx, l, l.turns.inFlight)
			equal(t, "partitions that are restored", len(l.restoring()), 0)
			equal(t, "partitions", len(l.partitions), 0)
			equal(t, "phase", p.phase, PhaseLive)
			equal(t, "where its log begins", p.logStart, 0)
			equal(t, "why its checkpoint was refused", p.writing.err, was.err)
		})
	}
}

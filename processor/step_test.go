package processor

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/duewheel/duewheel/processor/group"
	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/turn"
	"github.com/duewheel/duewheel/state"
)

// During catch-up nothing is delivered and nothing is committed (design rule 2).
func TestCatchUpDoesNothing(t *testing.T) {
	l := testLane(t)
	p, err := l.assign(state.Checkpoint{Offset: 1, LowWater: 0, Watermark: state.Key{Due: ms(-9), Seq: 0}}, 0, 3, 3)
	if err != nil {
		t.Fatal(err)
	}
	l.read(t, p, testNow, req(0, ms(-5), "orders"), req(1, ms(-4), "orders"))
	if parts, _ := l.selection.records(l.order, testNow); len(parts) > 0 {
		t.Errorf("records %v are delivered", offsetsIn(parts[0]))
	}
	if parts := l.checkpoints.stale(l.order); len(parts) > 0 {
		t.Errorf("%+v is committed", parts[0].To)
	}
	l.read(t, p, testNow, control(2))
	p.endAsked = time.Now()
	l.settleCatchUps(t.Context(), testNow, true)
	equal(t, "phase at the end of the log", p.phase, PhaseLive)
	if parts, _ := l.selection.records(l.order, testNow); len(parts) > 0 {
		t.Errorf("records %v are delivered before it is known that nothing is passed on", offsetsIn(parts[0]))
	}
	l.passing.look(l.order, &l.assigned)
	if parts, _ := l.selection.records(l.order, testNow); len(parts) != 1 || len(parts[0].Items) != 2 {
		t.Error("nothing is delivered when it is live")
	}
}

// What does not pass on what it has within 5 s is not waited for any more: not by what starts over either.
func TestWaitsOnceForWhatIsNotPassedOn(t *testing.T) {
	l := testLane(t)
	p, err := l.assign(state.Checkpoint{}, 0, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	l.assigned.Remember(l.n, p.tp, &p.picture)
	l.assigned.Remember(l.n, kafka.TopicPartition{Topic: p.tp.Topic, Partition: p.tp.Partition + 1}, nil)
	waits := func(why string, live time.Time, want bool) {
		t.Helper()
		l.passing.begin(p)
		p.liveAt = live
		l.passing.look(l.order, &l.assigned)
		equal(t, why, among(p).Awaits(), want)
	}
	if err := p.goLive(l.memory.room(1)); err != nil {
		t.Fatal(err)
	}
	waits("it waits for one that is restored", time.Now(), true)
	waits("it has waited for long", time.Now().Add(-passingPatience-time.Millisecond), false)
	waits("it waits again", time.Now(), false)
}

// What a lane is given anew may have more to pass on than it had before, and is waited for.
func TestWaitsForWhatIsGivenAnew(t *testing.T) {
	l := testLane(t)
	p, err := l.assign(state.Checkpoint{}, 0, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	other := kafka.TopicPartition{Topic: p.tp.Topic, Partition: p.tp.Partition + 1}
	if err := p.goLive(l.memory.room(1)); err != nil {
		t.Fatal(err)
	}
	for _, anew := range []bool{false, true} {
		l.assigned.Remember(l.n, p.tp, &p.picture)
		if l.passing.passed(other); anew {
			l.drop(t.Context(), []kafka.TopicPartition{other})
		}
		l.assigned.Remember(l.n, other, nil)
		l.passing.begin(p)
		l.passing.look(l.order, &l.assigned)
		equal(t, fmt.Sprintf("it waits, the other given anew %v", anew), among(p).Awaits(), anew)
	}
}

// A catch-up ends when the position, not the last record, has reached an end that was asked for
// a moment ago.
func TestCatchUpEnds(t *testing.T) {
	l := testLane(t)
	p, err := l.assign(state.Checkpoint{Offset: 0}, 0, 3, 3)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // who asks for the end gets no answer
	settle := func(why string, want Phase, asks bool) {
		t.Helper()
		l.settleCatchUps(ctx, testNow, true)
		equal(t, "phase "+why, p.phase, want)
		equal(t, "asking "+why, l.ends.asking, asks)
		if l.ends.asking {
			l.ends.answered(<-l.ends.answers, testNow)
		}
	}
	l.read(t, p, testNow, req(0, ms(10), "orders"), req(1, ms(20), "orders"))
	settle("one before the end", PhaseCatchUp, false)
	l.read(t, p, testNow, control(2))
	p.endAsked = time.Now().Add(-freshEnd - time.Millisecond)
	settle("at an end of long ago", PhaseCatchUp, true)
	l.ends.answered(logEnds{asked: time.Now(), of: map[*partition]kafka.Bounds{p: {Stable: 4, High: 4}}}, testNow)
	settle("below a later end", PhaseCatchUp, false)
	l.read(t, p, testNow, control(3))
	settle("at a fresh end", PhaseLive, false)
	equal(t, "its checkpoint is as old as the partition is live", p.writing.at.IsZero() || p.writing.tried.IsZero(), false)
}

// Where no answer is younger than a second the last one counts, if the one before took as long: who was frozen asks once more, and again when that is old.
func TestCatchUpEndsWhereAnswersAreSlow(t *testing.T) {
	const slow = 3 * freshEnd
	for _, c := range []struct {
		name string
		took []time.Duration
		then time.Duration // passes after the last answer
		live bool
	}{
		{"one answer", []time.Duration{slow}, 0, false},
		{"all are slow", []time.Duration{slow, slow}, 0, true},
		{"all are slow, and some time has passed", []time.Duration{slow, slow}, freshEnd, true},
		{"all are slow, and long ago", []time.Duration{slow, slow}, 2 * slow, false},
		{"frozen once", []time.Duration{time.Minute, 0}, 0, true},
		{"frozen once, and some time has passed", []time.Duration{time.Minute, 0}, 2 * freshEnd, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := testLane(t)
				p, err := l.assign(state.Checkpoint{Offset: 0}, 0, 1, 1)
				if err != nil {
					t.Fatal(err)
				}
				l.read(t, p, testNow, req(0, ms(10), "orders"))
				for _, took := range c.took {
					asked := time.Now()
					time.Sleep(took)
					l.ends.answered(logEnds{asked: asked, of: map[*partition]kafka.Bounds{p: {Stable: 1, High: 1}}}, testNow)
				}
				time.Sleep(c.then)
				ctx, cancel := context.WithCancel(t.Context())
				cancel()
				l.settleCatchUps(ctx, testNow, true)
				equal(t, "live", p.live(), c.live)
				if l.ends.asking {
					<-l.ends.answers
				}
			})
		})
	}
}

// What becomes live may have much to bring into memory first, so no step does that for two partitions; and the next step comes at once.
func TestOnePartitionAStepBecomesLive(t *testing.T) {
	const partitions = 3
	l := testLane(t)
	for n := range int32(partitions) {
		p, err := l.empty(n, true)
		if err != nil {
			t.Fatal(err)
		}
		p.endAsked = time.Now()
		l.order = append(l.order, p)
	}
	for step := 1; step <= partitions; step++ {
		l.settleCatchUps(t.Context(), testNow, step%2 == 1) // those that need one step alone do not wait for room
		live := 0
		for _, p := range l.order {
			if p.live() {
				live++
			}
		}
		equal(t, "live", live, step)
		equal(t, "there are others", l.settling, step < partitions)
		l.enlivens = step < partitions // as if one had begun
		l.settleCatchUps(t.Context(), testNow, false)
		equal(t, "another one is, and the store has no room", step < partitions && l.order[step].live(), false)
		equal(t, "it does not wait for that", l.settling, false)
		l.enlivens = false
	}
	l.settleCatchUps(t.Context(), testNow, true)
	equal(t, "there are others in the end", l.settling, false)
}

// A plain commit never names a partition that is in an undecided turn (design rule 6).
func TestNoCommitBesideATurn(t *testing.T) {
	l := testLane(t)
	p := livePartition(t, l)
	l.read(t, p, testNow, req(0, testNow, "orders"), control(1))
	parts, _ := l.selection.records(l.order, testNow)
	equal(t, "parts", len(parts), 1)
	l.read(t, p, testNow, control(2))
	behind := time.Now().Add(-time.Second)
	p.writing.tried, p.writing.behind = time.Time{}, behind
	if stale := l.checkpoints.stale(l.order); len(stale) > 0 {
		t.Errorf("%+v is committed beside %+v", stale[0].To, parts[0].To)
	}
	equal(t, "since when there is something to write", p.writing.behind, behind)
	l.happened(parts...)
	l.read(t, p, testNow, control(3))
	p.writing.tried = time.Time{} // the turn has written one
	equal(t, "checkpoints when it is decided", len(l.checkpoints.stale(l.order)), 1)
}

// A revocation waits for the turn in flight, whose checkpoint is the lane's to write, and then
// the partition is gone: nothing names it any more (design rule 6).
func TestRevocationWaitsForTheTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := testLane(t)
		stay := &group.Stay{}
		l.membership = stay
		p := livePartition(t, l)
		l.read(t, p, testNow, req(0, testNow, "orders"), req(1, testNow+1, "orders"))
		parts, _ := l.selection.records(l.order, testNow)
		l.turns.inFlight = &turn.Turn{Env: l.turnEnv(), Parts: parts, Tried: parts, Cancel: func() {}}
		taken := make(chan struct{})
		go func() {
			l.take(t.Context(), group.Handover{From: stay, Revoked: []kafka.TopicPartition{testTP}})
			close(taken)
		}()
		synctest.Wait()
		select {
		case <-taken:
			t.Fatal("the group may give the partition away while a turn is undecided")
		default:
		}
		l.turns.decided <- l.turns.inFlight
		<-taken
		equal(t, "W that the turn has left", p.Marks().Committed.Watermark, parts[0].To.Watermark)
		equal(t, "partitions", len(l.partitions)+len(l.order), 0)
		if due, _ := l.selection.records(l.order, testNow+10); len(due) > 0 {
			t.Errorf("records %v are delivered", offsetsIn(due[0]))
		}
		if stale := l.checkpoints.stale(l.order); len(stale) > 0 {
			t.Errorf("%+v is committed", stale[0].To)
		}
	})
}

// What was lost is not tried again when the turn that had it was refused.
func TestLost(t *testing.T) {
	l := testLane(t)
	stay := &group.Stay{}
	l.membership = stay
	p := livePartition(t, l)
	l.read(t, p, testNow, req(0, testNow, "orders"))
	parts, _ := l.selection.records(l.order, testNow)
	l.turns.inFlight = &turn.Turn{Env: l.turnEnv(), Parts: parts, Tried: parts, Cancel: func() {}, Outcome: turn.Aborted, Err: errors.New("refused")}
	l.turns.decided <- l.turns.inFlight
	l.take(t.Context(), group.Handover{From: stay, Revoked: []kafka.TopicPartition{testTP}, Lost: true})
	equal(t, "partitions", len(l.partitions)+len(l.order), 0)
	if due, _ := l.selection.records(l.order, testNow); len(due) > 0 {
		t.Errorf("records %v are delivered", offsetsIn(due[0]))
	}
}

// A turn with unknown outcome: what was remembered of its partitions is dropped, both producers
// are renewed, and the checkpoints are fetched (design rule 7).
func TestUnknownOutcome(t *testing.T) {
	l := testLane(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer l.wg.Wait()
	defer cancel()
	p := livePartition(t, l)
	l.read(t, p, testNow, req(0, testNow, "orders"))
	parts, _ := l.selection.records(l.order, testNow)
	l.read(t, p, testNow, req(1, ms(-1), "orders")) // late by a W that is not tried any more
	render := &turn.Renderer{Env: l.turnEnv(), Outputs: make([]turn.Output, 0, 8)}
	tn := &turn.Turn{Env: l.turnEnv(), Parts: parts, Tried: parts, Cancel: func() {}, Renderer: render, Outcome: turn.Unknown, Err: kafka.ErrUnanswered}
	l.turns.inFlight = tn
	l.turnDecided(ctx, tn)
	equal(t, "room of what the old client may still hold", cap(render.Outputs), 0)
	equal(t, "partitions", len(l.partitions)+len(l.order), 0)
	equal(t, "producers are being renewed", l.producers.renewing, true)
	equals(t, "partitions to restore", l.restoring(), []kafka.TopicPartition{testTP})
	cancel()
	<-l.producers.renewed
}

// A rebalance waits for a member for at least as long as a turn of it may take, since a revocation waits for the turn.
func TestRebalanceWaitsForATurn(t *testing.T) {
	for _, c := range []struct{ session, turn, want time.Duration }{
		{10 * time.Second, 5 * time.Second, 10 * time.Second},
		{2 * time.Second, 5 * time.Second, 7 * time.Second},
		{10 * time.Second, 20 * time.Second, 22 * time.Second},
	} {
		l := testLane(t, func(cfg *Config) { cfg.SessionTimeout, cfg.TurnTimeout = c.session, c.turn })
		equal(t, "rebalance timeout", l.groupConfig().RebalanceTimeout, c.want)
	}
}

// A plain commit that is not answered ends the membership: a late copy must find its generation
// gone (design rule 7).
func TestPlainCommitNotAnswered(t *testing.T) {
	l := testLane(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	p := livePartition(t, l)
	before, err := l.group.Join()
	if err != nil {
		t.Fatal(err)
	}
	l.membership = before
	l.read(t, p, testNow, control(0))
	tn := &turn.Turn{Env: l.turnEnv(), Parts: []*turn.Part{p.prepareCommit()}, Plain: true, Cancel: func() {}, Outcome: turn.Unknown, Err: kafka.ErrUnanswered}
	tn.Tried = tn.Parts
	p.Begin()
	l.turns.inFlight = tn
	l.turnDecided(ctx, tn)
	if l.membership == before {
		t.Error("there is no new membership")
	}
	equal(t, "partitions", len(l.partitions), 0)
	l.membership.Leave()
	l.group.Wait() // for the first one, too
	<-before.Left()
}

// again is when the lane wakes to try again what a partition could not do.
func again(p *partition) int64 {
	due, _ := p.nextDue()
	return due
}

// A few turns that were given up are tried again at once, because every rebalance refuses some;
// when it goes on, the partition rests for longer each time and says why.
func TestAbortsAreSpacedOut(t *testing.T) {
	l := testLane(t)
	p := livePartition(t, l)
	l.read(t, p, testNow, req(0, testNow, "orders"))
	refuse := func() {
		parts, _ := l.selection.records(l.order, max(again(p), testNow))
		l.turns.inFlight = &turn.Turn{Env: l.turnEnv(), Parts: parts, Tried: parts, Cancel: func() {}, Outcome: turn.Aborted, Err: kerr.RebalanceInProgress}
		l.turnDecided(t.Context(), l.turns.inFlight)
	}
	for i, want := range []int64{0, 0, 0, 0, 100, 200, 400, 800, 1000, 1000} {
		refuse()
		if got := max(again(p)-testNow, 0); got != want {
			t.Errorf("after %d turns that were given up it waits %d ms, want %d", i+1, got, want)
		}
		equal(t, "it is said why", p.err != nil, want > 0)
	}
	if parts, _ := l.selection.records(l.order, testNow); len(parts) > 0 {
		t.Error("it is tried again at once")
	}
	parts, _ := l.selection.records(l.order, again(p))
	l.turns.inFlight = &turn.Turn{Env: l.turnEnv(), Parts: parts, Tried: parts, Cancel: func() {}}
	l.turnDecided(t.Context(), l.turns.inFlight)
	equal(t, "turns given up in a row", l.turns.aborts, 0)
	if p.err != nil {
		t.Errorf("it still says %v", p.err)
	}
}

// A turn that no lane may begin makes a partition wait a second: only a person can mend that.
func TestForbiddenTurnWaits(t *testing.T) {
	l := testLane(t)
	p := livePartition(t, l)
	l.read(t, p, testNow, req(0, testNow, "orders"))
	parts, _ := l.selection.records(l.order, testNow)
	p.End()
	l.turns.repeat(&turn.Turn{Env: l.turnEnv(), Tried: parts, Err: kerr.GroupAuthorizationFailed})
	equal(t, "it waits", again(p)-testNow, 1000)
	if !errors.Is(p.err, kerr.GroupAuthorizationFailed) {
		t.Errorf("it says %v", p.err)
	}
}

// Shutting down comes to an end although the turn in flight does not: it is given up when its time
// is over, and its outcome is left to the next owner.
func TestShutdownDoesNotWaitForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pr := testProcessor(t)
		l := pr.lanes[0]
		l.membership = outsider{} // leaving is another matter
		p := livePartition(t, l)
		l.read(t, p, testNow, req(0, testNow, "orders"))
		parts, _ := l.selection.records(l.order, testNow)
		ctx, cancel := context.WithCancel(t.Context())
		l.turns.inFlight = &turn.Turn{Env: l.turnEnv(), Parts: parts, Tried: parts, Cancel: cancel}
		go func(tn *turn.Turn) { // hangs until it is given up
			<-ctx.Done()
			tn.Outcome, tn.Err = turn.Unknown, ctx.Err()
			l.turns.decided <- tn
		}(l.turns.inFlight)
		told, stop := context.WithCancel(t.Context())
		defer pr.bound(told)()
		began := time.Now()
		stop()
		l.shutdown() // done is never closed: the client hangs, too
		if took, most := time.Since(began), l.cfg.ShutdownTimeout; took > most {
			t.Errorf("it took %v, and %v is the limit", took, most)
		}
		equal(t, "partitions", len(l.partitions), 0)
		l.reader.Close() // in the bubble that it was used in
	})
}

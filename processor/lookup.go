package processor

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/wait"
)

const (
	targetRefresh      = 10 * time.Second       // how often healthy targets are looked at
	targetRefreshQuick = 500 * time.Millisecond // and those that have just got into trouble
	targetTroubledMost = 5 * time.Second        // and, at last, those in trouble
	targetMissingMost  = 30 * time.Second       // and those whose records are dead-lettered
	leadersPatience    = 2 * time.Second        // how long leaders may take to say that they are well
	targetsAtOnce      = 200                    // how many are asked for in one request
	targetRest         = 20 * time.Millisecond  // how long names gather between two requests
	targetIdle         = 6                      // full looks without use after which one is forgotten
)

// run keeps the targets up to date until ctx ends.
func (ts *targets) run(ctx context.Context, cl *kgo.Client) {
	var asking sync.WaitGroup
	defer asking.Wait()
	last := time.Time{}
	for {
		all := ts.all()
		full := time.Since(last) >= targetRefresh
		ask := ts.toAsk(all)
		for some := range slices.Chunk(ask, targetsAtOnce) {
			if toTry := ts.refresh(ctx, cl, some); len(toTry) > 0 {
				asking.Go(func() { ts.askLeaders(ctx, cl, toTry) }) // one that is silent must not hold up the looks at others
			}
		}
		if len(ask) > 0 && !wait.For(ctx, targetRest) {
			return
		}
		if full {
			last = time.Now()
			ts.forgetIdle(all)
		}
		t := time.NewTimer(untilLook(all))
		select {
		case <-t.C:
		case <-ts.wake:
			t.Stop()
		case <-ctx.Done():
			t.Stop()
			return
		}
	}
}

// toAsk selects the targets that are to be looked at now, or so soon that they are better asked for
// in the same request.
func (ts *targets) toAsk(all []*target) (ask []*target) {
	for _, t := range all {
		if hurry := t.hurry.Swap(false); hurry || time.Until(t.state.Load().lookAt) < targetRefreshQuick {
			ask = append(ask, t)
		}
	}
	return ask
}

// untilLook is when the next look is due; requests that fail are not repeated at once.
func untilLook(all []*target) time.Duration {
	wait := targetRefresh
	for _, t := range all {
		wait = min(wait, time.Until(t.state.Load().lookAt))
	}
	return max(wait, targetRefreshQuick)
}

// refresh asks the brokers for some targets, and returns those that are to be tried if their leaders
// are well.
func (ts *targets) refresh(ctx context.Context, cl *kgo.Client, ask []*target) (toTry []*target) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	names := make([]string, len(ask))
	for i, t := range ask {
		names[i] = t.name
	}
	began := time.Now()
	details, err := describeTopics(ctx, cl, names)
	if err != nil {
		ts.log.Debug("targets cannot be looked up; asking again", "error", err)
		return nil
	}
	ts.trip.Store(max(int64(time.Since(began)), ts.trip.Load()*7/8))
	limits := describeLimits(ctx, cl, names)
	for _, t := range ask {
		d, ok := details[t.name]
		if !ok {
			continue
		}
		old := t.state.Load()
		takes, ok := limits[t.name]
		if !ok {
			takes = old.takes
		}
		n := ts.look(old, d, takes, time.Now())
		if n.toTry(n.asked) {
			n.tryAt = n.asked.Add(leadersPatience)
			toTry = append(toTry, t)
		}
		ts.replace(t, old, n)
	}
	return toTry
}

// replace says what has changed.
func (ts *targets) replace(t *target, old, n *targetState) {
	if !t.state.CompareAndSwap(old, n) || n.status == old.status {
		return
	}
	attrs := []any{"topic", t.name, "status", n.status.String()}
	if n.why != "" {
		attrs = append(attrs, "why", n.why)
	}
	switch {
	case n.status == targetMissing || n.denied == targetMissing: // names are for producers to invent
		ts.log.Debug("target has changed", attrs...)
	case n.status != targetReady || old.status != targetUnknown:
		ts.log.Info("target has changed", attrs...)
	}
}

// look makes a new state of what metadata says.
func (ts *targets) look(old *targetState, d kadm.TopicDetail, takes topicLimits, now time.Time) *targetState {
	n := *old
	n.asked, n.takes, n.well = now, takes, false
	switch denied, fault := denial(d), faultOf(d, takes.minISR); {
	case denied != 0:
		ts.deny(&n, denied, now)
		n.tryAt = time.Time{} // what was wrong shows now, so it will show when it is mended
	case fault != "":
		n.status, n.why, n.denied, n.tryAt = targetTroubled, fault, 0, time.Time{}
	default:
		n.well, n.partitions = true, int32(len(d.Partitions))
		ts.lookWell(&n, now)
	}
	if n.status != old.status {
		n.since = now
	}
	n.lookAt = now.Add(n.lookPause(now))
	return &n
}

// lookWell takes in that metadata says nothing against a target. That is enough for one that was in
// trouble by metadata alone; one that has made turns fail has to show that it takes records.
func (ts *targets) lookWell(n *targetState, now time.Time) {
	switch {
	case n.failures == 0:
		n.status, n.why, n.denied = targetReady, "", 0
	case n.status == targetReady, n.status == targetOnTrial:
	case n.denied == targetForbidden: // so its leaders say
		ts.deny(n, targetForbidden, now)
	default:
		n.status, n.denied = targetTroubled, 0
	}
}

// deny takes in that a target does not exist, or that it is not for us. Its records are carried on
// at first: it may be about to be made, or the right to be given.
func (ts *targets) deny(n *targetState, denied targetStatus, now time.Time) {
	if n.denied != denied {
		n.denied, n.deniedSince = denied, now
	}
	n.status = targetTroubled
	patience := ts.unknownAfter
	if n.why = "it does not exist"; denied == targetForbidden {
		n.why, patience = "writing to it is forbidden (TOPIC_AUTHORIZATION_FAILED)", ts.forbiddenAfter
	}
	if n.verdict = n.deniedSince.Add(patience); !now.Before(n.verdict) {
		n.status = denied
	}
}

// denial is what metadata says against a target that no waiting mends: zero for nothing.
func denial(d kadm.TopicDetail) targetStatus {
	switch {
	case errors.Is(d.Err, kerr.UnknownTopicOrPartition):
		return targetMissing
	case errors.Is(d.Err, kerr.TopicAuthorizationFailed), len(d.AuthorizedOperations) > 0 && !mayWrite(d.AuthorizedOperations):
		return targetForbidden
	}
	return 0
}

// mayWrite reports whether operations allow writing. Brokers that do not tell them list none.
func mayWrite(allowed []kadm.ACLOperation) bool {
	return slices.Contains(allowed, kmsg.ACLOperationWrite) || slices.Contains(allowed, kmsg.ACLOperationAll)
}

// faultOf is what metadata says against a target: a partition that nothing can be written to.
func faultOf(d kadm.TopicDetail, minISR int) string {
	if d.Err != nil {
		return d.Err.Error()
	}
	for _, p := range d.Partitions {
		if p.Leader < 0 || p.Err != nil && !errors.Is(p.Err, kerr.ReplicaNotAvailable) {
			return "a partition has no leader"
		}
		if len(p.ISR) < min(minISR, len(p.Replicas)) {
			return "a partition has fewer replicas in sync than min.insync.replicas"
		}
	}
	return ""
}

// lookPause is when to look again: at one in trouble soon, and then at longer intervals.
func (s *targetState) lookPause(now time.Time) time.Duration {
	switch s.status {
	case targetReady, targetOnTrial:
		return targetRefresh
	case targetMissing, targetForbidden:
		return min(max(now.Sub(s.deniedSince)/4, targetRefreshQuick), targetMissingMost)
	}
	return min(max(now.Sub(s.since)/10, targetRefreshQuick), targetTroubledMost)
}

// askLeaders asks the leaders of targets that made turns fail and look well, and whether they have
// taken the end of those turns. The others are left alone for another while.
func (ts *targets) askLeaders(ctx context.Context, cl *kgo.Client, ask []*target) {
	ctx, cancel := context.WithTimeout(ctx, leadersPatience)
	defer cancel()
	names := make([]string, len(ask))
	for i, t := range ask {
		names[i] = t.name
	}
	offs, _ := kadm.NewClient(cl).ListEndOffsets(ctx, names...)
	for _, t := range ask {
		old := t.state.Load()
		if !old.well || old.failures == 0 || old.writable() {
			continue
		}
		n := *old
		if err := offsetsError(offs[t.name], old.partitions); err != nil {
			n.why, n.tryAt = err.Error(), time.Now().Add(targetRefreshQuick)
		} else if n.keeps != nil && n.keeps.Still() {
			n.tryAt = time.Now().Add(targetRefreshQuick)
		} else {
			n.status, n.since, n.keeps = targetOnTrial, time.Now(), nil
		}
		ts.replace(t, old, &n)
	}
}

// offsetsError is what leaders say of themselves, or that one has not answered.
func offsetsError(of map[int32]kadm.ListedOffset, partitions int32) error {
	for _, o := range of {
		if o.Err != nil {
			return o.Err
		}
	}
	if len(of) < int(partitions) {
		return kafka.ErrUnanswered
	}
	return nil
}

package targets

import (
	"context"
	"errors"
	"slices"
	"strings"
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
	refreshWell     = 10 * time.Second       // how often healthy targets are looked at
	RefreshQuick    = 500 * time.Millisecond // and those that have just got into trouble
	troubledMost    = 5 * time.Second        // and, at last, those in trouble
	missingMost     = 30 * time.Second       // and those whose records are dead-lettered
	leadersPatience = 2 * time.Second        // how long leaders may take to say that they are well
	atOnce          = 200                    // how many are asked for in one request
	lookRest        = 20 * time.Millisecond  // how long names gather between two requests
	idleLooks       = 6                      // full looks without use after which one is forgotten
	goneFor         = time.Hour              // for how long one to which records were delivered has not existed when it may be, too
)

// Run keeps the targets up to date until ctx ends.
func (ts *Table) Run(ctx context.Context, cl *kgo.Client) {
	var asking sync.WaitGroup
	defer asking.Wait()
	last := time.Time{}
	for {
		all := ts.All()
		full := time.Since(last) >= refreshWell
		ask := ts.toAsk(all)
		for some := range slices.Chunk(ask, atOnce) {
			if toTry := ts.refresh(ctx, cl, some); len(toTry) > 0 {
				asking.Go(func() { ts.askLeaders(ctx, cl, toTry) }) // one that is silent must not hold up the looks at others
			}
		}
		if len(ask) > 0 && !wait.For(ctx, lookRest) {
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
func (ts *Table) toAsk(all []*Target) (ask []*Target) {
	for _, t := range all {
		if hurry := t.Hurry.Swap(false); hurry || time.Until(t.State.Load().lookAt) < RefreshQuick {
			ask = append(ask, t)
		}
	}
	return ask
}

// untilLook is when the next look is due; requests that fail are not repeated at once.
func untilLook(all []*Target) time.Duration {
	wait := refreshWell
	for _, t := range all {
		wait = min(wait, time.Until(t.State.Load().lookAt))
	}
	return max(wait, RefreshQuick)
}

// refresh asks the brokers for some targets, and returns those that are to be tried if their leaders
// are well.
func (ts *Table) refresh(ctx context.Context, cl *kgo.Client, ask []*Target) (toTry []*Target) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	names := make([]string, len(ask))
	for i, t := range ask {
		names[i] = t.Name
	}
	began := time.Now()
	details, err := describeTopics(ctx, cl, names)
	if err != nil {
		ts.log.Debug("targets cannot be looked up; asking again", "error", err)
		return nil
	}
	ts.noteTrip(time.Since(began))
	limits := describeLimits(ctx, cl, names)
	for _, t := range ask {
		d, ok := details[t.Name]
		if !ok {
			continue
		}
		if d.Err == nil || errors.Is(d.Err, kerr.UnknownTopicOrPartition) {
			ts.see(t.Name, leadersOf(d))
		}
		old := t.State.Load()
		takes, ok := limits[t.Name]
		if !ok {
			takes = old.Takes
		}
		n := ts.look(old, d, takes, time.Now())
		if n.toTry(n.Asked) {
			n.tryAt = n.Asked.Add(leadersPatience)
			toTry = append(toTry, t)
		}
		ts.replace(t, old, n)
	}
	return toTry
}

// replace says what has changed.
func (ts *Table) replace(t *Target, old, n *State) {
	trouble := (old.Writable() || old.Status == Unknown) && !n.Writable() && n.Denied != Missing && n.tell(time.Now())
	if !t.State.CompareAndSwap(old, n) || n.Status == old.Status {
		return
	}
	attrs := []any{"topic", t.Name, "status", n.Status.String()}
	if n.Why != "" {
		attrs = append(attrs, "why", n.Why)
	}
	switch {
	case n.Status == Missing || n.Denied == Missing: // names are for producers to invent
		ts.log.Debug("target has changed", attrs...)
	case trouble:
		ts.log.Warn(t.inTrouble(), "topic", t.Name, "error", n.Why)
	case n.Status != Ready || old.Status != Unknown:
		ts.log.Info("target has changed", attrs...)
	}
}

// look makes a new state of what metadata says.
func (ts *Table) look(old *State, d kadm.TopicDetail, takes Limits, now time.Time) *State {
	n := *old
	n.Asked, n.Takes, n.well, n.Sound = now, takes, false, soundOf(d, takes.minISR)
	switch denied, fault := denial(d), faultOf(d, takes.minISR); {
	case denied != 0:
		ts.deny(&n, denied, now)
		n.tryAt = time.Time{} // what was wrong shows now, so it will show when it is mended
	case fault != "":
		n.Status, n.Why, n.Denied, n.tryAt = Troubled, fault, 0, time.Time{}
	default:
		n.well, n.Partitions = true, int32(len(d.Partitions))
		ts.lookWell(&n, now)
	}
	if n.Status != old.Status {
		n.since = now
	}
	n.lookAt = now.Add(n.lookPause(now))
	return &n
}

// lookWell takes in that metadata says nothing against a target. That is enough for one that was in
// trouble by metadata alone; one that has made turns fail has to show that it takes records.
func (ts *Table) lookWell(n *State, now time.Time) {
	switch {
	case n.Failures == 0:
		n.Status, n.Why, n.Denied = Ready, "", 0
	case n.Status == Ready, n.Status == OnTrial:
	case n.Denied == Forbidden: // so its leaders say
		ts.deny(n, Forbidden, now)
	default:
		n.Status, n.Denied = Troubled, 0
	}
}

// deny takes in that a target does not exist, or that it is not for us. Its records are carried on
// at first: it may be about to be made, or the right to be given.
func (ts *Table) deny(n *State, denied Status, now time.Time) {
	if n.Denied != denied {
		n.Denied, n.deniedSince = denied, now
	}
	n.Status = Troubled
	patience := ts.unknownAfter
	if n.Why = "it does not exist"; denied == Forbidden {
		n.Why, patience = "writing to it is forbidden (TOPIC_AUTHORIZATION_FAILED)", ts.forbiddenAfter
	}
	if n.Verdict = n.deniedSince.Add(patience); !now.Before(n.Verdict) {
		n.Status = denied
	}
}

// denial is what metadata says against a target that no waiting mends: zero for nothing.
func denial(d kadm.TopicDetail) Status {
	switch {
	case errors.Is(d.Err, kerr.UnknownTopicOrPartition):
		return Missing
	case errors.Is(d.Err, kerr.TopicAuthorizationFailed), len(d.AuthorizedOperations) > 0 && !mayWrite(d.AuthorizedOperations):
		return Forbidden
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
		if fault := faultIn(p, minISR); fault != "" {
			return fault
		}
	}
	return ""
}

// faultIn is why nothing can be written to a partition.
func faultIn(p kadm.PartitionDetail, minISR int) string {
	switch {
	case p.Leader < 0, p.Err != nil && !errors.Is(p.Err, kerr.ReplicaNotAvailable):
		return "a partition has no leader"
	case len(p.ISR) < min(minISR, len(p.Replicas)):
		return "a partition has fewer replicas in sync than min.insync.replicas"
	}
	return ""
}

// soundOf says of each partition whether it can be written to.
func soundOf(d kadm.TopicDetail, minISR int) []bool {
	sound := make([]bool, len(d.Partitions))
	for i := range sound {
		p, ok := d.Partitions[int32(i)]
		sound[i] = ok && faultIn(p, minISR) == ""
	}
	return sound
}

// leadersOf are the leaders of a topic's partitions.
func leadersOf(d kadm.TopicDetail) map[int32]kafka.Leader {
	leaders := make(map[int32]kafka.Leader, len(d.Partitions))
	for partition, p := range d.Partitions {
		leaders[partition] = kafka.Leader{Epoch: p.LeaderEpoch, There: p.Leader >= 0}
	}
	return leaders
}

// lookPause is when to look again: at one in trouble soon, and then at longer intervals.
func (s *State) lookPause(now time.Time) time.Duration {
	switch s.Status {
	case Ready, OnTrial:
		return refreshWell
	case Missing, Forbidden:
		return min(max(now.Sub(s.deniedSince)/4, RefreshQuick), missingMost)
	}
	return min(max(now.Sub(s.since)/10, RefreshQuick), troubledMost)
}

// awaitsEnd is why a target is not tried that takes what is produced, as far as is known. Where a broker has given the end up that is so until it is
// restarted, for the ids of this process.
const awaitsEnd = "; and it has not taken the end of a transaction, and is not tried before; where that lasts, restart this process, which takes other transactional ids"

// askLeaders asks the leaders of targets that made turns fail and look well, and whether they have
// taken the end of those turns. The others are left alone for another while.
func (ts *Table) askLeaders(ctx context.Context, cl *kgo.Client, ask []*Target) {
	ctx, cancel := context.WithTimeout(ctx, leadersPatience)
	defer cancel()
	names := make([]string, len(ask))
	for i, t := range ask {
		names[i] = t.Name
	}
	offs, _ := kadm.NewClient(cl).ListEndOffsets(ctx, names...)
	for _, t := range ask {
		old := t.State.Load()
		if !old.well || old.Failures == 0 || old.Writable() {
			continue
		}
		n := *old
		if err := offsetsError(offs[t.Name], old.Partitions); err != nil {
			n.Why, n.tryAt = err.Error(), time.Now().Add(RefreshQuick)
		} else if n.keeps != nil && n.keeps.Still() {
			n.tryAt = time.Now().Add(RefreshQuick)
			if !strings.HasSuffix(n.Why, awaitsEnd) {
				n.Why += awaitsEnd
			}
		} else {
			n.Status, n.since, n.keeps = OnTrial, time.Now(), nil
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

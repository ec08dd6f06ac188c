package processor

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/wait"
	"github.com/duewheel/duewheel/state"
)

// shutdown finishes what is open, writes the checkpoints, and leaves the group.
func (l *lane) shutdown() {
	ctx := l.p.until
	l.stopping = true
	l.cancelRestores(nil)
	for _, p := range l.order {
		l.events.tell(Event{Kind: EventLeaving}, p.tp)
	}
	l.stopPoll(ctx)
	l.awaitTurn(ctx)
	l.cancelRestores(nil) // what its outcome has begun
	l.lastCheckpoints(ctx, l.order)
	for _, p := range l.order {
		if p.live() && p.HasStore() && p.Far() > 0 {
			if err := p.Flush(); errors.Is(err, state.ErrFailed) {
				l.p.store.failed(err)
			} else if err != nil {
				l.log.Warn("the local store lacks what was taken in last; the log has it", "topic", p.tp.Topic, "partition", p.tp.Partition, "error", err)
			}
		}
	}
	l.membership.Leave()
	// Callbacks of the leaving client do not wait any more; what they still hand over is passed over.
	for {
		select {
		case <-l.group.Handovers():
		case <-l.restored:
		case <-l.membership.Left():
			return
		case <-ctx.Done():
			return
		}
	}
}

// lastCheckpoints writes the checkpoints of partitions that are about to be given up, so that
// their next owner has little or nothing to do again.
func (l *lane) lastCheckpoints(ctx context.Context, ps []*partition) {
	t := &turn{kit: &l.kit, plain: true, member: l.membership.Member()}
	for _, p := range ps {
		if !p.live() {
			continue
		}
		if pt := l.toCommit(p); pt != nil {
			t.parts = append(t.parts, pt)
		}
	}
	if len(t.parts) == 0 || !t.member.Valid() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, kafka.RequestTimeout/2)
	defer cancel()
	t.took = t.parts
	l.commitLast(ctx, t)
	if t.outcome != outcomeDone {
		l.log.Warn("the last checkpoints were not written; their next owner repeats some work", "error", t.err)
		return
	}
	l.tookDone(t)
}

// commitLast commits with no next time to wait for: a refusal that has changed nothing is met at once.
// In at_least_once what is not written comes again, so a rebalance is waited for that goes on for some
// ms. The partitions are ours until then: the member's callbacks, which would give them up, wait for
// the lane.
func (l *lane) commitLast(ctx context.Context, t *turn) {
	for try := 0; ; try++ {
		l.coordinator.Retry(ctx, l.reader, func() error { return t.commitPlain(ctx) })
		rebalances := kafka.IsAny(t.err, kerr.RebalanceInProgress, kerr.IllegalGeneration, kerr.StaleMemberEpoch)
		if !rebalances || l.cfg.Guarantee != AtLeastOnce || !wait.For(ctx, wait.Growing(try, 10*time.Millisecond, 200*time.Millisecond)) {
			return
		}
		t.member = l.membership.Member()
	}
}

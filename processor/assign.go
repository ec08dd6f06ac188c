package processor

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/duewheel/duewheel/processor/group"
	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/restore"
	"github.com/duewheel/duewheel/processor/turn"
	"github.com/duewheel/duewheel/processor/wait"
	"github.com/duewheel/duewheel/state"
)

// errGivenUp: it may have had its partitions back meanwhile, and another member in between.
var errGivenUp = errors.New("the group has given this member up while it joined again, and has taken it in as a new one")

// take acts on what the group has handed over. Until it has, the group does not give a revoked partition
// to another member.
func (l *lane) take(ctx context.Context, h group.Handover) {
	if h.From != l.membership {
		return // a stay that is over
	}
	if h.GivenUp {
		l.counters.rebalances.Add(1)
		l.endMembership(ctx, errGivenUp)
		return
	}
	if len(h.Assigned) > 0 {
		l.counters.rebalances.Add(1)
		l.log.Info("partitions assigned", "partitions", h.Assigned)
		l.events.tell(Event{Kind: EventAssigned}, h.Assigned...)
		l.settings.Ask()
		l.restore(ctx, h.Assigned, 0)
	}
	if len(h.Revoked) == 0 {
		return
	}
	l.counters.rebalances.Add(1)
	l.log.Info("partitions revoked", "partitions", h.Revoked, "lost", h.Lost)
	if h.Lost {
		l.events.tell(Event{Kind: EventLost}, h.Revoked...)
	} else {
		l.events.tell(Event{Kind: EventRevoked}, h.Revoked...)
	}
	// A turn that is under way is decided first: its checkpoint is ours to write. When they are
	// lost it will be refused, and none that was rendered ahead may follow in the name of the
	// next stay.
	l.awaitTurn(ctx)
	if h.From != l.membership {
		return // its outcome has ended the stay
	}
	if !h.Lost && l.cfg.Guarantee == AtLeastOnce {
		// Else what was acknowledged comes again.
		l.checkpoints.last(ctx, slices.DeleteFunc(slices.Clone(l.order), func(p *partition) bool { return !slices.Contains(h.Revoked, p.tp) }), l.membership)
	}
	again, others := l.restores.Cancel(h.Revoked) // after the turn, whose outcome may have begun some
	for _, r := range others {
		l.adopt(ctx, r)
	}
	if h.From != l.membership {
		return
	}
	l.drop(ctx, h.Revoked)
	l.restore(ctx, again, 0)
}

// awaitTurn waits until the turn in flight is decided, and the commit beside it, or gives them up
// when that takes too long for a rebalance to wait; what they did is then unknown. No other begins
// meanwhile.
func (l *lane) awaitTurn(ctx context.Context) {
	if l.turns.inFlight == nil && l.checkpoints.commit == nil {
		return
	}
	defer func(was bool) { l.turns.draining = was }(l.turns.draining)
	l.turns.draining = true
	wait := l.cfg.TurnTimeout + time.Second
	if l.turns.stopping {
		wait = min(wait, l.cfg.ShutdownTimeout/2) // what is left is for the checkpoints, and to leave
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	for l.turns.inFlight != nil || l.checkpoints.commit != nil {
		select {
		case t := <-l.turns.decided:
			l.turnDecided(ctx, t)
		case t := <-l.checkpoints.committed:
			l.commitDecided(ctx, t)
		case <-t.C:
			for _, t := range []*turn.Turn{l.turns.inFlight, l.checkpoints.commit} {
				if t != nil {
					t.Cancel()
				}
			}
		}
	}
}

// drop forgets partitions without writing anything.
func (l *lane) drop(ctx context.Context, tps []kafka.TopicPartition) {
	gone := map[string][]int32{}
	for _, tp := range tps {
		l.assigned.Forget(l.n, tp)
		p := l.partitions[tp]
		if p == nil {
			continue
		}
		p.dropped = true
		gone[tp.Topic] = append(gone[tp.Topic], tp.Partition)
		delete(l.partitions, tp)
		l.events.tell(Event{Kind: EventDropped}, tp)
	}
	if len(gone) == 0 {
		return
	}
	l.stopPoll(ctx)
	l.reading.remove(gone)
	l.order = inOrder(l.partitions)
}

// restart starts one partition over: its memory is worth nothing. When it is the store that has
// failed, the partitions go on without it.
func (l *lane) restart(ctx context.Context, p *partition, why error) {
	if l.partitions[p.tp] != p {
		return
	}
	if errors.Is(why, state.ErrFailed) {
		l.storeFailed(ctx, why)
		return
	}
	rest := l.restores.Failed(p.tp)
	l.log.Warn("partition starts over from its checkpoint", "topic", p.tp.Topic, "partition", p.tp.Partition, "error", why, "in", rest.Round(time.Millisecond))
	l.startOver(ctx, p, rest)
}

// startOver gives up what is remembered of a partition, and restores it after a rest.
func (l *lane) startOver(ctx context.Context, p *partition, rest time.Duration) {
	if p.opened() && p.Undecided() > 0 || l.checkpoints.commit != nil {
		// The turn's outcome would find the partition gone, whose records are in the log; and a
		// checkpoint that is on its way must not arrive after the restore.
		l.awaitTurn(ctx)
	}
	if l.partitions[p.tp] != p {
		return // the turn's end has already done it
	}
	l.drop(ctx, []kafka.TopicPartition{p.tp})
	l.restore(ctx, []kafka.TopicPartition{p.tp}, rest)
}

// restartTopics starts every partition of topics over that brokers do not know by their ids any more:
// one was deleted, and perhaps made anew. The reader holds on to the id that it has seen first, so
// it has to forget the topic.
func (l *lane) restartTopics(ctx context.Context, gone map[string]error) {
	for topic, why := range gone {
		l.awaitTurn(ctx) // its outcome would find the partitions gone
		var tps []kafka.TopicPartition
		var rest time.Duration
		for tp := range l.partitions {
			if tp.Topic == topic {
				tps = append(tps, tp)
				rest = max(rest, l.restores.Failed(tp))
			}
		}
		l.log.Warn("topic is not what it was; its partitions start over", "topic", topic, "error", why, "in", rest.Round(time.Millisecond))
		l.drop(ctx, tps)
		l.stopPoll(ctx)
		l.reading.forget(topic)
		l.restore(ctx, tps, rest)
	}
}

// adopt takes over a partition whose restore has come to an end.
func (l *lane) adopt(ctx context.Context, r restore.Restored) {
	if !l.restores.Has(r) {
		return // given up meanwhile
	}
	if r.LostMembership != nil {
		l.endMembership(ctx, r.LostMembership)
		return
	}
	l.stopPoll(ctx) // before it is ours: what is taken in now may start others over
	if !l.restores.Has(r) {
		return
	}
	l.restores.Took(r)
	p := newPartition(r.Partition, l.counters.topics[r.TP.Topic])
	l.partitions[p.tp] = p
	l.order = inOrder(l.partitions)
	l.assigned.Remember(l.n, p.tp, &p.picture)
	if p.phase == PhaseStopped {
		l.log.Error("partition is stopped until a person decides", "topic", p.tp.Topic, "partition", p.tp.Partition, "error", p.err)
		l.events.tell(Event{Kind: EventStopped, Error: p.err.Error()}, p.tp)
		return
	}
	m := p.Marks()
	p.progress.from = m.Start
	l.reading.add(p.tp, m.Start, r.Told)
	l.log.Info("partition restored; catching up", "topic", p.tp.Topic, "partition", p.tp.Partition,
		"offset", m.Committed.Offset, "watermark", m.Committed.Watermark, "low_water", m.Committed.LowWater, "start", m.Start, "end", p.logEnd)
	l.events.tell(Event{Kind: EventRestored, LowWater: m.Committed.LowWater, Start: m.Start}, p.tp)
}

// inOrder are partitions in a fixed order.
func inOrder(of map[kafka.TopicPartition]*partition) []*partition {
	return slices.SortedFunc(maps.Values(of), func(a, b *partition) int { return kafka.Compare(a.tp, b.tp) })
}

// restore brings partitions back, after a rest.
func (l *lane) restore(ctx context.Context, tps []kafka.TopicPartition, rest time.Duration) {
	if len(tps) > 0 {
		l.reading.announce(tps)
		l.restores.Start(ctx, l.membership, tps, rest)
	}
}

// endMembership leaves the group and joins it as a new member, so that nothing that was sent in
// the old one's name can take effect.
func (l *lane) endMembership(ctx context.Context, why error) {
	l.log.Warn("leaving the group to join it anew", "error", why)
	old := l.membership
	l.awaitTurn(ctx)
	if l.membership != old {
		return // the turn's outcome has done it
	}
	l.restores.Cancel(nil) // after the turn, whose outcome may have begun some
	var all []kafka.TopicPartition
	for tp := range l.partitions {
		all = append(all, tp)
	}
	l.drop(ctx, all)
	l.membership.Leave()
	wait.For(ctx, l.stays.Failed()) // nothing is lost: the lane has no partitions
	for {
		m, err := l.group.Join()
		if err == nil {
			l.membership, l.checkpoints.unanswered = m, unanswered{}
			return
		}
		l.log.Error("the group cannot be joined; trying again", "error", err)
		if !wait.For(ctx, time.Second) {
			return
		}
	}
}

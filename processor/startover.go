package processor

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/turn"
	"github.com/duewheel/duewheel/processor/wait"
	"github.com/duewheel/duewheel/state"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

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
		l.passing.forget(tp)
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
	all, _ := l.restores.Cancel(nil) // after the turn, whose outcome may have begun some
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

// turnDecided acts on what became of the turn in flight.
func (l *lane) turnDecided(ctx context.Context, t *turn.Turn) {
	l.turns.conclude(ctx, l.order, t, l.membership)
	if l.turns.inFlight != nil { // what comes next is rendered meanwhile, and has not to wait until the lane has loaded what comes after that
		l.turns.begin(l.order, l.clock.Now(), l.membership)
	}
	if t.Outcome == turn.Unknown {
		l.log.Warn("turn with unknown outcome; its partitions start over from their checkpoints", "error", t.Err, "partitions", len(t.Tried))
		l.dropUnknown(ctx, t)
	}
	if t.Plain {
		l.restartTopics(ctx, l.checkpoints.refused(t))
	}
}

// commitDecided acts on what became of the checkpoints that were written beside turns.
func (l *lane) commitDecided(ctx context.Context, t *turn.Turn) {
	if silent := l.checkpoints.conclude(t); silent && !l.turns.stopping {
		l.endMembership(ctx, t.Err)
		return
	}
	l.restartTopics(ctx, l.checkpoints.refused(t))
}

// dropUnknown drops what was remembered of the partitions of a turn that may or may not have
// happened. A plain commit that was not answered ends the membership as well, because a late
// copy of it must find its generation gone.
func (l *lane) dropUnknown(ctx context.Context, t *turn.Turn) {
	if l.checkpoints.commit != nil && !t.Plain {
		l.awaitTurn(ctx) // a checkpoint that is on its way must not arrive after the partition's restore
	}
	var tps []kafka.TopicPartition
	for _, pt := range t.Lasts() {
		if !partitionOf(pt).dropped { // else it was lost meanwhile
			tps = append(tps, pt.TP)
		}
	}
	switch {
	case l.turns.stopping: // their next owner finds out
		l.drop(ctx, tps)
	case t.Plain:
		l.endMembership(ctx, t.Err)
	default:
		t.Renderer.Forget()
		rest := l.unknowns.Failed()
		l.producers.renew(ctx, rest)
		l.drop(ctx, tps)
		l.restore(ctx, tps, rest)
	}
}

// stopPoll takes in what the reader has, and leaves it alone: only then may partitions be added
// or removed, so that nothing from before turns up after.
func (l *lane) stopPoll(ctx context.Context) {
	if fs, polled := l.reading.stop(); polled {
		l.acceptAll(ctx, fs)
	}
}

// acceptAll takes in what was read.
func (l *lane) acceptAll(ctx context.Context, fs kgo.Fetches) {
	l.reading.ended()
	now := l.clock.Now()
	var failed []*partition
	var why []error
	fs.EachPartition(func(ftp kgo.FetchTopicPartition) {
		p := l.partitions[kafka.TopicPartition{Topic: ftp.Topic, Partition: ftp.Partition}]
		if p == nil || p.phase == PhaseStopped {
			for _, r := range ftp.Records {
				r.Recycle()
			}
			return
		}
		if len(ftp.Records) > 0 {
			p.readAt = time.Now()
		}
		err := ftp.Err
		if errors.Is(err, kafka.ErrCut) {
			err = nil
		}
		if err == nil {
			err = l.without(p, p.Expect(ftp.Records))
		}
		if len(ftp.Records) > 0 {
			err = l.intake(p).all(ftp.Records, now, err)
		}
		if err == nil {
			p.unread.Read()
			err = l.without(p, p.Sync())
		}
		if err != nil && !kafka.IsShutdown(err) && !errors.Is(err, context.DeadlineExceeded) {
			failed, why = append(failed, p), append(why, err)
		}
	})
	for i, p := range failed {
		switch {
		case l.partitions[p.tp] != p: // started over with another one
		case kafka.IsRefusedFetch(why[i]):
			l.refused(ctx, p, why[i])
		case errors.Is(why[i], kerr.OffsetOutOfRange) && p.live() && holds(p):
			p.behead()
			l.balancedAt, l.tidiedAt = time.Time{}, time.Time{} // it is paused before the next poll
		default:
			l.restart(ctx, p, why[i])
		}
	}
}

// refused leaves a partition alone for a while that brokers do not let be read. What was read before is as good as ever, and is
// delivered, unless the topic is gone.
func (l *lane) refused(ctx context.Context, p *partition, why error) {
	gone, news := p.unread.Hear(l.reader, p.tp, why, l.cfg.SessionTimeout)
	if gone {
		l.restartTopics(ctx, map[string]error{p.tp.Topic: why})
		return
	}
	if news != nil {
		p.log.Warn("partition cannot be read; trying again", "error", news)
	}
	l.balancedAt = time.Time{} // it is paused before the next poll
}

// storeFailed makes every partition go on without the store. One that is being read has counted
// what the store held, so it is read from its low water on.
func (l *lane) storeFailed(ctx context.Context, err error) {
	l.store.Failed(err)
	for _, p := range slices.Clone(l.order) { // which changes meanwhile
		switch {
		case !p.opened() || !p.HasStore():
		case p.live():
			p.Forgo()
		default:
			l.startOver(ctx, p, 0)
		}
	}
}

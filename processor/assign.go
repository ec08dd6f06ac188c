package processor

import (
	"context"
	"errors"
	"slices"

	"github.com/duewheel/duewheel/processor/group"
	"github.com/duewheel/duewheel/processor/restore"
)

// errRenamed: it may have had its partitions back meanwhile, and another member in between.
var errRenamed = errors.New("the group has given this member up while it joined again, and has taken it in as a new one")

// take acts on what the group has handed over. Until it has, the group does not give a revoked partition
// to another member.
func (l *lane) take(ctx context.Context, h group.Handover) {
	if h.From != l.membership {
		return // a stay that is over
	}
	if h.Renamed {
		l.counters.rebalances.Add(1)
		l.endMembership(ctx, errRenamed)
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
	if l.cfg.Guarantee == AtLeastOnce {
		// Else what was acknowledged comes again. Where they are lost there is no member left to write it.
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
	if r.Stopped != nil {
		p.stop(r.Stopped, l.events)
		return
	}
	m := p.Marks()
	p.progress.from = m.Start
	l.reading.add(p.tp, m.Start, r.Told)
	l.log.Info("partition restored; catching up", "topic", p.tp.Topic, "partition", p.tp.Partition,
		"offset", m.Committed.Offset, "watermark", m.Committed.Watermark, "low_water", m.Committed.LowWater, "start", m.Start, "end", p.logEnd)
	l.events.tell(Event{Kind: EventRestored, LowWater: m.Committed.LowWater, Start: m.Start}, p.tp)
}

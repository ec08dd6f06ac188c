package processor

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/duewheel/duewheel/processor/targets"
)

// Stats takes a picture of the processor.
func (p *Processor) Stats() Stats {
	clock := p.clock.Picture()
	s := Stats{
		Instance: p.cfg.Instance, Lanes: len(p.lanes),
		DeadLetters: p.counters.deadLetters.Total(), Refusing: p.counters.deadLetters.Recent(), Refused: p.counters.refused.snapshot(), Cancels: p.counters.cancels.snapshot(),
		Transactions: p.counters.turns.snapshot(), Checkpoints: p.counters.checkpoints.snapshot(), TransactionTime: p.counters.turnTime.Snapshot(), Work: snapshots(&p.counters.work),
		Rebalances: p.counters.rebalances.Load(), StoreTrouble: p.store.why(), ReadAgain: p.counters.readAgain.Load(), Takeovers: p.counters.warm.Load(), Retried: p.counters.retried.Load(),
		Now: p.clock.Time(), ClockSkew: clock.Skew, ClockSteps: clock.Steps, ClockTrouble: clock.Trouble, ClockUnknown: clock.Unknown, BrokerClocks: clock.Others, BrokersApart: clock.Apart,
	}
	if p.cfg.AuditTopic != "" {
		s.Audited = p.counters.audits()
	}
	for _, l := range p.lanes {
		s.NearBytes += l.memory.published.Load()
	}
	if store := p.store.opened.Load(); store != nil {
		s.StoreBytes, _ = store.DiskBytes() // 0 while it does not work
	}
	s.Partitions, s.Outside, s.Standbys = p.pictures(), p.outside(), p.standbys.stats()
	for _, name := range slices.Sorted(maps.Keys(p.counters.topics)) {
		c := p.counters.topics[name]
		s.Topics = append(s.Topics, TopicStats{Topic: name, Accepted: c.accepted.Load(), Delivered: c.delivered.Load(), Late: c.late.Load(), LateOnArrival: c.lateOnArrival.Load(), Requested: c.requested.Snapshot(), Trouble: c.Trouble.Get(), Unseen: c.Unseen.Get(), Trimmed: c.Trimmed.Load(), Untrimmed: cmp.Or(c.Untrimmed.Get(), c.HeldUp.Any()), Uncarried: cmp.Or(c.Uncarried.Any(), c.Uncopied.Any()), Carried: c.carried.Load()})
	}
	for _, t := range p.targets.All() {
		st := t.State.Load()
		if st.Status == targets.Missing && t.Counts.Delivered.Load() == 0 {
			continue // a name that a producer has made up
		}
		ts := TargetStats{Target: t.Name, Delivered: t.Counts.Delivered.Load(), Lateness: t.Counts.Lateness.Snapshot()}
		if st.Status != targets.Ready {
			ts.Trouble = st.Status.String() + ": " + notReady(st)
		}
		s.Targets = append(s.Targets, ts)
	}
	slices.SortFunc(s.Targets, func(a, b TargetStats) int { return cmp.Compare(a.Target, b.Target) })
	return s
}

// outside says which lanes the group does not take, and why.
func (p *Processor) outside() (why []string) {
	for _, l := range p.lanes {
		if w := l.standing.Why(p.entrance.Why()); w != "" {
			why = append(why, fmt.Sprintf("lane %d: %s", l.n, w))
		}
	}
	return why
}

// sharedOut is for how long a new member may have no partition before it is known that there is none for it: some heartbeats, by which the others learn that
// they are to give some up. With the consumer protocol the broker says how often those are, every 5 s by default.
func (c *Config) sharedOut() time.Duration {
	if c.Protocol == ProtocolConsumer {
		return 10 * time.Second
	}
	return max(3*c.HeartbeatInterval, time.Second)
}

// Ready reports whether every lane works and is in the group, and every assigned partition is live and not held
// up, and lists the partitions that are not. What would be so on every replica
// (PartitionStats.Anywhere) is listed, and keeps none from being ready, unless all partitions are stopped: a rollout would wait for it for ever. A replica
// without partitions is ready when it has been in the group for some time: it gets them at a second rebalance, when others have given them up.
func (p *Processor) Ready() (bool, []PartitionStats) {
	ready := p.Alive()
	all := p.pictures()
	least := time.Duration(0)
	if len(all) == 0 {
		least = p.cfg.sharedOut()
	}
	for _, l := range p.lanes {
		ready = ready && l.standing.Within(least)
	}
	var not []PartitionStats
	stopped := 0
	for _, s := range all {
		if s.Phase == PhaseStopped {
			stopped++
		}
		if s.Phase != PhaseLive || s.Error != "" {
			not = append(not, s)
			ready = ready && s.Anywhere
		}
	}
	return ready && (stopped == 0 || stopped < len(all)), not
}

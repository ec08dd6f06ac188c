package processor

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/duewheel/duewheel/processor/clock"
	"github.com/duewheel/duewheel/processor/histogram"
	"github.com/duewheel/duewheel/processor/picture"
	"github.com/duewheel/duewheel/processor/targets"
	"github.com/duewheel/duewheel/processor/telling"
)

// BrokerClock is a broker's clock compared with the broker's that counts.
type BrokerClock = clock.Broker

// Stats is a picture of the processor at one moment, for metrics, probes and people. It is
// assembled from counters that the lanes keep; taking it never stops a lane.
type Stats struct {
	Instance    string
	Lanes       int
	Partitions  []PartitionStats // those assigned to this process, by topic and partition
	Outside     []string         // lanes that the group does not take, why, and what to do
	Standbys    []StandbyStats   // of partitions that other replicas own, by topic and partition
	Topics      []TopicStats     // counters by delay topic
	Targets     []TargetStats    // counters by target topic
	DeadLetters []DeadLetterStats
	Refusing    []string         // why records were dead-lettered in the last minute or two, with examples
	Refused     map[string]int64 // header parse outcomes other than ok, by code
	Cancels     map[string]int64 // records that name another one, by what they have done: cancelled, replaced, too_late, unknown, forwarded, not_here, ignored
	Audited     map[string]int64 // records for the audit topic, by event

	Transactions    map[string]int64              // turns by outcome: committed, aborted, unknown
	EndsWritten     int64                         // partitions that the end of a transaction was written to again, since they may have had no leader when it ended (KAFKA-20734)
	EndsOwed        int64                         // and to how many it is still to be written: readers of those may wait
	Checkpoints     map[string]int64              // committed outside of transactions, by outcome: written, refused, unknown
	TransactionTime histogram.Snapshot            // from begin to decision
	Work            map[string]histogram.Snapshot // for how long a lane was kept by one piece of it, by kind: accept, spill, load, live, turn, tidy, move
	Rebalances      int64
	Takeovers       int64         // partitions taken over from standbys of this process
	PeersHeard      int64         // other replicas that tell this one that they are there
	PeersTakenOut   int64         // replicas that were taken out of the group because they had ended
	Retried         int64         // records appended again, to be retried, because their target was in trouble
	StoreTrouble    string        // why there is no local store, and what to do; empty while there is
	ReadAgain       int64         // how often a partition was read again because there is none
	Now             time.Time     // by the clock that records are delivered by, which may not be this machine's
	ClockSkew       time.Duration // brokers' clock minus ours; 0 while it is not known
	ClockSteps      int64
	ClockTrouble    string        // the clock of this machine is wrong, by how much, and what to do
	ClockUnknown    string        // why brokers do not say what time it is; empty while they do
	BrokerClocks    []BrokerClock // of those that were asked last
	BrokersApart    string        // which of them are wrong; empty while they agree
	NearBytes       int64         // memory held for near records
	StoreBytes      int64         // on disk
}

// DeadLetterStats counts the records of a delay topic that were dead-lettered for one reason.
type DeadLetterStats = telling.DeadLetterCount

// StandbyStats is what is known of one standby.
type StandbyStats = picture.Standby

// TopicStats counts what happened to the records of one delay topic.
type TopicStats struct {
	Topic     string
	Accepted  int64
	Delivered int64
	Late      int64 // accepted when their key was at or below the watermark

	LateOnArrival int64 // due before they were written

	Requested histogram.Snapshot // the delays that were asked for

	Trouble string // why the topic loses what is pending, and what to do; empty otherwise

	Hidden string // why brokers do not show the topic, so that this process gets none of its partitions; empty while they do
	Unseen string // why it is not known whether the topic keeps what is pending, and what to do; empty while it is

	Trimmed   int64  // offsets that were deleted because nothing needed them any more
	Untrimmed string // why the topic is not trimmed, and what to do; empty while it is, or is not to be

	Uncarried string // why nothing of the topic is carried, and what to do; empty while it is, or is not to be

	Carried int64 // copies of pending records that were written so that the log can be cut
}

// TargetStats counts what was delivered to one target topic.
type TargetStats struct {
	Target    string
	Delivered int64
	Trouble   string // empty, or why records for it are retried
	Lateness  histogram.Snapshot
}

// Stats takes a picture of the processor.
func (p *Processor) Stats() Stats {
	clock := p.clock.Picture()
	s := Stats{
		Instance: p.cfg.Instance, Lanes: len(p.lanes),
		DeadLetters: p.counters.deadLetters.Total(), Refusing: p.counters.deadLetters.Recent(), Refused: p.counters.refused.snapshot(), Cancels: p.counters.cancels.snapshot(),
		Transactions: p.counters.turns.snapshot(), Checkpoints: p.counters.checkpoints.snapshot(), TransactionTime: p.counters.turnTime.Snapshot(), Work: snapshots(&p.counters.work),
		Rebalances: p.counters.rebalances.Load(), StoreTrouble: p.store.Why(), ReadAgain: p.counters.readAgain.Load(), Takeovers: p.counters.warm.Load(), Retried: p.counters.retried.Load(),
		Now: p.clock.Time(), ClockSkew: clock.Skew, ClockSteps: clock.Steps, ClockTrouble: clock.Trouble, ClockUnknown: clock.Unknown, BrokerClocks: clock.Others, BrokersApart: clock.Apart,
	}
	if p.cfg.AuditTopic != "" {
		s.Audited = p.counters.audits()
	}
	for _, l := range p.lanes {
		s.NearBytes += l.memory.published.Load()
	}
	if store := p.store.Opened(); store != nil {
		s.StoreBytes, _ = store.DiskBytes() // 0 while it does not work
	}
	s.PeersHeard, s.PeersTakenOut = p.presence.counts()
	s.EndsWritten, s.EndsOwed = p.markers.Counts()
	s.Partitions, s.Outside, s.Standbys = p.pictures(), p.outside(), p.standbys.Pictures()
	for _, name := range slices.Sorted(maps.Keys(p.counters.topics)) {
		c := p.counters.topics[name]
		s.Topics = append(s.Topics, TopicStats{Topic: name, Accepted: c.accepted.Load(), Delivered: c.delivered.Load(), Late: c.late.Load(), LateOnArrival: c.lateOnArrival.Load(), Requested: c.requested.Snapshot(), Trouble: c.Trouble.Get(), Hidden: p.hidden(name), Unseen: c.Unseen.Get(), Trimmed: c.Trimmed.Load(), Untrimmed: cmp.Or(c.Untrimmed.Get(), c.HeldUp.Any()), Uncarried: cmp.Or(c.Uncarried.Any(), c.Uncopied.Any()), Carried: c.carried.Load()})
	}
	for _, t := range p.targets.All() {
		st := t.State.Load()
		if st.Status == targets.Missing && t.Counts.Delivered.Load() == 0 {
			continue // a name that a producer has made up
		}
		ts := TargetStats{Target: t.Name, Delivered: t.Counts.Delivered.Load(), Lateness: t.Counts.Lateness.Snapshot()}
		if st.Status != targets.Ready {
			ts.Trouble = st.Status.String() + ": " + st.NotReady()
		}
		s.Targets = append(s.Targets, ts)
	}
	slices.SortFunc(s.Targets, func(a, b TargetStats) int { return cmp.Compare(a.Target, b.Target) })
	return s
}

// hidden is why brokers do not show a delay topic; empty: they do.
func (p *Processor) hidden(topic string) string {
	if err := p.entrance.Hidden(topic); err != nil {
		return err.Error()
	}
	return ""
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

// pictures are those of the partitions that the process has. What carriers say of those that are being restored they cannot say themselves.
func (p *Processor) pictures() []PartitionStats {
	all := p.assigned.All()
	for i := range all {
		if s := &all[i]; s.Phase == PhaseRestoring {
			s.CarryBehind = p.counters.topics[s.Topic].Behind.Of(s.Partition)
			s.Error = s.CarryBehind
		}
	}
	return all
}

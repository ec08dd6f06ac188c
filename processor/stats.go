package processor

import (
	"time"

	"github.com/duewheel/duewheel/processor/clock"
	"github.com/duewheel/duewheel/processor/histogram"
	"github.com/duewheel/duewheel/processor/kafka"
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
	Checkpoints     map[string]int64              // committed outside of transactions, by outcome: written, refused, unknown
	TransactionTime histogram.Snapshot            // from begin to decision
	Work            map[string]histogram.Snapshot // for how long a lane was kept by one piece of it, by kind: accept, spill, load, live, turn, tidy, move
	Rebalances      int64
	Takeovers       int64         // partitions taken over from standbys of this process
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
type DeadLetterStats struct {
	Topic   string
	Code    string
	Records int64
}

// Phase is where a partition stands between being assigned and being given up.
type Phase string

const (
	PhaseRestoring Phase = "restoring" // fetching the checkpoint, fencing, claiming
	PhaseCatchUp   Phase = "catching_up"
	PhaseLive      Phase = "live"
	PhaseStopped   Phase = "stopped" // an error that a person must decide on
)

// PartitionStats is what is known of one assigned partition.
type PartitionStats struct {
	Topic     string
	TopicID   kafka.TopicID `json:"-"`
	Partition int32
	Lane      int
	since     time.Time // when its restore began
	seen      *seen     // of one that is being restored, for long; else nil
	Phase     Phase
	Error     string // why it is stopped or held up, and what to do; empty otherwise
	Anywhere  bool   // all of Error would be so on every replica, so it keeps none from being ready
	Reason    string // what a restore or catch-up is waiting for, or what a live one does without

	Known        bool  // it has been opened: what is said below of its checkpoint, its log and what is pending is nothing otherwise
	Offset       int64 // O, as committed
	LowWater     int64 // L, as committed
	WatermarkDue int64 // ms
	Position     int64 // next offset to be read
	LogStart     int64 // as last asked
	LogEnd       int64 // as last asked: the last stable offset, or the end of records of ours that lie above

	Pending      int64
	PendingBytes int64
	Needs        time.Duration // for how long the topic must keep its log, at least, for what is pending and is not carried, and for what is remembered
	Near         int64         // of those, held in memory; where ids are remembered it may be less
	Remembered   int64         // records that were delivered, and whose ids are remembered
	Overdue      int64         // pending and due before now, approximately
	NextDue      int64         // ms; 0 when nothing is pending, or nothing is known of when it is due

	CheckpointAt      time.Time     // when the checkpoint was last committed
	CheckpointOverdue time.Duration // for how long there has been a checkpoint to write; 0: there is none
	CarryBehind       string        // why the log may lose what is pending before it is carried, and what to do; empty otherwise
	Unstable          int64         // offsets from the last stable offset to the high watermark, as last asked: what cannot be read while transactions are open
	OpenFor           time.Duration // for how long the last stable offset has stood still there, at least; 0: it has not
	HeldBack          string        // which open transaction holds back what is behind it, when it has been open for longer than a session, and what to do; empty otherwise. While it catches up it is in Reason
	CaughtUp          float64       // which share of the log has been read that a restore has to read: 0 to 1, which a live one has
	CatchUpLeft       time.Duration // how long the rest takes, about; 0: it cannot be told
	RestoreTime       time.Duration // from assignment to live, the last time
	Agenda            []AgendaEntry // how much is due within the next minute, hour, day
}

func (p *PartitionStats) tp() kafka.TopicPartition {
	return kafka.TopicPartition{Topic: p.Topic, Partition: p.Partition}
}

// StandbyStats is what is known of one standby.
type StandbyStats struct {
	Topic     string
	Partition int32
	Offset    int64 // O of the owner, as last seen
	Position  int64 // the next offset that it takes in
	Pending   int64
}

// AgendaEntry says how many pending records are due within a time from now.
type AgendaEntry struct {
	Within  time.Duration
	Records int64
	Bytes   int64
}

// TopicStats counts what happened to the records of one delay topic.
type TopicStats struct {
	Topic     string
	Accepted  int64
	Delivered int64
	Late      int64 // accepted when their key was at or below the watermark

	LateOnArrival int64 // due before they were written

	Requested histogram.Snapshot // the delays that were asked for

	Trouble string // why the topic loses what is pending, and what to do; empty otherwise

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

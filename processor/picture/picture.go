// Package picture is what a lane publishes of its partitions, for metrics, probes, people, and what looks after their logs.
package picture

import (
	"time"

	"github.com/duewheel/duewheel/processor/kafka"
)

// Phase is where a partition stands between being assigned and being given up.
type Phase string

// The phases.
const (
	Restoring Phase = "restoring" // fetching the checkpoint, fencing, claiming
	CatchUp   Phase = "catching_up"
	Live      Phase = "live"
	Stopped   Phase = "stopped" // an error that a person must decide on
)

// Partition is what is known of one assigned partition.
type Partition struct {
	Topic     string
	TopicID   kafka.TopicID `json:"-"`
	Partition int32
	Lane      int
	Since     time.Time `json:"-"` // when its restore began
	Seen      *Seen     `json:"-"` // of one that is being restored, for long; else nil
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

// TP is its name.
func (p *Partition) TP() kafka.TopicPartition {
	return kafka.TopicPartition{Topic: p.Topic, Partition: p.Partition}
}

// Seen is a partition as it was before the transaction that its restore waits for.
type Seen struct {
	ID               kafka.TopicID
	Offset, LowWater int64
	LogStart, LogEnd int64
}

// AsSeen is the picture of a partition that is being restored, with what was seen of its checkpoint and its log.
func (p Partition) AsSeen() Partition {
	p.TopicID, p.Offset, p.Position, p.LowWater = p.Seen.ID, p.Seen.Offset, p.Seen.Offset, p.Seen.LowWater
	p.LogStart, p.LogEnd = p.Seen.LogStart, p.Seen.LogEnd
	return p
}

// AgendaEntry says how many pending records are due within a time from now.
type AgendaEntry struct {
	Within  time.Duration
	Records int64
	Bytes   int64
}

// Standby is what is known of one standby.
type Standby struct {
	Topic     string
	Partition int32
	Offset    int64 // O of the owner, as last seen
	Position  int64 // the next offset that it takes in
	Pending   int64
}

package processor

import (
	"slices"
	"time"

	"github.com/duewheel/duewheel/processor/kafka"
)

// EventKind says what has happened.
type EventKind string

// These are the events of a lane's partitions, in the order in which they come: what the group has assigned is restored, then live, and
// dropped in the end.
const (
	EventAssigned EventKind = "assigned" // the group has given partitions to the lane
	EventRevoked  EventKind = "revoked"  // the group wants partitions back
	EventLost     EventKind = "lost"     // the group has given partitions to others already
	EventRestored EventKind = "restored" // a partition's state is there, and its log is read
	EventLive     EventKind = "live"     // a partition delivers
	EventStopped  EventKind = "stopped"  // a partition waits for a person; Error says why
	EventCut      EventKind = "cut"      // the log of a partition has lost what is pending there, which this process alone can deliver; Error says what to do
	EventBlocked  EventKind = "blocked"  // a transaction that others have open keeps what is behind it in the log from being read; Error says whose it may be
	EventFreed    EventKind = "freed"    // that has ended
	EventLeaving  EventKind = "leaving"  // the processor is told to end: what partitions have in flight is finished, and they write their last checkpoints
	EventDropped  EventKind = "dropped"  // the lane knows nothing of partitions any more, whether they are elsewhere or start over
	EventFenced   EventKind = "fenced"   // the transactions of Writer are ended, who has left a partition with one open
)

// These are the events of what a lane has sent, about the partitions that it concerns.
const (
	EventCommitted EventKind = "committed" // a turn of Records, none for a checkpoint alone
	EventAborted   EventKind = "aborted"   // it is known not to have happened, and is tried again
	EventUnknown   EventKind = "unknown"   // it may have happened
)

// Event is one thing that a lane has done or met. It can be written as JSON.
type Event struct {
	Kind       EventKind
	At         time.Time
	Lane       int
	Partitions []TopicPartition `json:",omitempty"`
	Writer     string           `json:",omitempty"`
	Records    int              `json:",omitempty"`
	LowWater   int64            `json:",omitempty"` // restored: L, and where reading begins
	Start      int64            `json:",omitempty"`
	Error      string           `json:",omitempty"`
}

// TopicPartition names a partition of a delay topic.
type TopicPartition = kafka.TopicPartition

// events tells a program what a lane does and meets, if one listens.
type events struct {
	to   func(Event)
	lane int
}

func (es events) tell(e Event, tps ...kafka.TopicPartition) {
	if es.to == nil {
		return
	}
	e.At, e.Lane, e.Partitions = time.Now(), es.lane, slices.Clone(tps)
	es.to(e)
}

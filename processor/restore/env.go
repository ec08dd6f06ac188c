package restore

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/local"
	"github.com/duewheel/duewheel/processor/pending"
	"github.com/duewheel/duewheel/processor/picture"
	"github.com/duewheel/duewheel/processor/producer"
	"github.com/duewheel/duewheel/processor/wait"
	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
)

// Env is what the restores of a lane work with. None of it belongs to a goroutine.
type Env struct {
	Lane               int // whose partitions are shown
	Group              string
	Identity           string // as checkpoints say it; empty: that is Group
	Writer             string // who claims partitions; empty in at_least_once, which leaves nothing open
	Consumer           bool   // the broker shares partitions out (KIP-848)
	AcceptLoss         bool
	SessionTimeout     time.Duration
	TransactionTimeout time.Duration
	EmptyTimeout       time.Duration // the transaction timeout of an id that is fenced
	Window             int64         // ms: records that are due within that time are near
	Pending            pending.Env   // what each partition is told, but for its route and its mark
	Routes             map[string]*topics.Route
	Clock              interface {
		Now() int64   // ms
		Limit() int64 // up to where keys are trusted
	}
	Coordinator *kafka.Coordinator
	Reader      *kgo.Client // asks brokers; nothing is read by it here
	Epochs      *kafka.Epochs
	Store       *local.Store
	Standbys    interface { // of this process
		Advance(kafka.TopicPartition, kafka.TopicID, state.Checkpoint) error
		Take(kafka.TopicPartition, kafka.TopicID) *pending.Follower
	}
	Markers  *producer.Markers
	Assigned *picture.Set
	Warm     *atomic.Int64                                // counts the partitions that standbys have handed over
	Fenced   func(tp kafka.TopicPartition, writer string) // is told of each writer once
	Awaits   func() error                                 // why our own producers cannot be renewed, if they cannot; nil: that is never asked
	Uneven   wait.Wake                                    // asked for a rebalance
	Until    context.Context                              // bounds what is not cut short when a restore is cancelled
	Log      *slog.Logger
}

// These errors stop a partition until a person has decided.
var (
	ErrForeignCheckpoint = errors.New("restore: the committed offset has no checkpoint of ours")
	ErrOtherIdentity     = errors.New("restore: the checkpoint says another group.identity")
	ErrBeyondLog         = errors.New("restore: the checkpoint lies above the end of the log")
)

// ErrHangingTransaction is what a restore waits for that neither fencing nor its timeout ends.
var ErrHangingTransaction = errors.New("restore: a transaction hangs on the brokers and holds the checkpoint")

// identity is the name by which the group knows what it has written into topics for itself.
func (e *Env) identity() string { return cmp.Or(e.Identity, e.Group) }

package processor

import (
	"github.com/duewheel/duewheel/processor/group"
	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/local"
	"github.com/duewheel/duewheel/processor/restore"
	"github.com/duewheel/duewheel/state"
)

// These errors stop a partition until a person has decided. They are logged, counted and
// named by Ready with what to do.
var (
	// ErrForeignCheckpoint means that the group has a committed offset that was not written by
	// duewheel: by a tool, or mirrored from another cluster.
	ErrForeignCheckpoint = restore.ErrForeignCheckpoint
	// ErrOtherIdentity means that a checkpoint was written by a group that goes by another name ([Config.Identity]): copies and retries that
	// belong to it would be passed over.
	ErrOtherIdentity = restore.ErrOtherIdentity
	// ErrGiven means that the group has given the checkpoint to another one, which takes its place.
	ErrGiven = state.ErrGiven
	// ErrLogTruncated means that the delay topic has lost records that were pending.
	ErrLogTruncated = local.ErrLogTruncated
	// ErrBeyondLog means that the checkpoint lies above the end of the log, or above where that had ended before it was written on.
	ErrBeyondLog = restore.ErrBeyondLog
)

// These errors keep partitions, a lane or the whole processor from its work until a person has acted.
var (
	// ErrHangingTransaction means that a transaction holds a checkpoint and that its coordinator takes
	// it for ended: neither fencing nor its timeout ends it (KAFKA-20734, where nobody is left who knows how it ended). It stops nothing for good:
	// the restore goes on as soon as it is gone.
	ErrHangingTransaction = restore.ErrHangingTransaction
	// ErrInstanceInUse means that another process is a static member by the same instance id.
	ErrInstanceInUse = group.ErrInstanceInUse
	// ErrTransactionTimeout means that the brokers do not grant the transaction timeout that is
	// configured. Run returns it.
	ErrTransactionTimeout = kafka.ErrTransactionTimeout
	// ErrBrokersTooOld means that brokers do not speak what a guarantee rests on. Run returns it.
	ErrBrokersTooOld = kafka.ErrBrokersTooOld
	// ErrUnsupportedProtocol means that the brokers do not serve the group protocol that is
	// configured. Run returns it.
	ErrUnsupportedProtocol = group.ErrUnsupportedProtocol
)

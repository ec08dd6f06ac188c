package processor

import (
	"errors"
	"net"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// These errors stop a partition until a person has decided. They are logged, counted and
// named by Ready with what to do.
var (
	// ErrForeignCheckpoint means that the group has a committed offset that was not written by
	// duewheel: by a tool, or mirrored from another cluster.
	ErrForeignCheckpoint = errors.New("processor: the committed offset has no checkpoint of ours")
	// ErrLogTruncated means that the delay topic has lost records that were pending.
	ErrLogTruncated = errors.New("processor: the delay topic has lost pending records")
	// ErrBeyondLog means that the checkpoint lies above the end of the log.
	ErrBeyondLog = errors.New("processor: the checkpoint lies above the end of the log")
)

// These errors keep a lane, or the whole processor, out of its group until a person has acted.
var (
	// ErrHangingTransaction means that a transaction holds a checkpoint and that its coordinator takes
	// it for ended: neither fencing nor its timeout ends it (KAFKA-20734). It stops nothing for good:
	// the restore goes on as soon as it is gone.
	ErrHangingTransaction = errors.New("processor: a transaction hangs on the brokers and holds the checkpoint")
	// ErrInstanceInUse means that another process is a static member by the same instance id.
	ErrInstanceInUse = errors.New("processor: another process uses this group.instance_id")
	// ErrTransactionTimeout means that the brokers do not grant the transaction timeout that is
	// configured. Run returns it.
	ErrTransactionTimeout = errors.New("processor: the brokers do not grant so long a transaction")
	// ErrUnsupportedProtocol means that the brokers do not serve the group protocol that is
	// configured. Run returns it.
	ErrUnsupportedProtocol = errors.New("processor: the brokers do not serve this group protocol")
)

// errUnanswered means that a request was sent, and may have been carried out.
var errUnanswered = errors.New("processor: request not answered")

// verdict is what an error asks for.
type verdict int

const (
	// verdictRetry: nothing was changed, and the same may be tried again.
	verdictRetry verdict = iota
	// verdictRefused: it was answered with a refusal, mostly because the members of the group
	// have changed. Nothing was changed; what is still owned may be tried again.
	verdictRefused
	// verdictFenced: another instance has taken over our transactional id, so it has taken our
	// partitions for abandoned.
	verdictFenced
	// verdictUnknown: something may have been changed.
	verdictUnknown
	// verdictStop: only a person can mend it (authorization).
	verdictStop
)

// judge sorts the error of a request to a coordinator.
func judge(err error) verdict {
	var ke *kerr.Error
	switch {
	case err == nil, notSent(err):
		return verdictRetry
	case errors.Is(err, errUnanswered):
		return verdictUnknown
	case isAny(err, kerr.ProducerFenced, kerr.InvalidProducerEpoch):
		return verdictFenced
	case isAny(err, kerr.GroupAuthorizationFailed, kerr.TopicAuthorizationFailed, kerr.TransactionalIDAuthorizationFailed,
		kerr.ClusterAuthorizationFailed):
		return verdictStop
	case !errors.As(err, &ke), isAny(err, kerr.UnknownServerError, kerr.RequestTimedOut):
		return verdictUnknown
	case isAny(err, kerr.ConcurrentTransactions, kerr.CoordinatorLoadInProgress, kerr.NotCoordinator, kerr.CoordinatorNotAvailable):
		return verdictRetry
	}
	return verdictRefused
}

// moved reports whether the coordinator has to be looked up again.
func moved(err error) bool {
	return notSent(err) || isAny(err, kerr.NotCoordinator, kerr.CoordinatorNotAvailable)
}

// notSent reports whether a request cannot have reached a broker.
func notSent(err error) bool {
	var op *net.OpError
	return errors.Is(err, errNoCoordinator) || errors.As(err, &op) && op.Op == "dial"
}

func isAny(err error, targets ...error) bool {
	for _, t := range targets {
		if errors.Is(err, t) {
			return true
		}
	}
	return false
}

// isRefusedFetch reports that a broker does not let a partition be read, which says nothing about what
// was read before.
func isRefusedFetch(err error) bool {
	var ke *kerr.Error
	return errors.As(err, &ke) && !isTopicGone(err) && !errors.Is(err, kerr.OffsetOutOfRange)
}

// isTopicGone reports that a broker does not know a delay topic, or not by the id that it had.
func isTopicGone(err error) bool {
	return isAny(err, kerr.UnknownTopicID, kerr.UnknownTopicOrPartition, kerr.InconsistentTopicID)
}

// isTargets reports an error of a produce request that is the target's own, and not that of the
// transaction or of the client.
func isTargets(err error) bool {
	return isAny(err, kerr.UnknownTopicOrPartition, kerr.UnknownTopicID, kerr.TopicAuthorizationFailed, kerr.MessageTooLarge,
		kerr.RecordListTooLarge, kerr.InvalidRecord, kerr.InvalidTimestamp, kerr.NotEnoughReplicas, kerr.NotEnoughReplicasAfterAppend,
		kerr.NotLeaderForPartition, kerr.LeaderNotAvailable, kerr.KafkaStorageError, kerr.RequestTimedOut, kerr.PolicyViolation, kgo.ErrRecordTimeout,
		kgo.ErrRecordRetries)
}

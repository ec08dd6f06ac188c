package kafka

import (
	"context"
	"errors"
	"net"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// ErrUnanswered means that a request was sent, and may have been carried out.
var ErrUnanswered = errors.New("kafka: request not answered")

// ErrNoCoordinator means that a request was not sent: its coordinator is not known, or no connection to it could be made.
var ErrNoCoordinator = errors.New("kafka: coordinator not known")

// Verdict is what an error asks for.
type Verdict int

const (
	// Retry: nothing was changed, and the same may be tried again.
	Retry Verdict = iota
	// Refused: it was answered with a refusal, mostly because the members of the group
	// have changed. Nothing was changed; what is still owned may be tried again.
	Refused
	// Fenced: another instance has taken over our transactional id, so it has taken our
	// partitions for abandoned.
	Fenced
	// Unknown: something may have been changed.
	Unknown
	// Stop: only a person can mend it (authorization).
	Stop
)

// VerdictOf is the one function that sorts the errors of requests to coordinators; nil is a Retry. What it has no name for is Unknown.
func VerdictOf(err error) Verdict {
	var ke *kerr.Error
	switch {
	case errors.Is(err, ErrUnanswered): // also where the last try of several was not sent
		return Unknown
	case err == nil, notSent(err):
		return Retry
	case IsAny(err, kerr.ProducerFenced, kerr.InvalidProducerEpoch):
		return Fenced
	case IsAny(err, kerr.GroupAuthorizationFailed, kerr.TopicAuthorizationFailed, kerr.TransactionalIDAuthorizationFailed,
		kerr.ClusterAuthorizationFailed):
		return Stop
	case !errors.As(err, &ke), IsAny(err, kerr.UnknownServerError, kerr.RequestTimedOut):
		return Unknown
	case IsAny(err, kerr.ConcurrentTransactions, kerr.CoordinatorLoadInProgress, kerr.NotCoordinator, kerr.CoordinatorNotAvailable):
		return Retry
	}
	return Refused
}

// moved reports whether, after an error, the coordinator has to be looked up again.
func moved(err error) bool {
	return notSent(err) || IsAny(err, kerr.NotCoordinator, kerr.CoordinatorNotAvailable)
}

// notSent reports whether a request cannot have reached a broker.
func notSent(err error) bool {
	var op *net.OpError
	return IsAny(err, ErrNoCoordinator, errHungUp) || errors.As(err, &op) && op.Op == "dial"
}

// IsPassing reports whether an error may be over soon: leaders move, connections break.
func IsPassing(err error) bool {
	var code *kerr.Error
	return !errors.As(err, &code) || code.Retriable
}

// IsTooOld reports the client's errors for a request that a broker does not know, which it does not export (kgo v1.22).
func IsTooOld(err error) bool {
	return err != nil && (strings.Contains(err.Error(), "request key is unknown") || strings.Contains(err.Error(), "broker is too old"))
}

// IsAny reports whether an error is one of some.
func IsAny(err error, targets ...error) bool {
	for _, t := range targets {
		if errors.Is(err, t) {
			return true
		}
	}
	return false
}

// IsRefusedFetch reports that a broker does not let a partition be read, which says nothing about what
// was read before.
func IsRefusedFetch(err error) bool {
	var ke *kerr.Error
	return errors.As(err, &ke) && !errors.Is(err, kerr.OffsetOutOfRange)
}

// IsTopicGone reports that a broker does not know a topic, or not by the id that it had (KIP-516).
func IsTopicGone(err error) bool {
	return IsAny(err, kerr.UnknownTopicID, kerr.UnknownTopicOrPartition, kerr.InconsistentTopicID)
}

// IsTargets reports an error of a produce request that is the target's own, and not that of the
// transaction or of the client.
func IsTargets(err error) bool {
	return IsAny(err, kerr.UnknownTopicOrPartition, kerr.UnknownTopicID, kerr.TopicAuthorizationFailed, kerr.MessageTooLarge,
		kerr.RecordListTooLarge, kerr.InvalidRecord, kerr.InvalidTimestamp, kerr.NotEnoughReplicas, kerr.NotEnoughReplicasAfterAppend,
		kerr.NotLeaderForPartition, kerr.LeaderNotAvailable, kerr.KafkaStorageError, kerr.RequestTimedOut, kerr.PolicyViolation, kgo.ErrRecordTimeout,
		kgo.ErrRecordRetries)
}

// IsShutdown reports errors that only mean that a client was closed.
func IsShutdown(err error) bool {
	return errors.Is(err, kgo.ErrClientClosed) || errors.Is(err, context.Canceled)
}

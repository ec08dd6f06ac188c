package kafka

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

func TestJudge(t *testing.T) {
	dial := &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	read := &net.OpError{Op: "read", Err: errors.New("connection reset")}
	for _, c := range []struct {
		name string
		err  error
		want Verdict
	}{
		{"nothing wrong", nil, Retry},
		{"no connection: nothing was sent", fmt.Errorf("commit: %w", dial), Retry},
		{"no coordinator", ErrNoCoordinator, Retry},
		{"the connection was closed before: nothing was sent", fmt.Errorf("commit: %w", errHungUp), Retry},
		{"the connection broke: it may have been carried out", fmt.Errorf("%w: %w", ErrUnanswered, read), Unknown},
		{"what was written is not known: it may have been carried out", fmt.Errorf("commit: %w", &net.OpError{Op: "write", Err: errors.New("broken pipe")}), Unknown},
		{"it was not answered, and then there was no connection", fmt.Errorf("%w: %w", ErrUnanswered, dial), Unknown},
		{"no answer in time", fmt.Errorf("%w: %w", ErrUnanswered, context.DeadlineExceeded), Unknown},
		{"an answer that says nothing", kerr.UnknownServerError, Unknown},
		{"the broker waited in vain for its followers", kerr.RequestTimedOut, Unknown},
		{"an error that no list has", errors.New("strange"), Unknown},
		{"fenced", kerr.ProducerFenced, Fenced},
		{"fenced, as old brokers say", kerr.InvalidProducerEpoch, Fenced},
		{"markers on their way", kerr.ConcurrentTransactions, Retry},
		{"coordinator loading", kerr.CoordinatorLoadInProgress, Retry},
		{"coordinator moved", kerr.NotCoordinator, Retry},
		{"coordinator gone", kerr.CoordinatorNotAvailable, Retry},
		{"rebalance", kerr.RebalanceInProgress, Refused},
		{"generation", kerr.IllegalGeneration, Refused},
		{"member", kerr.UnknownMemberID, Refused},
		{"epoch of the member (KIP-848)", kerr.StaleMemberEpoch, Refused},
		{"the member was fenced (KIP-848)", kerr.FencedMemberEpoch, Refused},
		{"another process has the static member's place (KIP-345)", kerr.FencedInstanceID, Refused},
		{"the group is gone", kerr.GroupIDNotFound, Refused},
		{"not allowed to use the group", kerr.GroupAuthorizationFailed, Stop},
		{"not allowed to use the id", kerr.TransactionalIDAuthorizationFailed, Stop},
		{"not allowed to write", kerr.TopicAuthorizationFailed, Stop},
		{"not allowed to use the cluster", kerr.ClusterAuthorizationFailed, Stop},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := VerdictOf(c.err); got != c.want {
				t.Errorf("%v: verdict %d, want %d", c.err, got, c.want)
			}
			if c.err != nil {
				if got := VerdictOf(fmt.Errorf("commit offset of t/3: %w", c.err)); got != c.want {
					t.Errorf("wrapped: verdict %d, want %d", got, c.want)
				}
			}
		})
	}
}

func TestMoved(t *testing.T) {
	for err, want := range map[error]bool{
		kerr.NotCoordinator: true, kerr.CoordinatorNotAvailable: true, ErrNoCoordinator: true,
		kerr.ConcurrentTransactions: false, kerr.CoordinatorLoadInProgress: false, ErrUnanswered: false,
	} {
		if got := moved(fmt.Errorf("commit: %w", err)); got != want {
			t.Errorf("%v: moved is %v, want %v", err, got, want)
		}
	}
}

// Only a target's own errors carry its records on; what befalls the transaction or the client
// blames no target.
func TestIsTargets(t *testing.T) {
	for err, want := range map[error]bool{
		kerr.UnknownTopicOrPartition: true, kerr.NotLeaderForPartition: true, kerr.MessageTooLarge: true, kerr.InvalidRecord: true,
		kerr.NotEnoughReplicas: true, kerr.TopicAuthorizationFailed: true, kgo.ErrRecordTimeout: true, kgo.ErrRecordRetries: true,
		kerr.UnknownTopicID: true, kerr.RecordListTooLarge: true, kerr.InvalidTimestamp: true, kerr.NotEnoughReplicasAfterAppend: true,
		kerr.LeaderNotAvailable: true, kerr.KafkaStorageError: true, kerr.RequestTimedOut: true, kerr.PolicyViolation: true,
		kerr.ProducerFenced: false, kerr.InvalidTxnState: false, kerr.InvalidProducerIDMapping: false, kerr.TransactionAbortable: false,
		kgo.ErrClientClosed: false, context.Canceled: false, context.DeadlineExceeded: false,
	} {
		if got := IsTargets(fmt.Errorf("produce: %w", err)); got != want {
			t.Errorf("%v: the target's is %v, want %v", err, got, want)
		}
	}
}

// A fetch that is refused says nothing of what was read before, but for an offset that the log does not have.
func TestIsRefusedFetch(t *testing.T) {
	for err, want := range map[error]bool{
		kerr.NotLeaderForPartition: true, kerr.TopicAuthorizationFailed: true, kerr.UnknownTopicID: true, kerr.OffsetOutOfRange: false, errors.New("strange"): false,
	} {
		if got := IsRefusedFetch(fmt.Errorf("fetch: %w", err)); got != want {
			t.Errorf("%v: %v, want %v", err, got, want)
		}
	}
}

// Brokers have three answers for a topic that they do not know.
func TestIsTopicGone(t *testing.T) {
	for err, want := range map[error]bool{
		kerr.UnknownTopicID: true, kerr.UnknownTopicOrPartition: true, kerr.InconsistentTopicID: true, kerr.LeaderNotAvailable: false, kerr.TopicAuthorizationFailed: false,
	} {
		if got := IsTopicGone(fmt.Errorf("fetch: %w", err)); got != want {
			t.Errorf("%v: %v, want %v", err, got, want)
		}
	}
}

// A client that was closed, and a request that is not wanted any more, are no news.
func TestIsShutdown(t *testing.T) {
	for err, want := range map[error]bool{kgo.ErrClientClosed: true, context.Canceled: true, context.DeadlineExceeded: false, kerr.BrokerNotAvailable: false} {
		if got := IsShutdown(fmt.Errorf("fetch: %w", err)); got != want {
			t.Errorf("%v: %v, want %v", err, got, want)
		}
	}
}

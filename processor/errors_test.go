package processor

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
		want verdict
	}{
		{"nothing wrong", nil, verdictRetry},
		{"no connection: nothing was sent", fmt.Errorf("commit: %w", dial), verdictRetry},
		{"no coordinator", errNoCoordinator, verdictRetry},
		{"the connection broke: it may have been carried out", fmt.Errorf("%w: %w", errUnanswered, read), verdictUnknown},
		{"no answer in time", fmt.Errorf("%w: %w", errUnanswered, context.DeadlineExceeded), verdictUnknown},
		{"an answer that says nothing", kerr.UnknownServerError, verdictUnknown},
		{"the broker waited in vain for its followers", kerr.RequestTimedOut, verdictUnknown},
		{"an error that nobody knows", errors.New("strange"), verdictUnknown},
		{"fenced", kerr.ProducerFenced, verdictFenced},
		{"fenced, as old brokers say", kerr.InvalidProducerEpoch, verdictFenced},
		{"markers on their way", kerr.ConcurrentTransactions, verdictRetry},
		{"coordinator loading", kerr.CoordinatorLoadInProgress, verdictRetry},
		{"coordinator moved", kerr.NotCoordinator, verdictRetry},
		{"coordinator gone", kerr.CoordinatorNotAvailable, verdictRetry},
		{"rebalance", kerr.RebalanceInProgress, verdictRefused},
		{"generation", kerr.IllegalGeneration, verdictRefused},
		{"member", kerr.UnknownMemberID, verdictRefused},
		{"epoch of the member (KIP-848)", kerr.StaleMemberEpoch, verdictRefused},
		{"the member was fenced (KIP-848)", kerr.FencedMemberEpoch, verdictRefused},
		{"another process has the static member's place (KIP-345)", kerr.FencedInstanceID, verdictRefused},
		{"the group is gone", kerr.GroupIDNotFound, verdictRefused},
		{"not allowed to use the group", kerr.GroupAuthorizationFailed, verdictStop},
		{"not allowed to use the id", kerr.TransactionalIDAuthorizationFailed, verdictStop},
		{"not allowed to write", kerr.TopicAuthorizationFailed, verdictStop},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := judge(c.err); got != c.want {
				t.Errorf("%v: verdict %d, want %d", c.err, got, c.want)
			}
			if c.err != nil {
				if got := judge(fmt.Errorf("commit offset of t/3: %w", c.err)); got != c.want {
					t.Errorf("wrapped: verdict %d, want %d", got, c.want)
				}
			}
		})
	}
}

func TestMoved(t *testing.T) {
	for err, want := range map[error]bool{
		kerr.NotCoordinator: true, kerr.CoordinatorNotAvailable: true, errNoCoordinator: true,
		kerr.ConcurrentTransactions: false, kerr.CoordinatorLoadInProgress: false, errUnanswered: false,
	} {
		if got := moved(fmt.Errorf("commit: %w", err)); got != want {
			t.Errorf("%v: moved is %v, want %v", err, got, want)
		}
	}
}

// Only a target's own errors carry its records on; what befalls the transaction or the client
// blames nobody.
func TestIsTargets(t *testing.T) {
	for err, want := range map[error]bool{
		kerr.UnknownTopicOrPartition: true, kerr.NotLeaderForPartition: true, kerr.MessageTooLarge: true, kerr.InvalidRecord: true,
		kerr.NotEnoughReplicas: true, kerr.TopicAuthorizationFailed: true, kgo.ErrRecordTimeout: true,
		kerr.ProducerFenced: false, kerr.InvalidTxnState: false, kerr.InvalidProducerIDMapping: false, kerr.TransactionAbortable: false,
		kgo.ErrClientClosed: false, context.Canceled: false, context.DeadlineExceeded: false,
	} {
		if got := isTargets(fmt.Errorf("produce: %w", err)); got != want {
			t.Errorf("%v: the target's is %v, want %v", err, got, want)
		}
	}
}

package clock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/wait"
)

// timeProbe is one empty transaction, begun to learn from its coordinator when that was, and
// aborted. Every request is sent to that broker alone, and not repeated by the client: how long its
// answer takes is how much it is worth.
type timeProbe struct {
	b         *kgo.Broker
	id, group string
	producer  int64
	epoch     int16
}

// errNotTold means that a coordinator does not say when a transaction has begun.
var errNotTold = errors.New("clock: the transaction coordinator does not say when a transaction began")

// start makes the id one of ours. What it had open, it being asked before, is aborted.
func (t *timeProbe) start(ctx context.Context, timeout time.Duration) error {
	return t.retry(ctx, "start", func() error {
		req := kmsg.NewPtrInitProducerIDRequest()
		req.TransactionalID, req.TransactionTimeoutMillis = &t.id, int32(timeout.Milliseconds())
		req.ProducerID, req.ProducerEpoch = -1, -1
		resp, err := kafka.Ask(ctx, t.b, req)
		if err != nil {
			return err
		}
		r := resp.(*kmsg.InitProducerIDResponse)
		t.producer, t.epoch = r.ProducerID, r.ProducerEpoch
		return kerr.ErrorForCode(r.ErrorCode)
	})
}

// begin begins the transaction. Only the group's offsets are in it, and none is committed: it holds
// up no reader, and leaves its end marker where they are kept.
func (t *timeProbe) begin(ctx context.Context, mono func() time.Duration) (from, to time.Duration, err error) {
	err = t.retry(ctx, "begin", func() error {
		req := kmsg.NewPtrAddOffsetsToTxnRequest()
		req.TransactionalID, req.Group, req.ProducerID, req.ProducerEpoch = t.id, t.group, t.producer, t.epoch
		from = mono()
		resp, err := kafka.Ask(ctx, t.b, req)
		to = mono()
		if err != nil {
			return err
		}
		return kerr.ErrorForCode(resp.(*kmsg.AddOffsetsToTxnResponse).ErrorCode)
	})
	return from, to, err
}

// began is when the transaction began, by the coordinator's clock: since the epoch, in whole ms.
func (t *timeProbe) began(ctx context.Context) (time.Duration, error) {
	req := kmsg.NewPtrDescribeTransactionsRequest()
	req.TransactionalIDs = []string{t.id}
	resp, err := kafka.Ask(ctx, t.b, req)
	if err != nil {
		return 0, fmt.Errorf("describe transaction %s: %w", t.id, err)
	}
	states := resp.(*kmsg.DescribeTransactionsResponse).TransactionStates
	if len(states) != 1 {
		return 0, fmt.Errorf("describe transaction %s: %d answers: %w", t.id, len(states), errNotTold)
	}
	s := states[0]
	if err := kerr.ErrorForCode(s.ErrorCode); err != nil {
		return 0, fmt.Errorf("describe transaction %s: %w", t.id, err)
	}
	if s.ProducerID != t.producer || s.ProducerEpoch != t.epoch || s.StartTimestamp <= 0 {
		return 0, fmt.Errorf("describe transaction %s: it is %s, begun at %d: %w", t.id, s.State, s.StartTimestamp, errNotTold)
	}
	return time.Duration(s.StartTimestamp) * time.Millisecond, nil
}

// abort ends the transaction. If that fails, its timeout or the next start does.
func (t *timeProbe) abort(ctx context.Context) error {
	req := kmsg.NewPtrEndTxnRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Commit = t.id, t.producer, t.epoch, false
	_, err := kafka.Ask(ctx, t.b, req)
	return err
}

// retry repeats what the markers of the transaction before still hold up.
func (t *timeProbe) retry(ctx context.Context, what string, do func() error) error {
	for try := 0; ; try++ {
		err := do()
		if errors.Is(err, kerr.ConcurrentTransactions) && wait.For(ctx, kafka.MarkersPause(try)) {
			continue
		}
		if err != nil {
			return fmt.Errorf("%s transaction %s: %w", what, t.id, err)
		}
		return nil
	}
}

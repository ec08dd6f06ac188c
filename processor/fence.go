package processor

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/duewheel/duewheel/processor/wait"
	"github.com/duewheel/duewheel/topics"
)

// fence ends whatever the writer has open: InitProducerID with its transactional ids aborts it,
// and the writer, should it wake up, is told that it is fenced (KIP-98, KIP-447). The ids are asked
// for at the same time: one may have to wait for a target that does not take the end of its last
// transaction, and which of the others holds the checkpoint is not known.
func fence(ctx context.Context, cl *kgo.Client, writer string, timeout time.Duration) error {
	ids := transactionalIDs(writer)
	errs := make([]error, len(ids))
	var wg sync.WaitGroup
	for i, id := range ids {
		wg.Go(func() {
			if err := askForEpoch(ctx, cl, id, timeout, busyAfter); err != nil && !errors.Is(err, errBusyID) {
				errs[i] = fmt.Errorf("fence %s: %w", id, err)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// emptyTimeout is the transaction timeout of an id that will have no record in what it begins. It is one
// that every broker grants, so that this works where transaction_timeout is of no other use.
func (c *Config) emptyTimeout() time.Duration { return min(c.TransactionTimeout, 30*time.Second) }

// epochPatience is how long the coordinator of a transactional id is asked again before its answer is
// passed on. It mostly answers in some ms.
const epochPatience = 3 * time.Second

// busyAfter is how long the markers of what it aborts may take, which take some ms more.
const busyAfter = 300 * time.Millisecond

// errBusyID means that the last transaction of an id is decided, and that its end is not written
// everywhere yet. Where EndTxn was not asked for, that is as good as an abort that has come to its end.
var errBusyID = errors.New("processor: the id waits for its last transaction to end (CONCURRENT_TRANSACTIONS)")

// askForEpoch asks the coordinator of a transactional id for a new epoch, which aborts what the id has
// open. The request is sent by hand, because kgo repeats it for a long time without a word of what was
// answered.
func askForEpoch(ctx context.Context, cl *kgo.Client, id string, timeout, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, epochPatience)
	defer cancel()
	c := &coordinator{id: id}
	var answer error // the last one
	ask := func() error {
		req := kmsg.NewPtrInitProducerIDRequest()
		req.TransactionalID, req.TransactionTimeoutMillis = &id, int32(timeout.Milliseconds())
		req.ProducerID, req.ProducerEpoch = -1, -1
		resp, err := c.send(ctx, cl, req)
		if err != nil {
			return err
		}
		answer = c.answer(kerr.ErrorForCode(resp.(*kmsg.InitProducerIDResponse).ErrorCode))
		if errors.Is(answer, kerr.ConcurrentTransactions) {
			return errBusyID
		}
		return answer
	}
	began := time.Now()
	err := c.retry(ctx, cl, ask)
	for try := 0; errors.Is(err, errBusyID) && time.Since(began) < patience; try++ {
		wait.For(ctx, wait.Growing(try, 5*time.Millisecond, busyAfter))
		err = c.retry(ctx, cl, ask)
	}
	switch {
	case err == nil, errors.Is(err, errBusyID):
		return err
	case errors.Is(answer, kerr.CoordinatorNotAvailable):
		return fmt.Errorf("the transaction coordinator answers %w: it cannot write; look whether every partition of __transaction_state has a leader and as many replicas in sync as min.insync.replicas", answer)
	case errors.Is(answer, kerr.InvalidTransactionTimeout):
		return &timeoutRefusal{timeout}
	case answer != nil:
		return fmt.Errorf("the transaction coordinator answers %w", answer)
	}
	return err
}

// timeoutRefusal is the answer of a coordinator that does not grant a transaction timeout.
type timeoutRefusal struct{ asked time.Duration }

func (r *timeoutRefusal) Error() string {
	return fmt.Sprintf("%v: transaction_timeout is %s, and may be the brokers' transaction.max.timeout.ms at most (15m where they do not set it)",
		ErrTransactionTimeout, topics.FormatDelay(r.asked))
}

func (r *timeoutRefusal) Unwrap() error { return ErrTransactionTimeout }

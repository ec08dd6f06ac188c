package kafka

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
)

// Fence ends whatever a writer has open: InitProducerID with its transactional ids aborts it,
// and the writer, should it wake up, is told that it is fenced (KIP-98, KIP-447). The ids are asked
// for at the same time, and once: one may have to wait for a target that does not take the end of its last
// transaction, and which of the others holds the checkpoint is not known. The checkpoint shows when it is free.
// It returns what those were given that are not busy.
func Fence(ctx context.Context, cl *kgo.Client, ids []string, timeout time.Duration) (map[string]ProducerID, error) {
	given, errs := make([]ProducerID, len(ids)), make([]error, len(ids))
	var wg sync.WaitGroup
	for i, id := range ids {
		wg.Go(func() { given[i], errs[i] = AskForEpoch(ctx, cl, id, timeout, 0) })
	}
	wg.Wait()
	free := map[string]ProducerID{}
	for i, id := range ids {
		switch err := errs[i]; {
		case err == nil:
			free[id] = given[i]
		case errors.Is(err, ErrBusyID):
			errs[i] = nil
		default:
			errs[i] = fmt.Errorf("fence %s: %w", id, err)
		}
	}
	return free, errors.Join(errs...)
}

// epochPatience is how long the coordinator of a transactional id is asked again before its answer is
// passed on. It mostly answers in some ms; one that is slow may take longer for the last answer.
const epochPatience = 3 * time.Second

// BusyAfter is how long the markers of what it aborts may take, which take some ms more.
const BusyAfter = 300 * time.Millisecond

// ErrBusyID means that the last transaction of an id is decided, and that its end is not written
// everywhere yet. Where EndTxn was not asked for, that is as good as an abort that has come to its end.
var ErrBusyID = errors.New("kafka: the id waits for its last transaction to end (CONCURRENT_TRANSACTIONS)")

// AskForEpoch asks the coordinator of a transactional id for a new epoch, which aborts what the id has
// open (KIP-98). While markers of that are on their way it asks again for as long as patience lasts, and then returns ErrBusyID. The request is sent by hand, because kgo repeats it for a long time without a word of what was
// answered.
func AskForEpoch(ctx context.Context, cl *kgo.Client, id string, timeout, patience time.Duration) (given ProducerID, err error) {
	again, cancel := context.WithTimeout(ctx, epochPatience)
	defer cancel()
	c := NewCoordinatorOf(id)
	var answer error // the last one
	ask := func() error {
		req := kmsg.NewPtrInitProducerIDRequest()
		req.TransactionalID, req.TransactionTimeoutMillis = &id, int32(timeout.Milliseconds())
		req.ProducerID, req.ProducerEpoch = -1, -1
		resp, err := c.send(ctx, cl, req)
		if err != nil {
			return err
		}
		init := resp.(*kmsg.InitProducerIDResponse)
		given = ProducerID{ID: init.ProducerID, Epoch: init.ProducerEpoch}
		answer = c.answer(kerr.ErrorForCode(init.ErrorCode))
		if errors.Is(answer, kerr.ConcurrentTransactions) {
			return ErrBusyID
		}
		return answer
	}
	began := time.Now()
	err = c.Retry(again, ask)
	for try := 0; errors.Is(err, ErrBusyID) && time.Since(began) < patience; try++ {
		if !wait.For(again, wait.Growing(2*try, 5*time.Millisecond, BusyAfter)) {
			break
		}
		err = c.Retry(again, ask)
	}
	switch {
	case err == nil, errors.Is(err, ErrBusyID):
		return given, err
	case errors.Is(answer, kerr.CoordinatorNotAvailable):
		return given, fmt.Errorf("the transaction coordinator answers %w: it cannot write; look whether every partition of __transaction_state has a leader and as many replicas in sync as min.insync.replicas", answer)
	case errors.Is(answer, kerr.InvalidTransactionTimeout):
		return given, &TimeoutRefusal{timeout}
	case answer != nil:
		return given, fmt.Errorf("the transaction coordinator answers %w", answer)
	}
	return given, err
}

// ErrTransactionTimeout means that the brokers do not grant a transaction timeout.
var ErrTransactionTimeout = errors.New("kafka: the brokers do not grant so long a transaction")

// TimeoutRefusal is the answer of a coordinator that does not grant a transaction timeout.
type TimeoutRefusal struct{ Asked time.Duration }

func (r *TimeoutRefusal) Error() string {
	return fmt.Sprintf("%v: transaction_timeout is %s, and may be the brokers' transaction.max.timeout.ms at most (15m where they do not set it)",
		ErrTransactionTimeout, r.Asked)
}

func (r *TimeoutRefusal) Unwrap() error { return ErrTransactionTimeout }

package processor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// transactionalIDs are those of the two producers of a writer that take turns.
func transactionalIDs(writer string) [2]string { return [2]string{writer + "-0", writer + "-1"} }

// fence ends whatever the writer has open: InitProducerID with its transactional ids aborts it,
// and the writer, should it wake up, is told that it is fenced (KIP-98, KIP-447).
func fence(ctx context.Context, cl *kgo.Client, writer string, timeout time.Duration) error {
	for _, id := range transactionalIDs(writer) {
		if err := askForEpoch(ctx, cl, id, timeout); err != nil {
			return fmt.Errorf("fence %s: %w", id, err)
		}
	}
	return nil
}

// epochPatience is how long the coordinator of a transactional id is asked again before its answer is
// passed on. It mostly answers in some ms; the markers of what it aborts take longer.
const epochPatience = 3 * time.Second

// askForEpoch asks the coordinator of a transactional id for a new epoch. The request is sent by hand,
// because kgo repeats it for a long time without a word of what was answered.
func askForEpoch(ctx context.Context, cl *kgo.Client, id string, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, epochPatience)
	defer cancel()
	c := &coordinator{id: id}
	var answer error // the last one
	err := c.retry(ctx, cl, func() error {
		req := kmsg.NewPtrInitProducerIDRequest()
		req.TransactionalID, req.TransactionTimeoutMillis = &id, int32(timeout.Milliseconds())
		req.ProducerID, req.ProducerEpoch = -1, -1
		resp, err := c.send(ctx, cl, req)
		if err != nil {
			return err
		}
		answer = c.answer(kerr.ErrorForCode(resp.(*kmsg.InitProducerIDResponse).ErrorCode))
		return answer
	})
	switch {
	case err == nil:
		return nil
	case errors.Is(answer, kerr.CoordinatorNotAvailable):
		return fmt.Errorf("the transaction coordinator answers %w: it cannot write; look whether every partition of __transaction_state has a leader and as many replicas in sync as min.insync.replicas", answer)
	case answer != nil:
		return fmt.Errorf("the transaction coordinator answers %w", answer)
	}
	return err
}

// whyNot is what the coordinator answers when the producer asks for an epoch; nil: it has nothing against it.
func (p *producer) whyNot(ctx context.Context, cl *kgo.Client) error {
	if err := askForEpoch(ctx, cl, p.transactionalID, p.cfg.TransactionTimeout); err != nil {
		return fmt.Errorf("start producer %s: %w", p.transactionalID, err)
	}
	return nil
}

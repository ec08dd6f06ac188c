package processor

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/wait"
)

// errRenewed means that the client has asked for a new epoch within a transaction, which aborts
// what was in it. What came afterwards is in another one.
var errRenewed = errors.New("processor: the client renewed its producer id within the transaction")

// identity asks a producer's client for id and epoch.
func (p *producer) identity(ctx context.Context) (kafka.ProducerID, error) {
	id, epoch, err := p.cl.ProducerID(ctx)
	if err != nil {
		return kafka.ProducerID{}, fmt.Errorf("producer id of %s: %w", p.transactionalID, err)
	}
	return kafka.ProducerID{ID: id, Epoch: epoch}, nil
}

// still fails unless id and epoch are what they were when the transaction began.
func (p *producer) still(ctx context.Context, was kafka.ProducerID) error {
	is, err := p.identity(ctx)
	if err == nil && is != was {
		err = fmt.Errorf("%w of %s: was %d/%d, is %d/%d", errRenewed, p.transactionalID, was.ID, was.Epoch, is.ID, is.Epoch)
	}
	return err
}

// errUnstored means that the client does not count what it has produced.
var errUnstored = errors.New("processor: the client has not stored the partitions that it has produced to")

// storedPatience is how long a client may take to store the partitions of a topic: a goroutine of it has
// nothing else to do.
const storedPatience = time.Second

// stored waits until the client has stored the partitions of what was acknowledged. It sends the first
// records for a topic before it stores what metadata has told of that, and takes a transaction that is
// ended in between for an empty one: it aborts it (KIP-890), or leaves it open, and returns no error.
func (p *producer) stored(ctx context.Context, outs []output) error {
	ctx, cancel := context.WithTimeout(ctx, storedPatience)
	defer cancel()
	topic := ""
	for i := range outs {
		rec := outs[i].rec
		if rec.Topic == topic {
			continue
		}
		topic = rec.Topic
		for pause := 50 * time.Microsecond; ; pause = min(2*pause, 10*time.Millisecond) {
			if leader, epoch, _ := p.cl.PartitionLeader(topic, rec.Partition); leader >= 0 || epoch >= 0 {
				break
			}
			if !wait.For(ctx, pause) {
				return fmt.Errorf("%w: %s", errUnstored, topic)
			}
		}
	}
	return nil
}

// endings watches the EndTxn requests of one client, which repeats those that are not answered.
type endings struct{ unanswered atomic.Bool }

var _ kgo.HookBrokerE2E = (*endings)(nil)

// OnBrokerE2E is called when a request has been answered, or will not be.
func (e *endings) OnBrokerE2E(_ kgo.BrokerMetadata, key int16, e2e kgo.BrokerE2E) {
	if kmsg.Key(key) == kmsg.EndTxn && e2e.Err() != nil {
		e.unanswered.Store(true)
	}
}

// stale reports whether a copy of EndTxn may still be on its way. Before transaction.version 2 an id
// keeps its epoch from one transaction to the next, so that copy would decide a later one.
func (p *producer) stale() bool { return p.endings.unanswered.Load() }

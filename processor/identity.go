package processor

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// identity is what brokers tell the transactions of a producer by: it is the same from a
// transaction's first request to its decision, or they are two transactions (design rule 8).
type identity struct {
	id    int64
	epoch int16
}

// errRenewed means that the client has asked for a new epoch within a transaction, which aborts
// what was in it. What came afterwards is in another one.
var errRenewed = errors.New("processor: the client renewed its producer id within the transaction")

// identity asks a producer's client for id and epoch.
func (p *producer) identity(ctx context.Context) (identity, error) {
	id, epoch, err := p.cl.ProducerID(ctx)
	if err != nil {
		return identity{}, fmt.Errorf("producer id of %s: %w", p.transactionalID, err)
	}
	return identity{id, epoch}, nil
}

// still fails unless id and epoch are what they were when the transaction began.
func (p *producer) still(ctx context.Context, was identity) error {
	is, err := p.identity(ctx)
	if err == nil && is != was {
		err = fmt.Errorf("%w of %s: was %d/%d, is %d/%d", errRenewed, p.transactionalID, was.id, was.epoch, is.id, is.epoch)
	}
	return err
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

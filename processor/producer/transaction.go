package producer

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/wait"
)

// Transaction is one Kafka transaction (KIP-98) with the offsets of a group in it (KIP-447), from its beginning to its decision:
//
//	Open ──► begun, offsets in it ──► records ──► Decide ──► committed, or undecided
//	  └─────────────┴────────────────────┴─────────┴─(before EndTxn is sent)──► Abort ──► aborted, or undecided
//
// There is none without its offsets, and none is asked to commit whose id or epoch has changed since Open, or whose records the client does
// not count. It is ended once: by Decide, or by Abort.
type Transaction struct {
	p     *Producer
	in    kafka.ProducerID
	ended bool // nothing more may be asked for
}

// ErrUndecided means that a transaction was asked to commit, and that it is not known whether it did.
var ErrUndecided = errors.New("producer: the outcome of the transaction is not known")

// errRenewed means that the client has asked for a new epoch within a transaction, which aborts
// what was in it. What came afterwards is in another one.
var errRenewed = errors.New("producer: the client renewed its producer id within the transaction")

// errUnstored means that the client does not count what it has produced.
var errUnstored = errors.New("producer: the client has not stored the partitions that it has produced to")

// Open begins a transaction and commits offsets in it before there is any record: an open one always shows on its partitions
// (UNSTABLE_OFFSET_COMMIT). The transaction is there also when an error is returned; it has to be aborted then.
func (p *Producer) Open(ctx context.Context, c *kafka.Coordinator, m kafka.Member, offsets []kafka.Commit) (*Transaction, error) {
	tx := &Transaction{p: p}
	err := p.cl.BeginTransaction()
	if err == nil {
		tx.in, err = p.identity(ctx)
	}
	if err == nil {
		err = tx.commit(ctx, c, m, offsets)
	}
	if kafka.VerdictOf(err) == kafka.Unknown {
		tx.note(func(e *account) { e.last[everywhere] = ended{how: unknown, first: -1} }) // they may be there or not
	}
	return tx, err
}

// WritesTo notes the topics of the records that are going to be produced in it, before the first of them is.
func (tx *Transaction) WritesTo(topics []string) { tx.note(func(e *account) { e.begin(topics) }) }

// Wrote notes records of it that were acknowledged: before it is decided or aborted, all of them.
func (tx *Transaction) Wrote(acked []*kgo.Record) { tx.note(func(e *account) { e.wrote(acked) }) }

func (tx *Transaction) note(what func(*account)) { tx.p.cfg.Markers.note(tx.p.id, what) }

// commit puts offsets into the transaction. Where transaction.version is below 2 (KIP-890), the group is added to it before.
func (tx *Transaction) commit(ctx context.Context, c *kafka.Coordinator, m kafka.Member, offsets []kafka.Commit) error {
	p := tx.p
	if p.explicit {
		if err := c.AddOffsets(ctx, p.cl, p.own, tx.in); err != nil {
			return err
		}
	}
	return c.Retry(ctx, func() error { return c.CommitIn(ctx, p.cl, p.id, tx.in, m, offsets) })
}

// Decide commits the transaction. It is called when every record has been acknowledged, by the client of Open: kgo answers nil for a
// transaction that it has turned into an abort. An error that is ErrUndecided means that it may have happened; with any other one it has not
// been asked for, and has to be aborted. records are what was produced, those of one topic together.
func (tx *Transaction) Decide(ctx context.Context, records iter.Seq[*kgo.Record]) error {
	tx.check("decided")
	if err := Stored(ctx, tx.p.cl, records); err != nil {
		return err
	}
	if err := tx.p.still(ctx, tx.in); err != nil {
		return err
	}
	tx.ended = true
	tx.note(func(e *account) { e.asked, e.decided = true, &decision{in: tx.in, commit: true, bumps: !tx.p.explicit} })
	if err := tx.p.cl.EndTransaction(ctx, kgo.TryCommit); err != nil {
		return fmt.Errorf("end transaction %s: %w: %w", tx.p.id, ErrUndecided, err)
	}
	tx.p.cfg.Spare.inTime()
	tx.note(func(e *account) {
		e.end(committed)
		e.decided = nil
	})
	return nil
}

// Lost reports whether an error leaves a transaction to others: to whom the id belongs by now, or to its timeout, because a request that was
// not answered may be carried out after whatever is done about it. Abort cannot help then.
func Lost(why error) bool {
	return kafka.VerdictOf(why) == kafka.Fenced || errors.Is(why, kafka.ErrUnanswered)
}

// Abort makes sure that a transaction that was not asked to commit, because of an error, cannot happen any more: the client is replaced by
// one with the same id, which aborts what is open (InitProducerID, KIP-98). It returns nil when that is known, and else why it is not.
func (tx *Transaction) Abort(ctx context.Context, why error) error {
	tx.check("aborted")
	tx.ended = true
	if Lost(why) {
		return why
	}
	if err := tx.p.Renew(ctx); err != nil {
		return errors.Join(why, err)
	}
	return nil
}

// check ends the process rather than let a transaction be ended twice.
func (tx *Transaction) check(what string) {
	if tx.ended {
		panic("producer: BUG: a transaction that has ended is to be " + what)
	}
}

// identity asks the client for id and epoch.
func (p *Producer) identity(ctx context.Context) (kafka.ProducerID, error) {
	id, epoch, err := p.cl.ProducerID(ctx)
	if err != nil {
		return kafka.ProducerID{}, fmt.Errorf("producer id of %s: %w", p.id, err)
	}
	return kafka.ProducerID{ID: id, Epoch: epoch}, nil
}

// still fails unless id and epoch are what they were when the transaction began.
func (p *Producer) still(ctx context.Context, was kafka.ProducerID) error {
	is, err := p.identity(ctx)
	if err == nil && is != was {
		err = fmt.Errorf("%w of %s: was %d/%d, is %d/%d", errRenewed, p.id, was.ID, was.Epoch, is.ID, is.Epoch)
	}
	return err
}

// storedPatience is how long a client may take to store the partitions of a topic: a goroutine of it has
// nothing else to do.
const storedPatience = time.Second

// Stored waits until a client has stored the partitions of what was acknowledged, records of one topic together. It sends the first
// records for a topic before it stores what metadata has told of that, and takes a transaction that is
// ended in between for an empty one: it aborts it (KIP-890), or leaves it open, and returns no error.
func Stored(ctx context.Context, cl *kgo.Client, records iter.Seq[*kgo.Record]) error {
	ctx, cancel := context.WithTimeout(ctx, storedPatience)
	defer cancel()
	topic := ""
	for rec := range records {
		if rec.Topic == topic {
			continue
		}
		topic = rec.Topic
		for pause := 50 * time.Microsecond; ; pause = min(2*pause, 10*time.Millisecond) {
			if leader, epoch, _ := cl.PartitionLeader(topic, rec.Partition); leader >= 0 || epoch >= 0 {
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

// Stale reports whether a copy of EndTxn may still be on its way. Before transaction.version 2 an id
// keeps its epoch from one transaction to the next, so that copy would decide a later one.
func (p *Producer) Stale() bool { return p.endings.unanswered.Load() }

package producer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/duewheel/duewheel/processor/kafka"
)

// Config says what a producer is made of.
type Config struct {
	Client  []kgo.Opt     // the options of every client
	ID      string        // transactional; empty: idempotent only
	Spare   *Spare        // set when there is a transactional id
	Timeout time.Duration // of a transaction (transaction.timeout.ms)
	Bounds  *Bounds
	Markers *Markers
	Hooks   []kgo.Hook
	Log     *slog.Logger
}

// Producer is a producer whose client is replaced whenever what became of a transaction is not known, or whenever it has to be known that
// nothing became of it. It is transactional, or idempotent only. It belongs to one goroutine at a time. Renew makes its client; before that
// it has none.
type Producer struct {
	cfg  Config
	id   string // it may be another one after each Renew
	left string // the id that was left busy when the producer was last renewed

	answers  answers
	client   []kgo.Opt // of every client, with patience where a quota asks for it; nil: not known yet
	cl       *kgo.Client
	own      *kafka.Coordinator // of the id
	endings  *endings           // of cl, or of next
	next     *kgo.Client        // being renewed: has asked some brokers in vain, and asks others the next time
	explicit bool               // AddOffsetsToTxn must come before TxnOffsetCommit (transaction.version below 2)
}

// New makes a producer without a client.
func New(cfg Config) *Producer { return &Producer{cfg: cfg, id: cfg.ID} }

// Client is what records are produced with. It is another one after each Renew.
func (p *Producer) Client() *kgo.Client { return p.cl }

// Knows reports whether the client takes a record for a partition. One that was added since it has looked at the topic it refuses by
// itself, until it looks again: after minutes (kgo.MetadataMaxAge). What it has not looked at yet it will.
func (p *Producer) Knows(topic string, partition int32) bool {
	if p.cl == nil {
		return true
	}
	if first, _, _ := p.cl.PartitionLeader(topic, 0); first < 0 {
		return true
	}
	leader, _, err := p.cl.PartitionLeader(topic, partition)
	return leader >= 0 || err != nil
}

// ID is the transactional id that it uses now.
func (p *Producer) ID() string { return p.id }

// Bounds are those of its batches.
func (p *Producer) Bounds() *Bounds { return p.cfg.Bounds }

// Answers is how many produce requests were answered, by all clients of the producer.
func (p *Producer) Answers() int64 { return p.answers.n.Load() }

// LeftBusy is the id that the last Renew has left because a target keeps it busy; nil: none.
func (p *Producer) LeftBusy() *BusyID {
	if p.left == "" {
		return nil
	}
	return &BusyID{p.left, p.cfg.Spare}
}

// answers counts the produce requests of a client that were answered. The client does not tell of
// answers after which it tries the same again, which is all that some refusals show (when a batch may
// have been appended it is never given up): answers that acknowledge nothing.
type answers struct{ n atomic.Int64 }

// OnBrokerE2E implements kgo.HookBrokerE2E.
func (a *answers) OnBrokerE2E(_ kgo.BrokerMetadata, key int16, e2e kgo.BrokerE2E) {
	if key == int16(kmsg.Produce) && e2e.Err() == nil {
		a.n.Add(1)
	}
}

// RecordRetries is how often a client tries again what a target's leader has refused for the moment,
// at least 100 ms apart: while a leader moves. Then the turn is given up and goes around the target.
const RecordRetries = 3

func (p *Producer) makeNext() (err error) {
	if p.client == nil {
		t := &throttled{until: map[string]time.Time{}}
		if p.client, err = kafka.Between(p.cfg.Client, t.dial); err != nil {
			return err
		}
		p.client = append(p.client, kgo.WithHooks(t))
	}
	p.endings, p.own = &endings{}, kafka.NewCoordinatorOf(p.id)
	p.cfg.Bounds.forget()
	p.next, err = kgo.NewClient(p.opts()...)
	return err
}

func (p *Producer) opts() []kgo.Opt {
	opts := append(kafka.Options(p.client),
		kgo.WithHooks(p.endings),
		kgo.ProducerLinger(0),
		kgo.ManualFlushing(),
		kgo.MaxBufferedRecords(1<<30),
		kgo.ProducerBatchMaxBytesFn(p.cfg.Bounds.of),
		kgo.RecordPartitioner(Partitioner()),
		kgo.UnknownTopicRetries(1),
		kgo.RecordRetries(RecordRetries),
		kgo.WithHooks(&p.answers),
		kgo.MetadataMinAge(100*time.Millisecond),
		kgo.WithHooks(p.cfg.Hooks...),
	)
	if p.id == "" {
		return opts
	}
	opts = append(opts, kgo.TransactionalID(p.id), kgo.TransactionTimeout(p.cfg.Timeout))
	if p.explicit {
		opts = append(opts, ExplicitVersions())
	}
	return opts
}

// ExplicitVersions keeps a client from TxnOffsetCommit v5, which means the implicit protocol of KIP-890.
func ExplicitVersions() kgo.Opt {
	v := kversion.Stable()
	v.SetMaxKeyVersion(28, 4)
	return kgo.MaxVersions(v)
}

// Renew replaces the client by a new one with the same transactional id. When it returns nil,
// whatever the id had open has been aborted, and nothing that the old client has on its way can
// take effect any more (InitProducerID raises the epoch, KIP-98).
//
// A client asks one broker after the other, and waits long for one that is frozen. So it is kept
// when time is up, and goes on with the others when Renew is called again; another one might begin
// with the same broker each time, or never come to the end of what slow ones are asked.
func (p *Producer) Renew(ctx context.Context) (err error) {
	p.left = ""
	if p.cl != nil {
		p.cl.Close()
		p.cl = nil
	}
	if p.next == nil {
		if err := p.makeNext(); err != nil {
			return fmt.Errorf("make producer %s: %w", p.id, err)
		}
	}
	if p.id != "" {
		if err := p.begin(ctx); err != nil {
			if !errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
				p.Close()
			}
			return fmt.Errorf("start producer %s: %w", p.id, err)
		}
	}
	p.cl, p.next = p.next, nil
	return nil
}

// begin asks for a new epoch.
func (p *Producer) begin(ctx context.Context) error {
	explicit, err := NeedsAddOffsets(ctx, p.next)
	if err == nil && explicit != p.explicit {
		p.next.Close()
		p.explicit = explicit
		err = p.makeNext()
	}
	if err != nil {
		return err
	}
	for range 2 { // when more are busy it is not a target that is in trouble
		if err := p.cfg.Markers.resolve(ctx, p.next, p.id, p.cfg.Timeout); err != nil {
			return err
		}
		err := p.cfg.Markers.claim(ctx, p.next, p.id, p.cfg.Timeout, kafka.BusyAfter)
		if err == nil {
			err = p.catchUp(ctx)
		}
		if err == nil {
			_, _, err = p.next.ProducerID(ctx)
			return err
		}
		if !errors.Is(err, kafka.ErrBusyID) {
			return err
		}
		if err := p.takeSpare(); err != nil {
			return err
		}
	}
	return errAllBusy
}

// takeSpare goes on with another id.
func (p *Producer) takeSpare() error {
	id, ok := p.cfg.Spare.swap(p.id)
	if !ok {
		return errAllBusy
	}
	p.cfg.Log.Warn("a target does not take the end of a transaction, which keeps its id busy; another id is used", "busy", p.id, "used", id)
	p.left, p.id = p.id, id
	p.next.Close()
	return p.makeNext()
}

// Close closes the client. Another one may be made by Renew.
func (p *Producer) Close() {
	for _, cl := range []*kgo.Client{p.cl, p.next} {
		if cl != nil {
			cl.Close()
		}
	}
	p.cl, p.next = nil, nil
}

// NeedsAddOffsets reports whether the cluster's transaction.version is below 2 (KIP-890 part 2),
// so that a partition has to be added to a transaction before an offset may be committed in it.
func NeedsAddOffsets(ctx context.Context, cl *kgo.Client) (bool, error) {
	resp, err := kafka.VersionsRequest().RequestWith(ctx, cl)
	if err != nil {
		return false, err
	}
	for _, f := range resp.FinalizedFeatures {
		if f.Name == "transaction.version" {
			return f.MaxVersionLevel < 2, nil
		}
	}
	return true, nil
}

// partitioner sends a record where it asks to go, else where Java's default partitioner would.
type partitioner struct{ byKey kgo.Partitioner }

// Partitioner sends a record to its Partition, or for AnyPartition where Java's default partitioner would.
func Partitioner() kgo.Partitioner { return partitioner{kgo.StickyKeyPartitioner(nil)} }

// AnyPartition is the Record.Partition of a record that does not ask for one.
const AnyPartition = -1

func (p partitioner) ForTopic(topic string) kgo.TopicPartitioner {
	return topicPartitioner{p.byKey.ForTopic(topic)}
}

type topicPartitioner struct{ byKey kgo.TopicPartitioner }

func (t topicPartitioner) RequiresConsistency(r *kgo.Record) bool {
	return r.Partition != AnyPartition || t.byKey.RequiresConsistency(r)
}

func (t topicPartitioner) Partition(r *kgo.Record, n int) int {
	if r.Partition != AnyPartition {
		return int(r.Partition)
	}
	return t.byKey.Partition(r, n)
}

func (t topicPartitioner) OnNewBatch() {
	if o, ok := t.byKey.(kgo.TopicPartitionerOnNewBatch); ok {
		o.OnNewBatch()
	}
}

package load

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"github.com/duewheel/duewheel/processor/producer"
)

// Totals is what was written.
type Totals struct {
	Committed int            // requests, bad ones included
	Aborted   int            // records of transactions that were aborted
	Unknown   int            // records of transactions whose end was not answered
	Bad       map[Bad]int    // of the committed ones
	Topics    map[string]int // committed, by delay topic
	Elapsed   time.Duration  // until the last was acknowledged
}

// Run writes what a configuration asks for, and returns when all of it is acknowledged. Opts reach the cluster.
func Run(ctx context.Context, c Config, opts ...kgo.Opt) (Totals, error) {
	c.fill()
	if err := c.validate(); err != nil {
		return Totals{}, err
	}
	l := &load{config: c, opts: opts, started: time.Now(), totals: Totals{Bad: make(map[Bad]int), Topics: make(map[string]int)}}
	group, ctx := errgroup.WithContext(ctx)
	for n := range c.Producers {
		g, err := NewGenerator(c, n)
		if err != nil {
			return Totals{}, err
		}
		group.Go(func() error {
			if n < c.Transactional {
				return l.transactions(ctx, g)
			}
			return l.plain(ctx, g)
		})
	}
	err := group.Wait()
	l.totals.Elapsed = time.Since(l.started)
	return l.totals, err
}

// load is what the producers of one Run share.
type load struct {
	config  Config
	opts    []kgo.Opt
	started time.Time
	taken   atomic.Int64 // of config.Records
	paced   atomic.Int64 // records for which a producer has waited its turn

	mu     sync.Mutex // guards totals
	totals Totals
}

// take takes up to n of the records that are left to write.
func (l *load) take(n int) int {
	for {
		taken := l.taken.Load()
		n = min(n, l.config.Records-int(taken))
		if n <= 0 || l.taken.CompareAndSwap(taken, taken+int64(n)) {
			return max(n, 0)
		}
	}
}

// pace waits until n more records may be written.
func (l *load) pace(ctx context.Context, n int) error {
	if l.config.Rate <= 0 {
		return ctx.Err()
	}
	before := l.paced.Add(int64(n)) - int64(n)
	turn := l.started.Add(time.Duration(float64(before) / l.config.Rate * float64(time.Second)))
	wait := time.Until(turn)
	if wait <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *load) client(more ...kgo.Opt) (*kgo.Client, error) {
	opts := append(slices.Clone(l.opts), kgo.ProducerBatchMaxBytes(int32(max(1_000_000, l.config.ValueBytes+64<<10, l.config.LargeBytes+64<<10))),
		kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.ProduceRequestTimeout(2*time.Second), kgo.RequestTimeoutOverhead(2*time.Second)) // where a broker is frozen, the others go on
	return kgo.NewClient(append(opts, more...)...)
}

// chunk is how many records a plain producer takes at a time: few enough that a rate of some thousand a second is even.
func (l *load) chunk() int {
	if l.config.Rate <= 0 {
		return 1000
	}
	return max(1, int(l.config.Rate/1000))
}

// plain writes through an idempotent producer.
func (l *load) plain(ctx context.Context, g *Generator) error {
	client, err := l.client()
	if err != nil {
		return err
	}
	defer client.Close()
	tally := newTally()
	var failed firstError
	for n := l.take(l.chunk()); n > 0; n = l.take(l.chunk()) {
		if err := errors.Join(l.pace(ctx, n), failed.get()); err != nil {
			return err
		}
		for range n {
			r, bad := g.Next(time.Now())
			tally.add(r, bad)
			client.Produce(ctx, r, func(r *kgo.Record, err error) { failed.set(r, err) })
		}
	}
	if err := errors.Join(client.Flush(ctx), failed.get()); err != nil {
		return err
	}
	l.commit(tally)
	return nil
}

// transactions writes through a transactional producer, of which a part aborts.
func (l *load) transactions(ctx context.Context, g *Generator) error {
	client, err := l.transactional(g)
	if err != nil {
		return err
	}
	defer func() { client.Close() }()
	for n := l.take(l.config.Batch); n > 0; {
		if err := l.pace(ctx, n); err != nil {
			return err
		}
		abort := g.random.Float64() < l.config.Abort
		tally, err := l.transaction(ctx, client, g, n, kgo.TransactionEndTry(!abort))
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil: // unknown outcome: a producer of the same id settles it
			l.lose(n)
			client.Close()
			if client, err = l.transactional(g); err != nil {
				return err
			}
		case abort:
			l.abort(n)
		default:
			l.commit(tally)
			n = l.take(l.config.Batch)
		}
	}
	return nil
}

func (l *load) transactional(g *Generator) (*kgo.Client, error) {
	id := fmt.Sprintf("load-%d-%d-%d", l.config.Seed, l.started.UnixNano(), g.number)
	return l.client(kgo.TransactionalID(id), kgo.TransactionTimeout(10*time.Second))
}

func (l *load) transaction(ctx context.Context, client *kgo.Client, g *Generator, n int, end kgo.TransactionEndTry) (*tally, error) {
	if err := client.BeginTransaction(); err != nil {
		return nil, err
	}
	tally := newTally()
	var failed firstError
	records := make([]*kgo.Record, n)
	for i := range records {
		r, bad := g.Next(time.Now())
		tally.add(r, bad)
		records[i] = r
		client.Produce(ctx, r, func(r *kgo.Record, err error) { failed.set(r, err) })
	}
	if err := errors.Join(client.Flush(ctx), failed.get()); err != nil {
		return nil, err
	}
	if err := producer.Stored(ctx, client, slices.Values(records)); err != nil {
		return nil, err
	}
	return tally, client.EndTransaction(ctx, end)
}

// tally counts what is not committed yet.
type tally struct {
	n      int
	bad    map[Bad]int
	topics map[string]int
}

func newTally() *tally { return &tally{bad: make(map[Bad]int), topics: make(map[string]int)} }

func (t *tally) add(r *kgo.Record, bad Bad) {
	t.n++
	t.topics[r.Topic]++
	if bad != Good {
		t.bad[bad]++
	}
}

func (l *load) commit(t *tally) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.totals.Committed += t.n
	for bad, n := range t.bad {
		l.totals.Bad[bad] += n
	}
	for topic, n := range t.topics {
		l.totals.Topics[topic] += n
	}
}

func (l *load) abort(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.totals.Aborted += n
}

func (l *load) lose(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.totals.Unknown += n
}

// firstError keeps the first error of many acknowledgements.
type firstError struct {
	mu  sync.Mutex
	err error
}

func (f *firstError) set(r *kgo.Record, err error) {
	if err == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		f.err = fmt.Errorf("write to %s: %w", r.Topic, err)
	}
}

func (f *firstError) get() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

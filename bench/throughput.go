package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor"
)

// copyLoop is the yardstick: franz-go's exactly-once consume, transform, produce, with records
// copied as they are. It returns records a second.
func (s *stage) copyLoop(ctx context.Context, batch, n int) (float64, error) {
	sess, err := kgo.NewGroupTransactSession(append(s.r.o.Client[:len(s.r.o.Client):len(s.r.o.Client)],
		kgo.ConsumerGroup(fmt.Sprintf("%s-copy-%d", s.group, batch)),
		kgo.ConsumeTopics(s.delay),
		kgo.TransactionalID(fmt.Sprintf("%s-copy-%d", s.group, batch)),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.RequireStableFetchOffsets(),
		kgo.ProducerLinger(0),
		kgo.MaxBufferedRecords(1<<20),
	)...)
	if err != nil {
		return 0, err
	}
	defer sess.Close()
	var began time.Time
	copied := 0
	for copied < n {
		fs := sess.PollRecords(ctx, batch)
		if err := fs.Err0(); err != nil {
			return 0, err
		}
		if fs.NumRecords() == 0 {
			continue
		}
		if began.IsZero() {
			began = time.Now()
		}
		if err := sess.Begin(); err != nil {
			return 0, err
		}
		for more := fs.NumRecords(); ; {
			fs.EachRecord(func(r *kgo.Record) {
				sess.Produce(ctx, &kgo.Record{Topic: s.target, Key: r.Key, Value: r.Value, Headers: r.Headers}, nil)
				copied++
			})
			if more >= batch || copied >= n {
				break
			}
			fs = sess.PollRecords(ctx, batch-more)
			more += fs.NumRecords()
		}
		ok, err := sess.End(ctx, kgo.TryCommit)
		if err != nil || !ok {
			return 0, fmt.Errorf("copy loop: committed %v: %w", ok, err)
		}
	}
	return float64(copied) / time.Since(began).Seconds(), nil
}

// throughput measures how many records a second are accepted and delivered when a backlog of
// them is due, against the copy loop on the same records.
func (r *runner) throughput(ctx context.Context, far bool) ([]Result, error) {
	n := r.o.Records
	name := map[bool]string{false: "throughput", true: "store"}[far]
	s, clean, err := r.stage(ctx, name)
	if err != nil {
		return nil, err
	}
	defer clean()
	_ = far
	r.progress("%s: writing %d requests", name, n)
	base := time.Now().UnixMilli()
	if err := s.fill(ctx, n, func(i int) int64 { return base + int64(i)*1000/int64(n) }); err != nil {
		return nil, err
	}
	best := 0.0
	for _, batch := range []int{5_000, 20_000, 50_000} {
		rate, err := s.copyLoop(ctx, batch, n)
		if err != nil {
			return nil, err
		}
		r.progress("%s: copy loop with %d a transaction: %.0f/s", name, batch, rate)
		best = max(best, rate)
	}
	before, err := r.ends(ctx, s.target)
	if err != nil {
		return nil, err
	}
	p, stop, err := s.processor(ctx, func(c *processor.Config) {
		c.MemoryBudget = 1 << 30
	})
	if err != nil {
		return nil, err
	}
	defer stop()
	var began time.Time
	err = waitFor(ctx, func() bool {
		st := p.Stats()
		if began.IsZero() && st.Topics[0].Accepted > 0 {
			began = time.Now()
		}
		return st.Topics[0].Delivered >= int64(n)
	})
	rate := float64(n) / time.Since(began).Seconds()
	if err != nil {
		return nil, err
	}
	after, err := r.ends(ctx, s.target)
	r.progress("%s: duewheel %.0f/s (%.2f of the copy loop), %d offsets, transactions %v, mean time %.1f ms", name, rate, rate/best, after-before,
		p.Stats().Transactions, 1000*p.Stats().TransactionTime.Sum/float64(p.Stats().Transactions["committed"]))
	return nil, err
}

func (r *runner) lateness(ctx context.Context, g processor.Guarantee) ([]Result, error) {
	return nil, nil
}
func (r *runner) instant(ctx context.Context) ([]Result, error) { return nil, nil }

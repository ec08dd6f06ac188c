package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/duewheel/duewheel/processor/producer"
	"github.com/duewheel/duewheel/processor/wait"
)

// pair is two transactional producers that take turns: an id may be used again only when the markers of its last transaction are
// written.
type pair struct {
	s         *stage
	pace      time.Duration
	explicit  bool // AddOffsetsToTxn comes before TxnOffsetCommit
	source    kadm.TopicID
	ids       [2]string
	clients   [2]*kgo.Client
	offset    int64
	committed atomic.Int64
}

func newPair(ctx context.Context, s *stage, pace time.Duration) (p *pair, err error) {
	sources, err := s.r.adm.ListTopics(ctx, s.delays[0])
	if err = errors.Join(err, sources.Error()); err != nil {
		return nil, err
	}
	p = &pair{s: s, pace: pace, source: sources[s.delays[0]].ID}
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	for i := range p.clients {
		p.ids[i] = fmt.Sprintf("%s-%d", s.name, i)
		opts := []kgo.Opt{kgo.TransactionalID(p.ids[i]), kgo.ManualFlushing(), kgo.MaxBufferedRecords(1 << 30)}
		if p.clients[i], err = s.r.client(opts...); err == nil && i == 0 {
			p.explicit, err = producer.NeedsAddOffsets(ctx, p.clients[i])
		}
		if err == nil && p.explicit {
			p.clients[i].Close()
			p.clients[i], err = s.r.client(append(opts, producer.ExplicitVersions())...)
		}
		if err != nil {
			return p, fmt.Errorf("bare pair: %w", err)
		}
	}
	return p, nil
}

func (p *pair) close() {
	for _, cl := range p.clients {
		if cl != nil {
			cl.Close()
		}
	}
}

// run writes the records of a plan when they are due.
func (p *pair) run(ctx context.Context, plan schedule) error {
	var began time.Time
	for i, turn := 0, 0; i < plan.warm+plan.in; turn++ {
		at := began.Add(p.pace)
		if due := time.UnixMilli(plan.stamp(i).due); due.After(at) {
			at = due
		}
		if err := sleepUntil(ctx, at); err != nil {
			return err
		}
		began = time.Now()
		var due []*kgo.Record
		for ; i < plan.warm+plan.in && plan.stamp(i).due <= began.UnixMilli(); i++ {
			due = append(due, p.s.delivered(plan.stamp(i)))
		}
		if err := p.transact(ctx, turn%2, due); err != nil {
			return fmt.Errorf("bare pair: %w", err)
		}
		p.committed.Add(1)
	}
	return nil
}

// transact writes records in one transaction, as a processor must: offsets first.
func (p *pair) transact(ctx context.Context, which int, records []*kgo.Record) error {
	cl := p.clients[which]
	if err := cl.BeginTransaction(); err != nil {
		return err
	}
	// The markers of the last transaction but one may not all be written.
	err := p.commit(ctx, cl, p.ids[which])
	for errors.Is(err, kerr.ConcurrentTransactions) && wait.For(ctx, time.Millisecond) {
		err = p.commit(ctx, cl, p.ids[which])
	}
	if err != nil {
		return err
	}
	var failed atomic.Pointer[error]
	for _, rec := range records {
		cl.Produce(ctx, rec, func(_ *kgo.Record, err error) {
			if err != nil {
				failed.CompareAndSwap(nil, &err)
			}
		})
	}
	if err := cl.Flush(ctx); err != nil {
		return err
	}
	if err := failed.Load(); err != nil {
		return *err
	}
	if err := producer.Stored(ctx, cl, slices.Values(records[:min(len(records), len(p.s.targets))])); err != nil {
		return err
	}
	return cl.EndTransaction(ctx, kgo.TryCommit)
}

// commit puts an offset of each source partition into the transaction, in the name of a group without members.
func (p *pair) commit(ctx context.Context, cl *kgo.Client, txn string) error {
	id, epoch, err := cl.ProducerID(ctx)
	if err != nil {
		return err
	}
	group := p.s.group
	if p.explicit {
		req := kmsg.NewPtrAddOffsetsToTxnRequest()
		req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Group = txn, id, epoch, group
		resp, err := req.RequestWith(ctx, cl)
		if err == nil {
			err = kerr.ErrorForCode(resp.ErrorCode)
		}
		if err != nil {
			return fmt.Errorf("add offsets: %w", err)
		}
	}
	req := kmsg.NewPtrTxnOffsetCommitRequest()
	req.TransactionalID, req.Group, req.ProducerID, req.ProducerEpoch = txn, group, id, epoch
	t := kmsg.NewTxnOffsetCommitRequestTopic()
	t.Topic, t.TopicID = p.s.delays[0], p.source
	p.offset++
	for i := range p.s.partitions {
		part := kmsg.NewTxnOffsetCommitRequestTopicPartition()
		part.Partition, part.Offset = int32(i), p.offset
		t.Partitions = append(t.Partitions, part)
	}
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return fmt.Errorf("commit offsets: %w", err)
	}
	for _, t := range resp.Topics {
		for _, part := range t.Partitions {
			if err := kerr.ErrorForCode(part.ErrorCode); err != nil {
				return fmt.Errorf("commit offsets: %w", err)
			}
		}
	}
	return nil
}

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

	"github.com/duewheel/duewheel/processor"
	"github.com/duewheel/duewheel/processor/producer"
)

// What exactly_once costs on a cluster is mostly the cluster's own time for transactions, so lateness is compared with a floor: a
// bare pair of transactional producers that take turns and write the same records, when they are due, into topics of the same kind,
// with the offsets of as many source partitions in each transaction. Nothing is read, kept or rendered for it.

// floorShapes are the targets that the case floor plays. Records have keys, so that a transaction touches what its records hit.
var floorShapes = []shape{{1, 4}, {3, 8}}

// floorPaces are how far apart the transactions of a bare pair begin, at least. The best of them counts.
var floorPaces = []time.Duration{0, 5 * time.Millisecond}

// floorSources is of how many partitions each transaction commits offsets.
const floorSources = 8

// keys are how many there are.
const keys = 10_000

// effort is what one run took while it was measured.
type effort struct {
	late         latenesses
	transactions float64 // a second
	cpu          float64 // seconds of CPU a second: of this process, and of the brokers if that is known
}

func p50Of(e effort) float64          { return ms(e.late.p50) }
func p99Of(e effort) float64          { return ms(e.late.p99) }
func transactionsOf(e effort) float64 { return e.transactions }
func effortCPU(e effort) float64      { return e.cpu }

// floor compares lateness, transactions and CPU with bare pairs, round by round.
func (r *runner) floor(ctx context.Context) ([]Result, error) {
	var results []Result
	for _, shape := range floorShapes {
		res, err := r.floorOf(ctx, shape)
		if err != nil {
			return results, err
		}
		results = append(results, res)
	}
	return results, nil
}

func (r *runner) floorOf(ctx context.Context, targets shape) (res Result, err error) {
	var ours []effort
	bare := map[time.Duration][]effort{}
	for round := range r.o.pairs + 1 { // the first is a warm-up
		e, checked, err := r.steadily(ctx, targets)
		if err != nil {
			return res, err
		}
		res.Checked = checked
		r.progress("floor: %v, %s: duewheel %v, %.0f transactions/s, CPU %.2f", targets, roundName(round), e.late, e.transactions, e.cpu)
		if round > 0 {
			ours = append(ours, e)
		}
		for _, pace := range floorPaces {
			e, err := r.barely(ctx, targets, pace)
			if err != nil {
				return res, err
			}
			r.progress("floor: %v, %s: bare pair, %v apart: %v, %.0f transactions/s, CPU %.2f", targets, roundName(round), pace, e.late, e.transactions, e.cpu)
			if round > 0 {
				bare[pace] = append(bare[pace], e)
			}
		}
	}
	best := floorPaces[0]
	for _, pace := range floorPaces {
		if medianOf(bare[pace], p50Of) < medianOf(bare[best], p50Of) {
			best = pace
		}
	}
	floor := bare[best]
	f := Figures{}
	for name, of := range map[string]func(effort) float64{"p50_ms": p50Of, "p99_ms": p99Of, "transactions_per_s": transactionsOf, "cpu": effortCPU} {
		f[name], f["floor_"+name] = medianOf(ours, of), medianOf(floor, of)
		f[name+"_ratio"] = f[name] / f["floor_"+name]
	}
	res.Case, res.Figures = fmt.Sprintf("floor, %v", targets), f
	whose := "of this process and the brokers"
	if r.o.BrokerCPU == nil {
		whose = "of this process"
	}
	res.What = fmt.Sprintf("%s records of 100 B with keys a second are due, for %v after a warm-up; requests are written beforehand, to %d partitions, for %d topics of %d partitions. The floor is a bare pair of transactional "+
		"producers that take turns, without a processor: the same records, written when they are due, with the offsets of %d partitions in each transaction, at the better of %v between two beginnings. "+
		"CPU is %s, in cores. Medians of %d, run alternately after a warm-up. exactly_once, defaults.",
		thousands(int64(r.o.Rate)), r.o.For/2, floorSources, targets.topics, targets.partitions, floorSources, floorPaces, whose, r.o.pairs)
	res.Measured = fmt.Sprintf("p50 %.1f ms, p99 %.1f ms: %.2f and %.2f of the bare pair's %.1f and %.1f (%v apart); %.0f transactions/s: %.2f; CPU %.2f: %.2f",
		f["p50_ms"], f["p99_ms"], f["p50_ms_ratio"], f["p99_ms_ratio"], f["floor_p50_ms"], f["floor_p99_ms"], best,
		f["transactions_per_s"], f["transactions_per_s_ratio"], f["cpu"], f["cpu_ratio"])
	return res, nil
}

// steadily is one run of a processor.
func (r *runner) steadily(ctx context.Context, targets shape) (e effort, checked string, err error) {
	defer func(mark int) { err = errors.Join(err, r.clean(ctx, mark)) }(len(r.made))
	s, err := r.newStageFor(ctx, "floor", 1, floorSources, targets)
	if err != nil {
		return e, "", err
	}
	s.keys = keys
	p, err := s.start(ctx, func(*processor.Config) {})
	if err != nil {
		return e, "", err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	o, err := s.observe(ctx)
	if err != nil {
		return e, "", err
	}
	defer o.end()
	if err := p.ready(ctx); err != nil {
		return e, "", err
	}
	plan := r.halfSchedule()
	if err := s.requests(ctx, p, &plan, false); err != nil {
		return e, "", err
	}
	if e, err = r.measure(ctx, o, plan, func() int64 { return p.Stats().Transactions["committed"] }); err != nil {
		return e, "", err
	}
	if err := p.stop(); err != nil {
		return e, "", err
	}
	if err := o.end(); err != nil {
		return e, "", err
	}
	checked, err = s.check(ctx)
	return e, checked, err
}

// barely is one run of a bare pair.
func (r *runner) barely(ctx context.Context, targets shape, pace time.Duration) (e effort, err error) {
	defer func(mark int) { err = errors.Join(err, r.clean(ctx, mark)) }(len(r.made))
	s, err := r.newStageFor(ctx, "bare", 1, floorSources, targets)
	if err != nil {
		return e, err
	}
	s.keys = keys
	o, err := s.watch(ctx, true)
	if err != nil {
		return e, err
	}
	defer o.end()
	pair, err := s.newPair(ctx, pace)
	if err != nil {
		return e, err
	}
	defer pair.close()
	plan := r.halfSchedule()
	plan.first = time.Now().Add(r.o.settle / 4)
	running, cancel := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := pair.run(running, plan); err != nil {
			cancel(err)
		}
	}()
	e, err = r.measure(running, o, plan, pair.committed.Load)
	if err != nil {
		err = errors.Join(err, context.Cause(running))
	}
	cancel(nil)
	<-ended
	return e, errors.Join(err, o.end())
}

// halfSchedule is a schedule of half the time: many short runs say more than a few long ones.
func (r *runner) halfSchedule() schedule {
	plan := r.schedule()
	plan.warm, plan.in = max(plan.warm/2, 1), max(plan.in/2, 1)
	return plan
}

// measure waits until everything was seen, and takes what the time in which measured records are due has cost.
func (r *runner) measure(ctx context.Context, o *observer, plan schedule, transactions func() int64) (e effort, err error) {
	begin := plan.first.Add(time.Duration(plan.warm) * plan.interval())
	end := begin.Add(time.Duration(plan.in) * plan.interval())
	if err := sleepUntil(ctx, begin); err != nil {
		return e, err
	}
	cpu, done := r.allCPU(), transactions()
	if err := sleepUntil(ctx, end); err != nil {
		return e, err
	}
	took := end.Sub(begin).Seconds()
	e.cpu, e.transactions = (r.allCPU()-cpu).Seconds()/took, float64(transactions()-done)/took
	if err := r.until(ctx, "seen", int64(plan.in), func() int64 { return o.countOf(markMeasured) }, o.broken); err != nil {
		return e, err
	}
	e.late = summarize(o.lateOf(markMeasured))
	return e, nil
}

// allCPU is what this process has used so far, and the brokers if that is known.
func (r *runner) allCPU() time.Duration {
	if r.o.BrokerCPU == nil {
		return cpuTime()
	}
	return cpuTime() + r.o.BrokerCPU()
}

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

func (s *stage) newPair(ctx context.Context, pace time.Duration) (p *pair, err error) {
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
	for errors.Is(err, kerr.ConcurrentTransactions) && sleep(ctx, time.Millisecond) {
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

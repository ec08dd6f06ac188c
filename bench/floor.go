package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
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

func (e effort) String() string {
	return fmt.Sprintf("%v, %.0f transactions/s, CPU %.2f", e.late, e.transactions, e.cpu)
}

func p50Of(e effort) float64          { return ms(e.late.p50) }
func p99Of(e effort) float64          { return ms(e.late.p99) }
func transactionsOf(e effort) float64 { return e.transactions }
func effortCPU(e effort) float64      { return e.cpu }

// floor compares lateness, transactions and CPU with bare pairs, round by round.
func floor(ctx context.Context, r *runner) ([]Result, error) {
	return each(floorShapes, func(targets shape) (Result, error) { return floorOf(ctx, r, targets) })
}

func floorOf(ctx context.Context, r *runner, targets shape) (res Result, err error) {
	var ours []effort
	bare := map[time.Duration][]effort{}
	for round := range r.o.pairs + 1 { // the first is a warm-up
		e, checked, err := steadily(ctx, r, targets)
		if err != nil {
			return res, err
		}
		res.Checked = checked
		r.progress("floor: %v, %s: duewheel %v", targets, roundName(round), e)
		if round > 0 {
			ours = append(ours, e)
		}
		for _, pace := range floorPaces {
			e, err := barely(ctx, r, targets, pace)
			if err != nil {
				return res, err
			}
			r.progress("floor: %v, %s: bare pair, %v apart: %v", targets, roundName(round), pace, e)
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
func steadily(ctx context.Context, r *runner, targets shape) (e effort, checked string, err error) {
	defer r.tidy(ctx, len(r.made), &err)
	s, err := r.newStageFor(ctx, "floor", 1, floorSources, targets)
	if err != nil {
		return e, "", err
	}
	s.keys = keys
	checked, err = s.playSeen(ctx, nil, func(p *running, o *observer) (err error) {
		plan := r.o.schedule().half()
		if err := p.requests(ctx, &plan, false); err != nil {
			return err
		}
		e, err = r.measure(ctx, o, plan, func() int64 { return p.Stats().Transactions["committed"] })
		return err
	})
	return e, checked, err
}

// barely is one run of a bare pair.
func barely(ctx context.Context, r *runner, targets shape, pace time.Duration) (e effort, err error) {
	defer r.tidy(ctx, len(r.made), &err)
	s, err := r.newStageFor(ctx, "bare", 1, floorSources, targets)
	if err != nil {
		return e, err
	}
	s.keys = keys
	o, err := s.observe(ctx, true)
	if err != nil {
		return e, err
	}
	defer o.end()
	pair, err := newPair(ctx, s, pace)
	if err != nil {
		return e, err
	}
	defer pair.close()
	plan := r.o.schedule().half()
	plan.first = time.Now().Add(r.o.settle / 4)
	g, both := errgroup.WithContext(ctx)
	g.Go(func() error { return pair.run(both, plan) })
	g.Go(func() (err error) {
		e, err = r.measure(both, o, plan, pair.committed.Load)
		return err
	})
	return e, errors.Join(g.Wait(), o.end())
}

// measure waits until everything was seen, and takes what the time in which measured records are due has cost.
func (r *runner) measure(ctx context.Context, o *observer, plan schedule, transactions func() int64) (e effort, err error) {
	rises, err := plan.rises(ctx, func() float64 { return r.allCPU().Seconds() }, func() float64 { return float64(transactions()) })
	if err != nil {
		return e, err
	}
	took := plan.lasts().Seconds()
	if err := r.until(ctx, "seen", int64(plan.in), func() int64 { return o.countOf(markMeasured) }, o.broken); err != nil {
		return e, err
	}
	return effort{late: summarize(o.lateOf(markMeasured)), cpu: rises[0] / took, transactions: rises[1] / took}, nil
}

// brokerCPU is what the brokers have used so far; 0 if that is not known.
func (r *runner) brokerCPU() time.Duration {
	if r.o.BrokerCPU == nil {
		return 0
	}
	return r.o.BrokerCPU()
}

// allCPU is what this process has used so far, and the brokers if that is known.
func (r *runner) allCPU() time.Duration { return cpuTime() + r.brokerCPU() }

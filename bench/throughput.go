package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/duewheel/duewheel/processor"
)

// contest holds the rates of a case that is measured against the copy loop.
type contest struct {
	ours   []float64
	copies map[int][]float64 // by batch
}

// copyAll runs the copy loop once with every batch.
func (c *contest) copyAll(run func(batch int) (float64, error)) error {
	for _, batch := range copyBatches {
		rate, err := run(batch)
		if err != nil {
			return err
		}
		if c.copies == nil {
			c.copies = map[int][]float64{}
		}
		c.copies[batch] = append(c.copies[batch], rate)
	}
	return nil
}

// best is the copy loop's best median, and the batch with which it was reached.
func (c *contest) best() (batch int, rate float64) {
	for _, b := range copyBatches {
		if m := median(c.copies[b]); m > rate {
			batch, rate = b, m
		}
	}
	return batch, rate
}

// figures are what both cases of this file have in common.
func (c *contest) figures() figures {
	f := figures{"records_per_s": median(c.ours)}
	for b, rates := range c.copies {
		f[fmt.Sprintf("copy_%d_per_s", b)] = median(rates)
	}
	_, best := c.best()
	f["copy_best_per_s"], f["ratio"] = best, median(c.ours)/best
	return f
}

func (c *contest) String() string {
	batch, best := c.best()
	return fmt.Sprintf("%s/s, %.2f of the copy loop's %s/s (at %s a transaction)",
		thousands(int64(median(c.ours))), median(c.ours)/best, thousands(int64(best)), thousands(int64(batch)))
}

// throughput measures how fast a backlog of records is accepted and delivered that are all due.
func (r *runner) throughput(ctx context.Context) ([]Result, error) {
	n := r.o.Records
	s, err := r.newStage(ctx, "throughput", 1, r.o.Partitions)
	if err != nil {
		return nil, err
	}
	r.progress("throughput: writing %s requests", thousands(int64(n)))
	if err := s.fill(ctx, n, func(i int) stamp { // each is due within 1 s after it was written, in no order
		return stamp{due: time.Now().UnixMilli() + int64(noise(uint64(i))%1000), index: uint32(i)}
	}); err != nil {
		return nil, err
	}
	if err := sleepUntil(ctx, time.Now().Add(time.Second)); err != nil {
		return nil, err
	}
	var c contest
	var checked string
	for round := range r.o.Rounds {
		ours := func() (err error) {
			defer func(mark int) { err = errors.Join(err, r.clean(ctx, mark)) }(len(r.made))
			if err := s.afresh(ctx, fmt.Sprint("round-", round)); err != nil {
				return err
			}
			rate, err := s.drain(ctx, n)
			if err != nil {
				return err
			}
			c.ours = append(c.ours, rate)
			r.progress("throughput: round %d: duewheel %s/s", round+1, thousands(int64(rate)))
			checked, err = s.check(ctx)
			return err
		}
		theirs := func() error { return c.copyAll(s.copied(ctx, "throughput", round, n)) }
		// Whoever runs first in one round runs last in the next: neither always has the warmer or the fuller broker.
		both := []func() error{ours, theirs}
		for i := range both {
			if err := both[(i+round)%2](); err != nil {
				return nil, err
			}
		}
	}
	return []Result{{
		Case: "throughput",
		What: fmt.Sprintf("A backlog of %s records of 100 B in %d partitions, each due within 1 s after it was written, and all of them due: from the first record "+
			"that is accepted to the last whose delivery is committed, in exactly_once with a memory budget of 1 GiB and defaults otherwise. The copy loop, on the same records, counts from "+
			"the first poll that returns records to the last commit. Medians of %d, run alternately.", thousands(int64(n)), r.o.Partitions, r.o.Rounds),
		Measured: c.String(), Figures: c.figures(), Checked: checked,
	}}, nil
}

// copied is the copy loop, with progress.
func (s *stage) copied(ctx context.Context, name string, round, n int) func(batch int) (float64, error) {
	return func(batch int) (float64, error) {
		rate, err := s.copyLoop(ctx, batch, n)
		if err == nil {
			s.r.progress("%s: round %d: copy loop %s/s at %s a transaction", name, round+1, thousands(int64(rate)), thousands(int64(batch)))
		}
		return rate, err
	}
}

// nearBudget keeps the whole backlog of the throughput case in memory: what is delivered through
// the store is the store's case.
const nearBudget = 1 << 30

// drain runs a processor until it has delivered n records, and returns records a second.
func (s *stage) drain(ctx context.Context, n int) (rate float64, err error) {
	p, err := s.start(ctx, func(c *processor.Config) { c.MemoryBudget = nearBudget })
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	if err := p.until(ctx, "accepted", 1, p.accepted); err != nil {
		return 0, err
	}
	began := time.Now()
	if err := p.until(ctx, "delivered", int64(n), p.delivered); err != nil {
		return 0, err
	}
	return float64(n) / time.Since(began).Seconds(), nil
}

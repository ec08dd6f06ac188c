package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/duewheel/duewheel/processor"
)

const (
	// storeWindow is the near window of the store's case: so short that what it lets be loaded before
	// the first record is due is of no account.
	storeWindow = 100 * time.Millisecond
	// storeSpread is the rate at which records of the store's case fall due, more than can be delivered.
	storeSpread = 1_000_000
)

// passage is one way of n records through the store.
type passage struct {
	accepting  time.Duration // from the first to the last that is accepted
	delivering time.Duration // from when the first is due to the last that is delivered
	storeBytes int64         // on disk when all were accepted
}

func (p passage) rate(n int) float64 { return float64(n) / (p.accepting + p.delivering).Seconds() }

// store measures how fast records are accepted and delivered that are stored in between.
func (r *runner) store(ctx context.Context) ([]Result, error) {
	n := r.o.Records
	var c contest
	var delivering, accepting, bytes []float64
	var checked string
	for round := range r.o.Rounds {
		s, err := r.newStage(ctx, "store", 1, r.o.Partitions)
		if err != nil {
			return nil, err
		}
		p, err := s.passage(ctx, n)
		if err != nil {
			return nil, err
		}
		c.ours = append(c.ours, p.rate(n))
		accepting = append(accepting, float64(n)/p.accepting.Seconds())
		delivering = append(delivering, float64(n)/p.delivering.Seconds())
		bytes = append(bytes, float64(p.storeBytes))
		r.progress("store: round %d: duewheel %s/s (accepted in %v, delivered in %v)", round+1, thousands(int64(p.rate(n))),
			p.accepting.Round(time.Millisecond), p.delivering.Round(time.Millisecond))
		if checked, err = s.check(ctx); err != nil {
			return nil, err
		}
		if err := c.copyAll(s.copied(ctx, "store", round, n)); err != nil {
			return nil, err
		}
		if err := r.clean(ctx, 0); err != nil {
			return nil, err
		}
	}
	f := c.figures()
	f["accepted_per_s"], f["delivered_per_s"], f["store_bytes"] = median(accepting), median(delivering), median(bytes)
	f["delivered_ratio"] = median(delivering) / f["copy_best_per_s"]
	return []Result{{
		Case: "store",
		What: fmt.Sprintf("A backlog of %s records of 100 B in %d partitions, accepted by a processor whose near window is %v long before they are due, and then due within %v: the time from the "+
			"first to the last that is accepted, and the time from when the first is due to the last whose delivery is committed, in sum; compactions in between are not counted. "+
			"exactly_once, defaults otherwise. The copy loop copies the same records. Medians of %d, run alternately.",
			thousands(int64(n)), r.o.Partitions, storeWindow, time.Duration(n)*time.Second/storeSpread, r.o.Rounds),
		Measured: fmt.Sprintf("%s; accepted at %s/s, delivered at %s/s", c.String(), thousands(int64(median(accepting))), thousands(int64(median(delivering)))),
		Figures:  f, Checked: checked,
	}}, nil
}

// passage writes n requests and has them accepted, stored and delivered.
func (s *stage) passage(ctx context.Context, n int) (out passage, err error) {
	lead := s.r.lead(n)
	first := time.Now().Add(lead).UnixMilli()
	s.r.progress("store: writing %s requests that are due in %v", thousands(int64(n)), lead.Round(time.Millisecond))
	if err := s.fill(ctx, n, func(i int) stamp {
		return stamp{due: first + int64(noise(uint64(i))%uint64(n))*1000/storeSpread, index: uint32(i)}
	}); err != nil {
		return out, err
	}
	p, err := s.start(ctx, func(c *processor.Config) { c.NearWindow = storeWindow })
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	if err := p.until(ctx, "accepted", 1, p.accepted); err != nil {
		return out, err
	}
	accepting := time.Now()
	if err := p.until(ctx, "accepted", int64(n), p.accepted); err != nil {
		return out, err
	}
	out.accepting = time.Since(accepting)
	due := time.UnixMilli(first)
	if time.Until(due) < 2*storeWindow {
		return out, errDueTooSoon
	}
	// Each partition is live before the first is due, and says that it holds nothing in memory.
	if err := p.ready(ctx); err != nil {
		return out, err
	}
	st := p.Stats()
	out.storeBytes = st.StoreBytes
	for _, ps := range st.Partitions {
		if ps.Near > 0 && time.Until(due) > storeWindow {
			return out, fmt.Errorf("%d records of partition %d are in memory long before they are due", ps.Near, ps.Partition)
		}
	}
	if time.Until(due) < storeWindow {
		return out, errDueTooSoon
	}
	if err := sleepUntil(ctx, due); err != nil {
		return out, err
	}
	if err := p.until(ctx, "delivered", int64(n), p.delivered); err != nil {
		return out, err
	}
	out.delivering = time.Since(due)
	return out, nil
}

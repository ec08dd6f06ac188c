package bench

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"github.com/duewheel/duewheel/processor"
)

// idleRate is how many records are due in a second of the case idle.
const idleRate = 10

// traffic counts the requests of clients.
type traffic struct{ requests atomic.Int64 }

// OnBrokerE2E implements kgo.HookBrokerE2E.
func (t *traffic) OnBrokerE2E(kgo.BrokerMetadata, int16, kgo.BrokerE2E) { t.requests.Add(1) }

func (t *traffic) count() float64 { return float64(t.requests.Load()) }

// idle measures what a processor costs that has next to nothing to do. Nothing else works in this process meanwhile: requests are
// written and accepted beforehand, and what was delivered is read afterwards.
func idle(ctx context.Context, r *runner) ([]Result, error) {
	s, err := r.newStage(ctx, "idle", 1, r.o.Partitions)
	if err != nil {
		return nil, err
	}
	sent, plan, f := &traffic{}, r.o.scheduleAt(idleRate), Figures{}
	plan.warm = max(plan.warm, 1)
	count := func(c *processor.Config) { c.Client = append(slices.Clip(c.Client), kgo.WithHooks(sent)) }
	checked, err := s.play(ctx, count, func(p *running) error {
		if err := p.requests(ctx, &plan, false); err != nil {
			return err
		}
		r.progress("idle: %d/s for %v, after a warm-up", idleRate, plan.lasts())
		rises, err := plan.rises(ctx, func() float64 { return cpuTime().Seconds() }, sent.count, func() float64 { return float64(p.delivered()) })
		if err != nil {
			return err
		}
		f["cpu_percent"], f["requests_per_record"] = 100*rises[0]/plan.lasts().Seconds(), rises[1]/max(rises[2], 1)
		return p.until(ctx, "delivered", int64(plan.warm+plan.in), p.delivered)
	})
	if err != nil {
		return nil, err
	}
	if f["floor_cpu_percent"], err = idlePair(ctx, r); err != nil {
		return nil, err
	}
	return []Result{{
		Case: "idle",
		What: fmt.Sprintf("%d records of 100 B a second are due in %d partitions, for %v after a warm-up; requests are written beforehand: CPU of this process, in percent of a core, and its requests of any kind for "+
			"each delivered record. Then a bare pair of transactional producers writes as many records when they are due, in a process that does nothing else. exactly_once, defaults.", idleRate, r.o.Partitions, plan.lasts()),
		Measured: fmt.Sprintf("CPU %.1f %%, a bare pair's %.1f %%; %.1f requests a record", f["cpu_percent"], f["floor_cpu_percent"], f["requests_per_record"]), Figures: f, Checked: checked,
	}}, nil
}

// idlePair is what a bare pair of producers takes for the same records, in percent of a core.
func idlePair(ctx context.Context, r *runner) (percent float64, err error) {
	s, err := r.newStage(ctx, "idle-bare", 1, r.o.Partitions)
	if err != nil {
		return 0, err
	}
	pair, err := newPair(ctx, s, 0)
	if err != nil {
		return 0, err
	}
	defer pair.close()
	plan := r.o.scheduleAt(idleRate)
	plan.warm = max(plan.warm, 1)
	plan.first = time.Now().Add(r.o.settle / 4)
	r.progress("idle: a bare pair of producers, the same")
	g, both := errgroup.WithContext(ctx)
	g.Go(func() error { return pair.run(both, plan) })
	g.Go(func() error {
		rises, err := plan.rises(both, func() float64 { return cpuTime().Seconds() })
		if err == nil {
			percent = 100 * rises[0] / plan.lasts().Seconds()
		}
		return err
	})
	return percent, g.Wait()
}

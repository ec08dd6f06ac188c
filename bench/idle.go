package bench

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor"
)

// idleRate is how many records are due in a second of the case idle.
const idleRate = 10

// traffic counts the requests of clients.
type traffic struct{ requests atomic.Int64 }

// OnBrokerE2E implements kgo.HookBrokerE2E.
func (t *traffic) OnBrokerE2E(kgo.BrokerMetadata, int16, kgo.BrokerE2E) { t.requests.Add(1) }

// idle measures what a processor costs that has next to nothing to do. Nothing else works in this process meanwhile: requests are
// written and accepted beforehand, and what was delivered is read afterwards.
func (r *runner) idle(ctx context.Context) (_ []Result, err error) {
	s, err := r.newStage(ctx, "idle", 1, r.o.Partitions)
	if err != nil {
		return nil, err
	}
	sent := &traffic{}
	p, err := s.start(ctx, func(c *processor.Config) {
		c.Client = append(c.Client[:len(c.Client):len(c.Client)], kgo.WithHooks(sent))
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	if err := p.ready(ctx); err != nil {
		return nil, err
	}
	plan := r.schedule()
	plan.rate = idleRate
	plan.in = max(int(idleRate*r.o.For.Seconds()), 1)
	plan.warm = max(plan.in/4, 1)
	if err := s.requests(ctx, p, &plan, false); err != nil {
		return nil, err
	}
	begin := plan.first.Add(time.Duration(plan.warm) * plan.interval())
	end := begin.Add(time.Duration(plan.in) * plan.interval())
	r.progress("idle: %d/s for %v, after a warm-up", idleRate, end.Sub(begin))
	if err := sleepUntil(ctx, begin); err != nil {
		return nil, err
	}
	cpu, requests, delivered := cpuTime(), sent.requests.Load(), p.delivered()
	if err := sleepUntil(ctx, end); err != nil {
		return nil, err
	}
	took := end.Sub(begin).Seconds()
	f := Figures{
		"cpu_percent":         100 * (cpuTime() - cpu).Seconds() / took,
		"requests_per_record": float64(sent.requests.Load()-requests) / float64(max(p.delivered()-delivered, 1)),
	}
	if err := p.until(ctx, "delivered", int64(plan.warm+plan.in), p.delivered); err != nil {
		return nil, err
	}
	if err := p.stop(); err != nil {
		return nil, err
	}
	checked, err := s.check(ctx)
	if err != nil {
		return nil, err
	}
	return []Result{{
		Case: "idle",
		What: fmt.Sprintf("%d records of 100 B a second are due in %d partitions, for %v after a warm-up; requests are written beforehand: CPU of this process, in percent of a core, and its requests of any kind for "+
			"each delivered record. exactly_once, defaults.", idleRate, r.o.Partitions, end.Sub(begin)),
		Measured: fmt.Sprintf("CPU %.1f %%; %.1f requests a record", f["cpu_percent"], f["requests_per_record"]), Figures: f, Checked: checked,
	}}, nil
}

package bench

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kgo"

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
	return []Result{{
		Case: "idle",
		What: fmt.Sprintf("%d records of 100 B a second are due in %d partitions, for %v after a warm-up; requests are written beforehand: CPU of this process, in percent of a core, and its requests of any kind for "+
			"each delivered record. exactly_once, defaults.", idleRate, r.o.Partitions, plan.lasts()),
		Measured: fmt.Sprintf("CPU %.1f %%; %.1f requests a record", f["cpu_percent"], f["requests_per_record"]), Figures: f, Checked: checked,
	}}, nil
}

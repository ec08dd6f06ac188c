package bench

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/duewheel/duewheel/processor"
)

// carryKept is retention.ms of the delay topic while what is pending is carried: a copy of each record is made in every half of that.
const carryKept = 10 * time.Second

// burdened is one run beside copies.
type burdened struct {
	late   latenesses
	copies float64 // a second
}

// carrying compares how late records are while others are carried with how late they are while as many are pending and stay where they are.
func carrying(ctx context.Context, r *runner) ([]Result, error) {
	var with, without []burdened
	var checked string
	rate := max(r.o.Rate/2, 1)
	for round := range r.o.Rounds + 1 { // the first is a warm-up
		for i := range 2 {
			carries := (round+i)%2 == 1
			e, says, err := r.carried(ctx, rate, carries)
			if err != nil {
				return nil, err
			}
			checked = says
			r.progress("carry: %s: %v beside %s copies/s", roundName(round), e.late, thousands(int64(e.copies)))
			switch {
			case round == 0:
			case carries:
				with = append(with, e)
			default:
				without = append(without, e)
			}
		}
	}
	p50 := func(e burdened) float64 { return ms(e.late.p50) }
	p99 := func(e burdened) float64 { return ms(e.late.p99) }
	f := Figures{
		"p50_ms": medianOf(with, p50), "p99_ms": medianOf(with, p99), "without_p50_ms": medianOf(without, p50), "without_p99_ms": medianOf(without, p99),
		"copies_per_s": medianOf(with, func(e burdened) float64 { return e.copies }),
	}
	f["extra_p99_ms"] = f["p99_ms"] - f["without_p99_ms"]
	return []Result{{
		Case: "carry",
		What: fmt.Sprintf("%s records of 100 B a second are due for %v, and ten times as many stay pending in a topic that keeps its log for %v, so that all of these are carried once in %v; beside the same with carry: false. "+
			"exactly_once, defaults. Medians of %d rounds, run alternately after a warm-up.", thousands(int64(rate)), r.o.For/2, carryKept, carryKept/2, r.o.Rounds),
		Measured: fmt.Sprintf("p50 %.1f ms, p99 %.1f ms beside %s copies/s; without %.1f and %.1f ms", f["p50_ms"], f["p99_ms"], thousands(int64(f["copies_per_s"])), f["without_p50_ms"], f["without_p99_ms"]),
		Figures:  f, Checked: checked,
	}}, nil
}

// carried is one run.
func (r *runner) carried(ctx context.Context, rate int, carries bool) (e burdened, checked string, err error) {
	defer r.tidy(ctx, len(r.made), &err)
	s, err := r.newStage(ctx, "carry", 1, r.o.Partitions)
	if err != nil {
		return e, "", err
	}
	if err := r.alter(ctx, s.delays[0], map[string]string{"retention.ms": strconv.FormatInt(carryKept.Milliseconds(), 10)}); err != nil {
		return e, "", err
	}
	s.far = 10 * rate
	checked, err = s.playSeen(ctx, func(c *processor.Config) { c.Routes[0].Carry = &carries }, func(p *running, o *observer) error {
		now := time.Now()
		err := s.fill(ctx, s.far, func(i int) stamp {
			return stamp{due: now.Add(farFrom).UnixMilli() + int64(noise(uint64(i))%uint64((farTo-farFrom).Milliseconds())), mark: markFar, index: uint32(i)}
		})
		if err == nil {
			err = p.until(ctx, "accepted", int64(s.far), p.accepted)
		}
		if err == nil && carries {
			err = p.until(ctx, "carried", 1, p.copied)
		}
		if err != nil {
			return err
		}
		plan, began := r.o.scheduleAt(rate).half(), time.Now()
		if err := p.requests(ctx, &plan, false); err != nil {
			return err
		}
		if err := p.until(ctx, "seen", int64(plan.in), func() int64 { return o.countOf(markMeasured) }); err != nil {
			return err
		}
		e = burdened{summarize(o.lateOf(markMeasured)), float64(p.copied()) / time.Since(began).Seconds()}
		return nil
	})
	return e, checked, err
}

// copied is how many copies there were.
func (p *running) copied() int64 {
	return total(p.Stats().Topics, func(t processor.TopicStats) int64 { return t.Carried })
}

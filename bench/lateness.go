package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/duewheel/duewheel/processor"
)

// Marks of records in a lateness case.
const (
	markWarmUp uint32 = iota
	markMeasured
)

// liveAhead is how long before it is due a request is written in the live variant.
const liveAhead = time.Second

// lateness measures how much later than due records are seen at a steady rate: first with requests that
// were all accepted beforehand, then with requests that are written meanwhile at the same rate.
func lateness(name string, g processor.Guarantee) func(context.Context, *runner) ([]Result, error) {
	return func(ctx context.Context, r *runner) ([]Result, error) {
		return each([]bool{false, true}, func(live bool) (Result, error) { return steady(ctx, r, name, g, live) })
	}
}

// each has one result for each of some variants of a case, until one fails.
func each[V any](variants []V, measure func(V) (Result, error)) (results []Result, err error) {
	for _, v := range variants {
		res, err := measure(v)
		if err != nil {
			return results, err
		}
		results = append(results, res)
	}
	return results, nil
}

// schedule says when the records of a lateness case are due: evenly spread, those of the warm-up first.
type schedule struct {
	first    time.Time
	rate     int
	warm, in int // records of the warm-up, and in the measurement
}

func (o Options) schedule() schedule { return o.scheduleAt(o.Rate) }

func (o Options) scheduleAt(rate int) schedule {
	in := max(int(float64(rate)*o.For.Seconds()), 1)
	return schedule{rate: rate, warm: in / 4, in: in}
}

// half is a schedule of half the time: many short runs say more than a few long ones.
func (c schedule) half() schedule {
	c.warm, c.in = max(c.warm/2, 1), max(c.in/2, 1)
	return c
}

func (c schedule) interval() time.Duration { return time.Second / time.Duration(c.rate) }

func (c schedule) stamp(i int) stamp {
	st := stamp{due: c.first.UnixMilli() + int64(i)*1000/int64(c.rate), mark: markWarmUp, index: uint32(i)}
	if i >= c.warm {
		st.mark, st.index = markMeasured, uint32(i-c.warm)
	}
	return st
}

// lasts is how long measured records are due for, and span from when until when.
func (c schedule) lasts() time.Duration { return time.Duration(c.in) * c.interval() }

func (c schedule) span() (begin, end time.Time) {
	begin = c.first.Add(time.Duration(c.warm) * c.interval())
	return begin, begin.Add(c.lasts())
}

// rises waits until the span has passed, and returns by how much counters have risen in it.
func (c schedule) rises(ctx context.Context, counters ...func() float64) (by []float64, err error) {
	begin, end := c.span()
	if err := sleepUntil(ctx, begin); err != nil {
		return nil, err
	}
	for _, count := range counters {
		by = append(by, -count())
	}
	if err := sleepUntil(ctx, end); err != nil {
		return nil, err
	}
	for i, count := range counters {
		by[i] += count()
	}
	return by, nil
}

func steady(ctx context.Context, r *runner, name string, g processor.Guarantee, live bool) (res Result, err error) {
	defer r.tidy(ctx, len(r.made), &err)
	how := "written beforehand"
	if live {
		name, how = name+", live", fmt.Sprintf("written %v ahead at the same rate meanwhile", liveAhead)
	}
	s, err := r.newStage(ctx, "lateness", 1, r.o.Partitions)
	if err != nil {
		return res, err
	}
	plan, late := r.o.schedule(), latenesses{}
	checked, err := s.playSeen(ctx, func(c *processor.Config) { c.Guarantee = g }, func(p *running, o *observer) error {
		r.progress("%s: %s/s for %v, after a warm-up; requests are %s", name, thousands(int64(plan.rate)), r.o.For, how)
		if err := p.requests(ctx, &plan, live); err != nil {
			return err
		}
		if err := p.until(ctx, "seen", int64(plan.in), func() int64 { return o.countOf(markMeasured) }); err != nil {
			return err
		}
		late = summarize(o.lateOf(markMeasured))
		return nil
	})
	if err != nil {
		return res, err
	}
	return Result{
		Case: name,
		What: fmt.Sprintf("%s records of 100 B a second are due in %d partitions, for %v after a warm-up of %v; requests are %s. When the poll of a read_committed consumer in the same process "+
			"returns the record, less its due time, over every record. %s, defaults.", thousands(int64(plan.rate)), r.o.Partitions, r.o.For, r.o.For/4, how, g),
		Measured: late.String(), Figures: late.figures(), Checked: checked,
	}, nil
}

// requests writes the requests of a plan, and sets when the first of them is due.
func (p *running) requests(ctx context.Context, plan *schedule, live bool) error {
	n := plan.warm + plan.in
	if live {
		w, err := p.s.newWriter()
		if err != nil {
			return err
		}
		defer w.cl.Close()
		plan.first = time.Now().Add(liveAhead)
		_, err = w.paced(ctx, ctx, plan.rate, n, plan.stamp, nil)
		return err
	}
	plan.first = time.Now().Add(p.s.r.lead(n))
	if err := p.s.fill(ctx, n, plan.stamp); err != nil {
		return err
	}
	if err := p.until(ctx, "accepted", int64(n), p.accepted); err != nil {
		return err
	}
	if time.Now().After(plan.first) {
		return errDueTooSoon
	}
	return nil
}

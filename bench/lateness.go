package bench

import (
	"context"
	"errors"
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

func (r *runner) latenessExactlyOnce(ctx context.Context) ([]Result, error) {
	return r.lateness(ctx, "lateness", processor.ExactlyOnce)
}

func (r *runner) latenessAtLeastOnce(ctx context.Context) ([]Result, error) {
	return r.lateness(ctx, "lateness-alo", processor.AtLeastOnce)
}

// lateness measures how much later than due records are seen at a steady rate: first with requests that
// were all accepted beforehand, then with requests that are written meanwhile at the same rate.
func (r *runner) lateness(ctx context.Context, name string, g processor.Guarantee) ([]Result, error) {
	var results []Result
	for _, live := range []bool{false, true} {
		res, err := r.steady(ctx, name, g, live)
		if err != nil {
			return results, err
		}
		results = append(results, res)
		if err := r.clean(ctx, 0); err != nil {
			return results, err
		}
	}
	return results, nil
}

// schedule says when the records of a lateness case are due: evenly spread, those of the warm-up first.
type schedule struct {
	first    time.Time
	rate     int
	warm, in int // records of the warm-up, and in the measurement
}

func (r *runner) schedule() schedule {
	in := max(int(float64(r.o.Rate)*r.o.For.Seconds()), 1)
	return schedule{rate: r.o.Rate, warm: in / 4, in: in}
}

func (c schedule) interval() time.Duration { return time.Second / time.Duration(c.rate) }

func (c schedule) stamp(i int) stamp {
	st := stamp{due: c.first.UnixMilli() + int64(i)*1000/int64(c.rate), mark: markWarmUp, index: uint32(i)}
	if i >= c.warm {
		st.mark, st.index = markMeasured, uint32(i-c.warm)
	}
	return st
}

func (r *runner) steady(ctx context.Context, name string, g processor.Guarantee, live bool) (res Result, err error) {
	how := "written beforehand"
	if live {
		name, how = name+", live", fmt.Sprintf("written %v ahead at the same rate meanwhile", liveAhead)
	}
	s, err := r.newStage(ctx, "lateness", 1, r.o.Partitions)
	if err != nil {
		return res, err
	}
	p, err := s.start(ctx, func(c *processor.Config) { c.Guarantee = g })
	if err != nil {
		return res, err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	o, err := s.observe(ctx)
	if err != nil {
		return res, err
	}
	defer o.end()
	if err := p.ready(ctx); err != nil {
		return res, err
	}
	plan := r.schedule()
	r.progress("%s: %s/s for %v, after a warm-up; requests are %s", name, thousands(int64(plan.rate)), r.o.For, how)
	if err := s.requests(ctx, p, &plan, live); err != nil {
		return res, err
	}
	if err := p.until(ctx, "seen", int64(plan.in), func() int64 { return o.countOf(markMeasured) }); err != nil {
		return res, err
	}
	if err := p.stop(); err != nil {
		return res, err
	}
	if err := o.end(); err != nil {
		return res, err
	}
	checked, err := s.check(ctx)
	if err != nil {
		return res, err
	}
	l := summarize(o.lateOf(markMeasured))
	return Result{
		Case: name,
		What: fmt.Sprintf("%s records of 100 B a second are due in %d partitions, for %v after a warm-up of %v; requests are %s. When the poll of a read_committed consumer in the same process "+
			"returns the record, less its due time, over every record. %s, defaults.", thousands(int64(plan.rate)), r.o.Partitions, r.o.For, r.o.For/4, how, g),
		Measured: l.String(), Figures: l.figures(), Checked: checked,
	}, nil
}

// requests writes the requests of a plan, and sets when the first of them is due.
func (s *stage) requests(ctx context.Context, p *running, plan *schedule, live bool) error {
	n := plan.warm + plan.in
	if live {
		start := time.Now()
		plan.first = start.Add(liveAhead)
		return s.pace(ctx, n, start, plan.interval(), plan.stamp, nil)
	}
	plan.first = time.Now().Add(s.r.lead(n))
	if err := s.fill(ctx, n, plan.stamp); err != nil {
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

package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/duewheel/duewheel/processor"
)

// Waves come while lateness is measured in the case window: so many records at once for each record that is measured in a second, due some
// time later. They make memory short again and again, where there is little.
const (
	markWave  uint32 = 3 << 16
	waveEvery        = time.Second
	waveSize         = 5
)

// pane is one way to keep near records.
type pane struct {
	name   string
	change func(*processor.Config)
	late   []latenesses
}

// panes are the ways that the case window compares: where there is no boundary, and where there are many.
func panes() []*pane {
	return []*pane{
		{name: "near", change: func(c *processor.Config) { c.NearWindow, c.MemoryBudget = time.Hour, 4<<30 }},
		{name: "loads", change: func(c *processor.Config) { c.NearWindow = time.Second }},
		{name: "spills", change: func(c *processor.Config) { c.NearWindow, c.MemoryBudget = 30*time.Second, 32<<20 }},
	}
}

// windowed compares how late records are that lie in memory from when they are read on with how late they are that are loaded from the store a
// moment before, and with how late they are while memory is short and part of what is due goes to the store and comes back.
func windowed(ctx context.Context, r *runner) ([]Result, error) {
	ps := panes()
	var checked string
	rate := max(r.o.Rate/4, 1)
	for round := range r.o.Rounds + 1 { // the first is a warm-up
		for i := range ps {
			p := ps[(round+i)%len(ps)]
			late, says, err := r.through(ctx, p, rate)
			if err != nil {
				return nil, err
			}
			checked = says
			r.progress("window: %s: %s: %v", roundName(round), p.name, late)
			if round > 0 {
				p.late = append(p.late, late)
			}
		}
	}
	f := Figures{}
	for _, p := range ps {
		f[p.name+"_p50_ms"] = medianOf(p.late, func(l latenesses) float64 { return ms(l.p50) })
		f[p.name+"_p99_ms"] = medianOf(p.late, func(l latenesses) float64 { return ms(l.p99) })
		f[p.name+"_max_ms"] = medianOf(p.late, func(l latenesses) float64 { return ms(l.max) })
	}
	f["loads_extra_p99_ms"], f["spills_extra_p99_ms"] = f["loads_p99_ms"]-f["near_p99_ms"], f["spills_p99_ms"]-f["near_p99_ms"]
	return []Result{{
		Case: "window",
		What: fmt.Sprintf("%s records of 100 B a second, requested beforehand, are due in %d partitions for %v, while %s more at once are requested each %v that are due %v to %v later: how late the former are where all are in memory "+
			"(near_window: 1h, memory.budget: 4GiB); where each is loaded from the store a second ahead, eight times a second (near_window: 1s); and where memory is short again and again, so that part of it is spilled and loaded once more "+
			"(memory.budget: 32MiB). exactly_once, defaults otherwise. Medians of %d rounds, run alternately after a warm-up.",
			thousands(int64(rate)), r.o.Partitions, r.o.For/2, thousands(int64(waveSize*rate)), waveEvery, r.o.wave, 2*r.o.wave, r.o.Rounds),
		Measured: fmt.Sprintf("in memory p99 %.1f ms, max %.0f ms; loaded p99 %.1f ms, max %.0f ms; spilled and loaded p99 %.1f ms, max %.0f ms",
			f["near_p99_ms"], f["near_max_ms"], f["loads_p99_ms"], f["loads_max_ms"], f["spills_p99_ms"], f["spills_max_ms"]),
		Figures: f, Checked: checked,
	}}, nil
}

// through is one run.
func (r *runner) through(ctx context.Context, way *pane, rate int) (late latenesses, checked string, err error) {
	defer r.tidy(ctx, len(r.made), &err)
	s, err := r.newStage(ctx, "window", 1, r.o.Partitions)
	if err != nil {
		return late, "", err
	}
	plan := r.o.scheduleAt(rate).half()
	checked, err = s.playSeen(ctx, way.change, func(p *running, o *observer) error {
		if err := p.requests(ctx, &plan, false); err != nil {
			return err
		}
		waves, err := s.waves(ctx, plan, waveSize*rate)
		if err != nil {
			return err
		}
		if err := p.until(ctx, "seen", int64(plan.in), func() int64 { return o.countOf(markMeasured) }); err != nil {
			return err
		}
		late = summarize(o.lateOf(markMeasured))
		return p.until(ctx, "of the waves seen", int64(waves), func() int64 { return o.countOf(markWave) })
	})
	return late, checked, err
}

// waves writes waves until the measured records have been due, and returns how many records they had.
func (s *stage) waves(ctx context.Context, plan schedule, size int) (n int, err error) {
	w, err := s.newWriter()
	if err != nil {
		return 0, err
	}
	defer w.cl.Close()
	_, end := plan.span()
	for at := time.Now(); at.Before(end); at = at.Add(waveEvery) {
		if err := sleepUntil(ctx, at); err != nil {
			return n, err
		}
		if err := w.all(ctx, size, func(i int) stamp {
			ahead := s.r.o.wave + time.Duration(noise(uint64(n+i))%uint64(s.r.o.wave))
			return stamp{due: time.Now().Add(ahead).UnixMilli(), mark: markWave, index: uint32(n + i)}
		}); err != nil {
			return n, err
		}
		n += size
	}
	return n, nil
}

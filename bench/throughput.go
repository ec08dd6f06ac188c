package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/duewheel/duewheel/processor"
	"github.com/duewheel/duewheel/topics"
)

// The cases throughput and store do the same: a processor is live on an empty delay topic; n records, written
// in one transaction, can suddenly be seen; all are accepted and delivered. They differ in whether the records are due at once
// or were in the store before. Neither a group that is being formed nor the writing of requests is measured with it.
//
//	throughput   written ─ seen ─ accepted ─┐
//	                       due  ─ delivered ┘ both at once
//
//	store        written ─ seen ─ accepted, stored ─ (due is waited for) ─ due ─ loaded, delivered

const (
	// spreadRate is how many records fall due in a second: more than can be delivered.
	spreadRate = 1_000_000
	// storeWindow is the near window of the store's case: so short that what it lets be loaded before
	// the first record is due is of no account.
	storeWindow = 100 * time.Millisecond
	// revealAhead is how long before the first record is due all are made to be seen, which takes a transaction's end.
	revealAhead = 50 * time.Millisecond
)

// passage is one way of n records through a processor.
type passage struct {
	accepting  time.Duration // from the first to the last that is accepted
	delivering time.Duration // through the store: from when the first is due to the last that is delivered
	total      time.Duration // what counts
	cpu        float64       // µs a record, of this process
	turns      int64         // that committed
	storeBytes int64         // on disk when all were accepted
}

func (p passage) String() string {
	said := fmt.Sprintf("accepted in %v, %d transactions", p.accepting.Round(time.Millisecond), p.turns)
	if p.cpu > 0 {
		said += fmt.Sprintf(", %.2f µs a record", p.cpu)
	}
	return said
}

// throughput measures records that are due within 1 s after they can be seen.
func throughput(ctx context.Context, r *runner) ([]Result, error) {
	c, err := compete(ctx, r, "throughput", passNear)
	if err != nil {
		return nil, err
	}
	f := c.figures()
	results := []Result{{
		Case: "throughput",
		What: fmt.Sprintf("%s records of 100 B in %d partitions can suddenly be seen and are due within the next %v: from the first that is accepted to the last whose delivery is committed, "+
			"exactly_once, defaults. The copy loop copies the same records, from the first poll that returns some to the last commit. Medians of %d, run alternately after a warm-up.",
			thousands(int64(r.o.Records)), r.o.Partitions, spread(r.o.Records), r.o.Rounds),
		Measured: c.String(), Figures: f, Checked: c.checked,
	}}
	if cpuTime() == 0 {
		return results, nil // not known on this system
	}
	cpu, err := cpu(ctx, r, &c)
	if err != nil {
		return results, err
	}
	return append(results, cpu), nil
}

// cpu says what a record takes of this process, of the passages that were measured, and of some more whose records are
// delivered without headers of ours.
func cpu(ctx context.Context, r *runner, c *contest) (res Result, err error) {
	var silent []float64
	for round := range r.o.Rounds {
		s, err := r.newStage(ctx, "throughput", 1, r.o.Partitions)
		if err != nil {
			return res, err
		}
		s.emit = topics.EmitNone
		p, checked, err := passNear(ctx, s)
		if err != nil {
			return res, err
		}
		res.Checked = checked
		r.progress("cpu: round %d: %.2f µs a record without headers", round+1, p.cpu)
		silent = append(silent, p.cpu)
		if err := r.clean(ctx, 0); err != nil {
			return res, err
		}
	}
	batch, _ := c.best()
	f := Figures{
		"cpu_us": medianOf(c.passages, func(p passage) float64 { return p.cpu }), "cpu_silent_us": median(silent), "copy_cpu_us": medianOf(c.copies[batch], cpuOf),
	}
	f["ratio"] = f["cpu_us"] / f["copy_cpu_us"]
	res.Case, res.Figures = "cpu", f
	res.What = fmt.Sprintf("User and system time of this process for each record of the case throughput, the broker's not counted: the processor, the same with headers.emit: none, and the copy loop at %s a transaction. "+
		"Medians of %d.", thousands(int64(batch)), r.o.Rounds)
	res.Measured = fmt.Sprintf("%.2f µs a record, %.2f of the copy loop's %.2f µs; without headers %.2f µs", f["cpu_us"], f["ratio"], f["copy_cpu_us"], f["cpu_silent_us"])
	return res, nil
}

// store measures records that lie in the store until they are due.
func store(ctx context.Context, r *runner) ([]Result, error) {
	c, err := compete(ctx, r, "store", passStore)
	if err != nil {
		return nil, err
	}
	f := c.figures()
	f["delivered_per_s"] = medianOf(c.passages, func(p passage) float64 { return float64(r.o.Records) / p.delivering.Seconds() })
	f["store_bytes"] = medianOf(c.passages, func(p passage) float64 { return float64(p.storeBytes) })
	f["delivered_ratio"], f["accepted_ratio"] = f["delivered_per_s"]/f["copy_best_per_s"], f["accepted_per_s"]/f["copy_best_per_s"]
	return []Result{{
		Case: "store",
		What: fmt.Sprintf("%s records of 100 B in %d partitions can suddenly be seen long before they are due, go through the store, as the near window is %v, and then fall due within %v: the time from the first to "+
			"the last that is accepted, and the time from when the first is due to the last whose delivery is committed, in sum. Compactions while they wait are not counted. exactly_once, defaults otherwise. "+
			"The copy loop copies the same records. Medians of %d, run alternately after a warm-up.", thousands(int64(r.o.Records)), r.o.Partitions, storeWindow, spread(r.o.Records), r.o.Rounds),
		Measured: fmt.Sprintf("%s; accepted at %s/s (%.2f), delivered at %s/s (%.2f)", c.String(), thousands(int64(f["accepted_per_s"])), f["accepted_ratio"], thousands(int64(f["delivered_per_s"])), f["delivered_ratio"]),
		Figures:  f, Checked: c.checked,
	}}, nil
}

func spread(n int) time.Duration { return time.Duration(n) * time.Second / spreadRate }

// coldRounds is how many rounds warm a broker on which nothing has been measured yet. One that was just started compiles its code meanwhile: in a series of
// seven rounds the processor delivered 346, 331, 474, 558, 554, 595 and 577 thousand a second.
const coldRounds = 3

// compete runs the processor and the copy loop alternately, each round on records of its own. Warm-ups come first.
func compete(ctx context.Context, r *runner, name string, pass func(context.Context, *stage) (passage, string, error)) (c contest, err error) {
	warmUps := 1
	if r.stages == 0 {
		warmUps = coldRounds
	}
	c = contest{records: r.o.Records, copies: map[int][]speed{}}
	for round := 1 - warmUps; round <= r.o.Rounds; round++ {
		s, err := r.newStage(ctx, name, 1, r.o.Partitions)
		if err != nil {
			return c, err
		}
		p, checked, err := pass(ctx, s)
		if err != nil {
			return c, err
		}
		rate := float64(r.o.Records) / p.total.Seconds()
		r.progress("%s: %s: duewheel %s/s: %v", name, roundName(round), thousands(int64(rate)), p)
		loops, err := copyLoops(ctx, s, name, roundName(round))
		if err != nil {
			return c, err
		}
		if err := r.clean(ctx, 0); err != nil {
			return c, err
		}
		if round < 1 {
			continue
		}
		c.ours, c.passages, c.checked = append(c.ours, rate), append(c.passages, p), checked
		for batch, loop := range loops {
			c.copies[batch] = append(c.copies[batch], loop)
		}
	}
	return c, nil
}

// copyLoops copies what a stage has with each size of a transaction.
func copyLoops(ctx context.Context, s *stage, name, round string) (map[int]speed, error) {
	loops := make(map[int]speed)
	for _, batch := range copyBatches {
		loop, err := copyLoop(ctx, s, s.r.o.Records, batch)
		if err != nil {
			return nil, err
		}
		s.r.progress("%s: %s: copy loop %s/s at %s a transaction", name, round, thousands(int64(loop.rate)), thousands(int64(batch)))
		loops[batch] = loop
	}
	return loops, nil
}

func roundName(round int) string {
	if round < 1 {
		return "warm-up"
	}
	return fmt.Sprint("round ", round)
}

// pass lets all records through a processor. They are written before it starts, and seen when they are revealed; they are due in no order,
// the first of them at the given time.
func (s *stage) pass(ctx context.Context, first time.Time, change func(*processor.Config), meanwhile func(p *running, reveal func(context.Context) error) error) (checked string, err error) {
	n := s.r.o.Records
	reveal, forget, err := s.hold(ctx, n, func(i int) stamp {
		return stamp{due: first.UnixMilli() + int64(noise(uint64(i))%uint64(n))*1000/spreadRate, index: uint32(i)}
	})
	if err != nil {
		return "", err
	}
	defer forget()
	return s.play(ctx, change, func(p *running) error { return meanwhile(p, reveal) })
}

// passNear delivers records that are due as soon as they can be seen.
func passNear(ctx context.Context, s *stage) (out passage, checked string, err error) {
	n := s.r.o.Records
	first := time.Now().Add(s.r.lead(n) + s.r.o.settle)
	s.r.progress("throughput: writing %s requests", thousands(int64(n)))
	checked, err = s.pass(ctx, first, nil, func(p *running, reveal func(context.Context) error) error {
		if time.Until(first) < revealAhead {
			return errDueTooSoon
		}
		if err := sleepUntil(ctx, first.Add(-revealAhead)); err != nil {
			return err
		}
		watch := startWatch()
		if err := reveal(ctx); err != nil {
			return err
		}
		began, err := p.accept(ctx, n, &out)
		if err != nil {
			return err
		}
		if err := p.until(ctx, "delivered", int64(n), p.delivered); err != nil {
			return err
		}
		out.total, out.cpu = time.Since(began), watch.stop(n).cpu
		out.turns = p.Stats().Transactions["committed"]
		return nil
	})
	return out, checked, err
}

// passStore delivers records that were stored before.
func passStore(ctx context.Context, s *stage) (out passage, checked string, err error) {
	n := s.r.o.Records
	lead := 2*s.r.lead(n) + s.r.o.settle
	first := time.Now().Add(lead).Truncate(time.Millisecond)
	s.r.progress("store: writing %s requests that are due in %v", thousands(int64(n)), lead.Round(time.Millisecond))
	window := func(c *processor.Config) { c.NearWindow = storeWindow }
	checked, err = s.pass(ctx, first, window, func(p *running, reveal func(context.Context) error) error {
		if err := reveal(ctx); err != nil {
			return err
		}
		if _, err := p.accept(ctx, n, &out); err != nil {
			return err
		}
		if err := p.allStored(ctx, n, first, &out); err != nil {
			return err
		}
		if err := sleepUntil(ctx, first); err != nil {
			return err
		}
		if err := p.until(ctx, "delivered", int64(n), p.delivered); err != nil {
			return err
		}
		out.delivering = time.Since(first)
		out.total, out.turns = out.accepting+out.delivering, p.Stats().Transactions["committed"]
		return nil
	})
	return out, checked, err
}

// accept waits until n records are accepted, and returns when the first was.
func (p *running) accept(ctx context.Context, n int, out *passage) (began time.Time, err error) {
	if err := p.until(ctx, "accepted", 1, p.accepted); err != nil {
		return began, err
	}
	began = time.Now()
	err = p.until(ctx, "accepted", int64(n), p.accepted)
	out.accepting = time.Since(began)
	return began, err
}

// allStored sees to it that n records are pending, none of them in memory, some time before the first is due.
func (p *running) allStored(ctx context.Context, n int, due time.Time, out *passage) error {
	early, cancel := context.WithDeadlineCause(ctx, due.Add(-2*storeWindow), errDueTooSoon)
	defer cancel()
	if err := p.until(early, "pending", int64(n), p.pending); err != nil {
		if ctx.Err() == nil && early.Err() != nil {
			return errDueTooSoon
		}
		return err
	}
	if near := p.near(); near > 0 && early.Err() == nil {
		return fmt.Errorf("%d records are in memory long before they are due", near)
	}
	out.storeBytes = p.Stats().StoreBytes
	return nil
}

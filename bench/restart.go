package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/duewheel/duewheel/processor"
)

// comeback is one restart of the only process of a group. Times count from when it joined: partitions were assigned to it.
type comeback struct {
	joining time.Duration // from its start until then
	live    time.Duration // until all partitions were live
	first   time.Duration // until the first record that it has delivered was seen
	all     time.Duration // until a record of each partition was
}

// sinceStart is how long it took from the start of the process until the first record was seen.
func (c comeback) sinceStart() time.Duration { return c.joining + c.first }

// restart measures how soon a process delivers again that finds its state as it left it, or as a kill -9 left it.
func restart(ctx context.Context, r *runner) (results []Result, err error) {
	ways := []struct {
		name, how string
		end       func(*fleet, *replica) error
		times     []comeback
	}{
		{name: "restart", how: "SIGTERM", end: (*fleet).terminate},
		{name: "restart, killed", how: "kill -9", end: func(f *fleet, p *replica) error { f.kill(p); return nil }},
	}
	var rebuilt Result
	_, checked, err := r.perform(ctx, "restart", cast{1, r.o.Lanes, 0, r.o.Pending, slowRate}, func(sc *scene) (err error) {
		for i := range ways {
			w := &ways[i]
			for range r.o.Rounds {
				c, err := sc.comeBack(ctx, w.end)
				if err != nil {
					return err
				}
				r.progress("%s: first delivery after %v, of which it took %v to join", w.name, c.sinceStart().Round(time.Millisecond), c.joining.Round(time.Millisecond))
				w.times = append(w.times, c)
			}
		}
		rebuilt, err = sc.rebuild(ctx)
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, w := range ways {
		results = append(results, comebackResult(r.o, w.name, w.how, w.times, checked))
	}
	rebuilt.Checked = checked
	return append(results, rebuilt), nil
}

func comebackResult(o Options, name, how string, times []comeback, checked string) Result {
	of := func(value func(comeback) time.Duration) float64 {
		return medianOf(times, func(c comeback) float64 { return value(c).Seconds() })
	}
	f := Figures{
		"joining_s": of(func(c comeback) time.Duration { return c.joining }), "live_s": of(func(c comeback) time.Duration { return c.live }),
		"first_delivery_s": of(comeback.sinceStart), "all_delivering_s": of(func(c comeback) time.Duration { return c.joining + c.all }),
	}
	worst := time.Duration(0)
	for _, c := range times {
		worst = max(worst, c.sinceStart())
	}
	f["first_delivery_worst_s"] = worst.Seconds()
	return Result{
		Case: name,
		What: fmt.Sprintf("One process with %d partitions and %s pending records that are due in hours, while %s a second fall due, ends by %s and is started again with its state directory: from its start until a "+
			"read_committed consumer sees a record that it has delivered, and until it has seen one of every partition. To join: until partitions are assigned to it. Medians of %d. exactly_once, defaults otherwise.",
			o.Partitions, thousands(int64(o.Pending)), thousands(slowRate), how, len(times)),
		Measured: fmt.Sprintf("%.2f s (worst %.2f s); all partitions %.2f s; %.2f s of it to join", f["first_delivery_s"], f["first_delivery_worst_s"], f["all_delivering_s"], f["joining_s"]),
		Figures:  f, Checked: checked,
	}
}

// comeBack ends the only replica and starts it again with the same state directory.
func (sc *scene) comeBack(ctx context.Context, end func(*fleet, *replica) error) (c comeback, err error) {
	old := sc.f.running()[0]
	if err := end(sc.f, old); err != nil {
		return c, err
	}
	began, err := sc.f.start(old.Order.StateDir)
	if err != nil {
		return c, err
	}
	partitions := sc.owned(old)
	delivered := sc.o.firstFrom(partitions, began.Started)
	var joined, first, all time.Time
	if err := sc.f.until(ctx, "partitions delivering again", int64(len(partitions)), func() (n int64) {
		n, first, all = sc.o.found(delivered)
		return n
	}); err != nil {
		return c, err
	}
	joined = sc.f.first(began.Started, nil, processor.EventAssigned)
	_, live := sc.f.liveElsewhere(partitions, old, began.Started)
	c = comeback{joining: joined.Sub(began.Started), live: live.Sub(joined), first: first.Sub(joined), all: all.Sub(joined)}
	return c, sc.f.settle(ctx)
}

// rebuild ends the only replica and starts another with an empty state directory.
func (sc *scene) rebuild(ctx context.Context) (res Result, err error) {
	old := sc.f.running()[0]
	partitions := sc.owned(old)
	if err := sc.f.terminate(old); err != nil {
		return res, err
	}
	dir, err := sc.r.newDir()
	if err != nil {
		return res, err
	}
	log, err := sc.logOf(ctx, partitions)
	if err != nil {
		return res, err
	}
	began, err := sc.f.start(dir)
	if err != nil {
		return res, err
	}
	if err := sc.f.settle(ctx); err != nil {
		return res, err
	}
	joined := sc.f.first(began.Started, nil, processor.EventAssigned)
	_, live := sc.f.liveElsewhere(partitions, old, began.Started)
	took := live.Sub(joined)
	rate := float64(log) / took.Seconds()
	sc.r.progress("rebuild: %s records of log in %v: %s/s", thousands(log), took.Round(time.Millisecond), thousands(int64(rate)))
	return Result{
		Case:     "rebuild",
		What:     fmt.Sprintf("The same process is started with an empty state directory: %s records of log in %d partitions are read, from when partitions are assigned until the last of them is live.", thousands(log), len(partitions)),
		Measured: fmt.Sprintf("%s records of log/s; live after %.2f s", thousands(int64(rate)), took.Seconds()),
		Figures:  Figures{"log_per_s": rate, "live_s": took.Seconds(), "log_records": float64(log)},
	}, nil
}

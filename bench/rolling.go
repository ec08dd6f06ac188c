package bench

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// rolling measures a rolling restart, without standbys and with them.
func rolling(ctx context.Context, r *runner) ([]Result, error) {
	return each([]int{0, 1}, func(standbys int) (Result, error) { return roll(ctx, r, standbys) })
}

func roll(ctx context.Context, r *runner, standbys int) (res Result, err error) {
	defer r.tidy(ctx, len(r.made), &err)
	name, with := "rolling", "without standbys"
	if standbys > 0 {
		name, with = "rolling, standby", "with standbys: 1"
	}
	var calm, began, ended time.Time
	sc, checked, err := r.perform(ctx, "rolling", cast{trio, 1, standbys, 0, r.o.Rate}, func(sc *scene) (err error) {
		r.progress("%s: %s/s; quiet for %v, then %d replicas are restarted one after the other", name, thousands(int64(r.o.Rate)), r.o.For, trio)
		if calm, began, err = sc.quiet(ctx); err != nil {
			return err
		}
		for i, old := range sc.f.running() {
			if err := sc.f.terminate(old); err != nil {
				return err
			}
			if _, err := sc.f.start(old.Order.StateDir); err != nil {
				return err
			}
			if err := sc.f.settle(ctx); err != nil {
				return err
			}
			r.progress("%s: replica %d of %d is back", name, i+1, trio)
		}
		ended = time.Now()
		return nil
	})
	if err != nil {
		return res, err
	}
	began = began.Add(-around) // what was due just before may have been caught by it
	calmLate, rollLate := sc.o.lateIn(calm, began, everySource), sc.o.lateIn(began, ended, everySource)
	if len(calmLate) == 0 || len(rollLate) == 0 {
		return res, errors.New("too short: no records were due before, or meanwhile")
	}
	quiet, during := summarize(calmLate), summarize(rollLate)
	f := during.figures()
	f["quiet_max_ms"], f["quiet_p50_ms"] = ms(quiet.max), ms(quiet.p50)
	f["extra_max_s"] = max(during.max-quiet.p50, 0).Seconds()
	f["rolling_s"] = ended.Sub(began).Seconds()
	return Result{
		Case: name,
		What: fmt.Sprintf("%s records of 100 B a second are due in %d partitions of %d replicas with a lane each, %s, requested %v to %v ahead. Each replica in turn gets SIGTERM, is started again with its state directory "+
			"when it has ended, and the next one's turn comes when every partition is live and nothing has moved for %v. The largest lateness, as a read_committed consumer sees it, of any record that is due meanwhile, less the median in the %v before. "+
			"exactly_once, defaults otherwise.", thousands(int64(r.o.Rate)), r.o.Partitions, trio, with, r.o.soonest, r.o.latest, quietFor, r.o.For),
		Measured: fmt.Sprintf("+%.2f s (%s; quiet: p50 %.1f ms, max %.0f ms)", f["extra_max_s"], during, ms(quiet.p50), ms(quiet.max)),
		Figures:  f, Checked: checked,
	}, nil
}

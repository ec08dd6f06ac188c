package bench

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// rolling measures a rolling restart, without standbys and with them.
func (r *runner) rolling(ctx context.Context) ([]Result, error) {
	var results []Result
	for _, standbys := range []int{0, 1} {
		res, err := r.roll(ctx, standbys)
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

func (r *runner) roll(ctx context.Context, standbys int) (res Result, err error) {
	name, with := "rolling", "without standbys"
	if standbys > 0 {
		name, with = "rolling, standby", "with standbys: 1"
	}
	sc, err := r.setUp(ctx, "rolling", trio, 1, standbys, 0)
	if err != nil {
		return res, err
	}
	defer sc.tearDown()
	r.progress("%s: %s/s; quiet for %v, then %d replicas are restarted one after the other", name, thousands(int64(r.o.Rate)), r.o.For, trio)
	if err := sc.flow(ctx, r.o.Rate); err != nil {
		return res, err
	}
	calm := time.Now()
	if err := sleepUntil(ctx, calm.Add(r.o.For)); err != nil {
		return res, err
	}
	began := time.Now()
	for i, old := range sc.f.running() {
		if err := sc.f.terminate(old); err != nil {
			return res, err
		}
		if _, err := sc.f.start(old.Order.StateDir); err != nil {
			return res, err
		}
		if err := sc.f.settle(ctx); err != nil {
			return res, err
		}
		r.progress("%s: replica %d of %d is back", name, i+1, trio)
	}
	ended := time.Now()
	checked, err := sc.finish(ctx)
	if err != nil {
		return res, err
	}
	began = began.Add(-around) // what was due just before may have been caught by it
	calmLate, rollLate := sc.o.late(calm, began, everySource), sc.o.late(began, ended, everySource)
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

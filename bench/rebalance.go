package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/duewheel/duewheel/processor"
)

// around is how long before something moves, and after it has come to rest, records count as concerned. Short, so that
// few records dilute what was late.
const around = 500 * time.Millisecond

// rebalance measures what records lose in lateness when a replica is added: those of partitions that stay where they are, and
// those of partitions that move.
func rebalance(ctx context.Context, r *runner) ([]Result, error) {
	var calm, began, from, until time.Time
	moved := map[int32]bool{}
	sc, checked, err := r.perform(ctx, "rebalance", cast{trio - 1, 1, 0, 0, r.o.Rate}, func(sc *scene) (err error) {
		r.progress("rebalance: %s/s; quiet for %v, then a replica is added", thousands(int64(r.o.Rate)), r.o.For)
		if calm, began, err = sc.quiet(ctx); err != nil {
			return err
		}
		before := sc.f.owners()
		if err := sc.f.startNew(1); err != nil {
			return err
		}
		if err := sc.f.settle(ctx); err != nil {
			return err
		}
		from, until = sc.f.moved(began)
		for p, owner := range sc.f.owners() {
			moved[p] = owner != before[p]
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	res, err := sc.rebalanced(calm, began, from.Add(-around), until.Add(around), moved)
	res.Checked = checked
	return []Result{res}, err
}

// quiet lets nothing happen for a while. It returns when that began and ended.
func (sc *scene) quiet(ctx context.Context) (from, until time.Time, err error) {
	from = time.Now()
	err = sleepUntil(ctx, from.Add(sc.r.o.For))
	return from, time.Now(), err
}

// moved says when something was first revoked or assigned after a moment, and when something was last live.
func (f *fleet) moved(after time.Time) (from, until time.Time) {
	from = f.first(after, nil, processor.EventAssigned, processor.EventRevoked, processor.EventLost)
	f.mu.Lock()
	defer f.mu.Unlock()
	return from, f.last(processor.EventLive)
}

func (sc *scene) rebalanced(calm, began, from, until time.Time, moved map[int32]bool) (res Result, err error) {
	isMoved := func(p int32) bool { return moved[p] }
	stays := func(p int32) bool { return !moved[p] }
	f, n := Figures{}, 0
	for _, group := range []struct {
		name string
		is   func(int32) bool
	}{{"stay", stays}, {"move", isMoved}} {
		quiet, during := sc.o.lateIn(calm, began.Add(-around), group.is), sc.o.lateIn(from, until, group.is)
		if len(quiet) == 0 || len(during) == 0 {
			return res, fmt.Errorf("no records of partitions that %s", group.name)
		}
		q, d := summarize(quiet), summarize(during)
		f[group.name+"_quiet_p99_ms"], f[group.name+"_p99_ms"] = ms(q.p99), ms(d.p99)
		f[group.name+"_extra_p99_ms"] = max(ms(d.p99-q.p99), 0)
		f[group.name+"_p50_ms"], f[group.name+"_max_ms"], f[group.name+"_quiet_max_ms"] = ms(d.p50), ms(d.max), ms(q.max)
		f[group.name+"_records"] = float64(d.n)
	}
	for p := range moved {
		if moved[p] {
			n++
		}
	}
	f["moved_partitions"], f["moving_s"] = float64(n), until.Sub(from).Seconds()-2*around.Seconds()
	return Result{
		Case: "rebalance",
		What: fmt.Sprintf("%s records of 100 B a second are due in %d partitions of %d replicas with a lane each, requested %v to %v ahead; then a replica is added, and %d partitions move. "+
			"The p99 of lateness, as a read_committed consumer sees it, of records that are due from %v before the first partition is given up until %v after the last is live, less the p99 of the same partitions in the %v before; "+
			"nothing else pending, no standbys. exactly_once, defaults otherwise.",
			thousands(int64(sc.r.o.Rate)), sc.partitions, trio-1, sc.r.o.soonest, sc.r.o.latest, n, around, around, began.Sub(calm).Round(time.Second)),
		Measured: fmt.Sprintf("stay: +%.0f ms (p99 %.0f ms, max %.0f ms); move: +%.0f ms (p99 %.0f ms, max %.0f ms); quiet p99 %.0f ms",
			f["stay_extra_p99_ms"], f["stay_p99_ms"], f["stay_max_ms"], f["move_extra_p99_ms"], f["move_p99_ms"], f["move_max_ms"], f["stay_quiet_p99_ms"]),
		Figures: f,
	}, nil
}

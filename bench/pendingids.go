package bench

import (
	"context"
	"errors"
	"fmt"
)

// pendingIDs measures what memory a replica takes in whose partitions very many records with ids are pending.
func pendingIDs(ctx context.Context, r *runner) (results []Result, err error) {
	if r.o.Replica == nil {
		return nil, errors.New("bench: the case ids-pending needs replicas in processes of their own")
	}
	s, err := r.newStage(ctx, "ids-pending", 1, r.o.Partitions)
	if err != nil {
		return nil, err
	}
	s.ids = true
	sc := &scene{stage: s, f: s.fleet(r.o.Lanes, 0)}
	defer sc.f.abandon()
	if err := sc.f.startNew(1); err != nil {
		return nil, err
	}
	if err := sc.f.settle(ctx); err != nil {
		return nil, err
	}
	if err := sc.fillFar(ctx, r.o.Pending); err != nil {
		return nil, err
	}
	first := sc.f.running()[0]
	takenIn := peakOf(first.Pid())
	if takenIn == 0 {
		return nil, errors.New("this system does not tell what memory a process takes")
	}
	if err := sc.f.terminate(first); err != nil {
		return nil, err
	}
	again, err := sc.f.start(first.Order.StateDir)
	if err != nil {
		return nil, err
	}
	if err := sc.f.settle(ctx); err != nil {
		return nil, err
	}
	if err := sc.f.until(ctx, "pending after a restart", int64(r.o.Pending), sc.pending); err != nil {
		return nil, err
	}
	restarted := peakOf(again.Pid())
	f := Figures{"budget_mib": float64(r.o.budget()) / mib, "peak_mib": float64(takenIn) / mib, "restarted_mib": float64(restarted) / mib}
	f["of_budget"] = max(f["peak_mib"], f["restarted_mib"]) / f["budget_mib"]
	return []Result{{
		Case: "ids-pending",
		What: fmt.Sprintf("One replica, a process of its own, takes in %s records of 100 B with a delay-id each, all distinct, that are due in hours, as fast as it can: what it has in memory at most (resident, the program itself included). "+
			"Then it is started again with its state directory, until all are pending there. exactly_once, defaults.", thousands(int64(r.o.Pending))),
		Measured: fmt.Sprintf("%.0f MiB at most while they are taken in, %.0f MiB after a restart, with a memory.budget of %.0f MiB", f["peak_mib"], f["restarted_mib"], f["budget_mib"]),
		Figures:  f, Checked: thousands(sc.pending()) + " are pending, by the counts of the replica",
	}}, sc.f.end()
}

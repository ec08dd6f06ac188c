package bench

import (
	"fmt"
)

// results say what was measured on both sides.
func (z *sized) results() []Result {
	o := z.r.o
	pending, records := thousands(int64(o.Pending)), thousands(int64(o.Records))
	setup := fmt.Sprintf("a process of its own with %d partitions in which %s records of 100 B are pending, due in hours, and another one that has nothing else to do, in turn; medians of %d. exactly_once, defaults, but nothing is trimmed", o.Partitions, pending, o.Rounds)
	results := []Result{z.filling(), z.lateness(setup)}
	for i, way := range ways {
		results = append(results, z.restarted(i, way.name, way.how))
	}
	f := ratios(z.many.passes, z.none.passes)
	results = append(results, Result{
		Case:     "many, throughput",
		What:     fmt.Sprintf("%s records can suddenly be seen and are due at once, as in the case throughput: from when they are committed until the last delivery is, by the events of the process, and the CPU time of the process meanwhile: %s.", records, setup),
		Measured: fmt.Sprintf("%.2f of what it is beside nothing: %s/s and %s/s; CPU %.2f and %.2f µs a record", f["ratio"], thousands(int64(f["per_s"])), thousands(int64(f["without_per_s"])), f["cpu_us"], f["without_cpu_us"]), Figures: f,
	})
	f = ratios(z.many.intakes, z.none.intakes)
	results = append(results, Result{
		Case:     "many, intake",
		What:     fmt.Sprintf("%s records can suddenly be seen and are due in hours: from when they are committed until all are pending, by the counts of the process, ten times a second: %s.", records, setup),
		Measured: fmt.Sprintf("%.2f of what it is beside nothing: %s/s and %s/s; CPU %.2f and %.2f µs a record", f["ratio"], thousands(int64(f["per_s"])), thousands(int64(f["without_per_s"])), f["cpu_us"], f["without_cpu_us"]), Figures: f,
	})
	return append(results, z.memory(pending))
}

func ratios(with, without []spurt) Figures {
	rate, cpu := func(p spurt) float64 { return p.rate }, func(p spurt) float64 { return p.cpu }
	f := Figures{"per_s": medianOf(with, rate), "without_per_s": medianOf(without, rate), "cpu_us": medianOf(with, cpu), "without_cpu_us": medianOf(without, cpu)}
	f["ratio"], f["cpu_ratio"] = f["per_s"]/f["without_per_s"], f["cpu_us"]/f["without_cpu_us"]
	return f
}

func (z *sized) filling() Result {
	o := z.r.o
	f := z.filled.figures()
	f["filled_per_s"] = z.filledRate
	return Result{
		Case: "many, filling",
		What: fmt.Sprintf("%s records a second, written %v to %v ahead, fall due while the %s that are due in hours are written and taken in, %s a second: what a read_committed consumer sees of a process with %d partitions. exactly_once, defaults, but nothing is trimmed.",
			thousands(slowRate), o.soonest, o.latest, thousands(int64(o.Pending)), thousands(int64(o.FillRate)), o.Partitions),
		Measured: fmt.Sprintf("%v; filled at %s/s", z.filled, thousands(int64(z.filledRate))), Figures: f,
	}
}

func (z *sized) lateness(setup string) Result {
	p50, p99 := func(l latenesses) float64 { return ms(l.p50) }, func(l latenesses) float64 { return ms(l.p99) }
	f := Figures{
		"p50_ms": medianOf(z.many.late, p50), "p99_ms": medianOf(z.many.late, p99),
		"without_p50_ms": medianOf(z.none.late, p50), "without_p99_ms": medianOf(z.none.late, p99),
	}
	f["p99_ratio"] = f["p99_ms"] / f["without_p99_ms"]
	return Result{
		Case:     "many, lateness",
		What:     fmt.Sprintf("%s records a second are due for %v after a warm-up of %v, written %v ahead meanwhile; what a read_committed consumer sees: %s.", thousands(int64(z.r.o.Rate)), z.r.o.For, z.r.o.For/4, liveAhead, setup),
		Measured: fmt.Sprintf("p99 %.2f times that beside nothing: p50 %.1f ms, p99 %.1f ms, and %.1f and %.1f ms", f["p99_ratio"], f["p50_ms"], f["p99_ms"], f["without_p50_ms"], f["without_p99_ms"]), Figures: f,
	}
}

func (z *sized) restarted(i int, name, how string) Result {
	took := func(c comeback) float64 { return c.sinceStart().Seconds() }
	f := Figures{
		"first_delivery_s": medianOf(z.many.backs[i], took), "without_first_delivery_s": medianOf(z.none.backs[i], took),
		"all_s": medianOf(z.many.backs[i], func(c comeback) float64 { return c.all.Seconds() }), "joining_s": medianOf(z.many.backs[i], func(c comeback) float64 { return c.joining.Seconds() }),
	}
	for _, c := range z.many.backs[i] {
		f["first_delivery_worst_s"] = max(f["first_delivery_worst_s"], took(c))
	}
	return Result{
		Case: "many, " + name,
		What: fmt.Sprintf("A process with %d partitions in which %s records are pending ends by %s, while %s a second fall due, and is started again with its state directory: from its start until a read_committed consumer sees a record that it has delivered. "+
			"Medians of %d; beside it the same where nothing is pending. exactly_once, defaults, but nothing is trimmed.", z.r.o.Partitions, thousands(int64(z.r.o.Pending)), how, thousands(slowRate), z.r.o.Rounds),
		Measured: fmt.Sprintf("%.2f s (worst %.2f s), with none %.2f s; all partitions %.2f s after joining", f["first_delivery_s"], f["first_delivery_worst_s"], f["without_first_delivery_s"], f["all_s"]), Figures: f,
	}
}

func (z *sized) memory(pending string) Result {
	f := Figures{
		"budget_mib": float64(z.r.o.budget()) / mib, "filling_mib": float64(z.many.filling) / mib, "peak_mib": float64(z.many.peak) / mib, "without_peak_mib": float64(z.none.peak) / mib,
	}
	f["beyond_mib"] = f["peak_mib"] - f["budget_mib"]
	return Result{
		Case:     "many, memory",
		What:     fmt.Sprintf("What a process has in memory at most (resident, the program itself included) in all of this, with %s records pending, and with none.", pending),
		Measured: fmt.Sprintf("%.0f MiB with a memory.budget of %.0f MiB, %.0f MiB of them while the pending records were taken in; with none %.0f MiB", f["peak_mib"], f["budget_mib"], f["filling_mib"], f["without_peak_mib"]), Figures: f,
	}
}

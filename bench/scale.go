package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/pending"
)

// scales is every case of Scale, in the order in which they run.
var scales = []benchCase{
	{"scale", scale},
}

// ScaleCases names the results of Scale in the order in which they are measured.
func ScaleCases() []string {
	return []string{"intake", "amplification", "ram", "reopen", "beside", "replay"}
}

// Scale measures what it costs that very many records wait in the local store: in the partitions of one process and on its disk, and without
// a Kafka. What a broker adds to that Run and Failover measure.
func Scale(ctx context.Context, o Options) ([]Result, error) {
	o.Pending = cmp.Or(o.Pending, 2_000_000)
	o.Partitions = cmp.Or(o.Partitions, 8)
	o.Client = []kgo.Opt{kgo.SeedBrokers("none")} // which is asked nothing
	return runAll(ctx, o.withDefaults(), scales)
}

// The budget of a process by default is 256 MiB.
const (
	scaleStore = 64 << 20  // of that, for the store
	scaleNear  = 128 << 20 // and for what is due soon
	scaleStart = int64(1_000_000_000_000)
	scaleSync  = 1000 // records that a fetch brings of a partition
	scaleValue = 100  // bytes
)

// heap is what is in use after collections: what a sync.Pool keeps to be used again outlives the first.
func heap() float64 {
	for range 3 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

func scale(ctx context.Context, r *runner) (results []Result, err error) {
	dir, err := os.MkdirTemp(r.o.Dir, namePrefix)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	n := r.o.Pending
	what := fmt.Sprintf("%s records of %d B with a key of 13 B, due within a day, in %d partitions and one store with %d MiB", thousands(int64(n)), scaleValue, r.o.Partitions, scaleStore>>20)
	add := func(name, text, measured string, f Figures, checked string) {
		r.progress("%s: %s", name, measured)
		results = append(results, Result{Case: name, What: text, Measured: measured, Figures: f, Checked: checked})
	}

	few, err := newScaled(filepath.Join(dir, "few"), r.o.Partitions)
	if err != nil {
		return nil, err
	}
	if err := few.fill(ctx, n/10); err != nil {
		return nil, err
	}
	none, err := newScaled(filepath.Join(dir, "none"), r.o.Partitions)
	if err != nil {
		return nil, err
	}
	s, err := newScaled(filepath.Join(dir, "many"), r.o.Partitions)
	if err != nil {
		return nil, err
	}

	began, used := time.Now(), cpuTime()
	if err := s.fill(ctx, n); err != nil {
		return nil, err
	}
	took, cpu := time.Since(began), cpuTime()-used
	perSecond := float64(n) / took.Seconds()
	add("intake", "How fast "+what+" are taken in: wall time, and CPU time of all threads, of the compactions too that do not wait until something is read.",
		fmt.Sprintf("%s/s; %.2f µs of CPU each", thousands(int64(perSecond)), float64(cpu.Microseconds())/float64(n)),
		Figures{"records_per_s": perSecond, "cpu_us": float64(cpu.Microseconds()) / float64(n)}, s.checked(n))

	for i, p := range s.ps {
		if s.commit(i); p.Flush() != nil {
			return results, s.store.Err()
		}
	}
	if err := s.store.Flush(); err != nil {
		return results, err
	}
	used = cpuTime()
	if err := s.settle(ctx); err != nil {
		return results, err
	}
	later := cpuTime() - used
	written, logical, err := s.store.Written()
	if err != nil {
		return results, err
	}
	disk, err := s.store.DiskBytes()
	if err != nil {
		return results, err
	}
	amplification := float64(written) / float64(logical)
	add("amplification", "What flushes and compactions have written for that, of what the keys and values are, those included that have waited until something was read; the CPU time of these; and what it takes on disk then.",
		fmt.Sprintf("%.2f; %.2f µs of CPU a record later; %.0f B each on disk", amplification, float64(later.Microseconds())/float64(n), float64(disk)/float64(n)),
		Figures{"ratio": amplification, "later_us": float64(later.Microseconds()) / float64(n), "disk_bytes_per_record": float64(disk) / float64(n)}, s.checked(n))

	held := heap()
	ps := s.ps
	s.ps = nil
	perRecord := max(held-heapWithout(&ps), 0) / float64(n)
	add("ram", "What of the heap is given back when the partitions are forgotten, and the store is not: the counts by place in the log, which is dense, and by due time.",
		fmt.Sprintf("%.2f B a record", perRecord), Figures{"bytes_per_record": perRecord}, "nothing to be delivered")
	s.ps = make([]*pending.Partition, r.o.Partitions)
	if err := s.store.Close(); err != nil {
		return results, err
	}

	var many, fewer, cpus []time.Duration
	for range r.o.Rounds {
		for _, x := range []struct {
			s    *scaled
			took *[]time.Duration
		}{{few, &fewer}, {s, &many}} {
			if x.s.ps[0] != nil {
				if err := x.s.close(); err != nil {
					return results, err
				}
			}
			began, used := time.Now(), cpuTime()
			if err := x.s.open(ctx); err != nil {
				return results, err
			}
			*x.took = append(*x.took, time.Since(began))
			if x.s == s {
				cpus = append(cpus, cpuTime()-used)
			}
		}
	}
	slices.Sort(many)
	slices.Sort(fewer)
	a, b := many[len(many)/2].Seconds(), fewer[len(fewer)/2].Seconds()
	add("reopen", fmt.Sprintf("How long it takes to open that store again and to know what is pending in all partitions, beside one with a tenth of it in the same run: median of %d.", r.o.Rounds),
		fmt.Sprintf("%.3f s, %.3f s on the CPU; %.3f s with a tenth", a, slices.Min(cpus).Seconds(), b), Figures{"took_s": a, "cpu_s": slices.Min(cpus).Seconds(), "tenth_s": b, "ratio": a / max(b, 0.001)}, s.checked(n))

	var ratios, rates []float64
	for range r.o.Rounds {
		const near = 400_000
		_, without, err := none.pass(ctx, near)
		if err != nil {
			return results, err
		}
		took, with, err := s.pass(ctx, near)
		if err != nil {
			return results, err
		}
		ratios, rates = append(ratios, without.Seconds()/with.Seconds()), append(rates, near/took.Seconds())
	}
	slices.Sort(ratios)
	slices.Sort(rates)
	add("beside", fmt.Sprintf("Records that are due within 70 ms, taken in and delivered beside that, and beside nothing, on the CPU: the ratio of both; median of %d.", r.o.Rounds),
		fmt.Sprintf("%.2f of what it is beside nothing; %s/s", ratios[len(ratios)/2], thousands(int64(rates[len(rates)/2]))),
		Figures{"ratio": ratios[len(ratios)/2], "records_per_s": rates[len(rates)/2]}, s.checked(n))

	again, err := newScaled(filepath.Join(dir, "again"), r.o.Partitions)
	if err != nil {
		return results, err
	}
	if err := again.replay(ctx, filepath.Join(dir, "anew"), n/2); err != nil {
		return results, err
	}
	began = time.Now()
	if err := again.fill(ctx, n/2); err != nil {
		return results, err
	}
	rebuilt := float64(n/2) / time.Since(began).Seconds()
	add("replay", "How fast half of those records are read again below O into an empty store, as after the loss of the state directory, without the fetches.",
		thousands(int64(rebuilt))+" records of log/s", Figures{"log_per_s": rebuilt}, again.checked(n/2))
	return results, errors.Join(few.close(), none.close(), s.close(), again.close())
}

// heapWithout is the heap without some partitions.
func heapWithout(ps *[]*pending.Partition) float64 {
	*ps = nil
	return heap()
}

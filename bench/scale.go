package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/pending"
	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
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

// scaled is a store, and the partitions of a process in it.
type scaled struct {
	dir    string
	store  *state.Store
	env    pending.Env
	room   pending.Room
	ps     []*pending.Partition
	ends   []int64            // of the logs
	cs     []state.Checkpoint // as committed
	part   *state.Partition // of the last partition
	record *kgo.Record
	values []byte
	noise  *rand.Rand
	now    int64

	reading bool // below O: nothing is committed
}

func newScaled(dir string, partitions int) (*scaled, error) {
	routes, err := topics.NewRoutes(topics.Route{Topic: "requests", Allow: []string{"orders"}, DeadLetter: "requests.dead"})
	if err != nil {
		return nil, err
	}
	s := &scaled{
		dir: dir, now: scaleStart, values: make([]byte, 4<<20), noise: rand.New(rand.NewPCG(1, 2)),
		env:  pending.Env{Route: routes[0], Mark: topics.NewMark([4]byte{1}, "g", 0), Skew: 1000},
		room: pending.Room{Window: 60_000, Most: 60_000, Budget: scaleNear, Share: scaleNear / int64(partitions)},
		ps:   make([]*pending.Partition, partitions), ends: make([]int64, partitions), cs: make([]state.Checkpoint, partitions),
		record: &kgo.Record{Key: []byte("customer-1234"), Timestamp: time.UnixMilli(scaleStart), Headers: []kgo.RecordHeader{
			{Key: topics.HeaderUntil}, {Key: topics.HeaderTargetTopic, Value: []byte("orders")}}},
	}
	rand.NewChaCha8([32]byte{1}).Read(s.values)
	for i := range s.cs {
		s.cs[i] = state.Checkpoint{TopicID: [4]byte{1}}
		s.cs[i].Parsers = pending.WithParser(s.cs[i], s.env.Route.Spec(), 0)
	}
	return s, s.open(context.Background())
}

// open opens the store, and brings the partitions up as a process does that is started again, but for what it asks Kafka.
func (s *scaled) open(ctx context.Context) (err error) {
	if s.store, err = state.Open(state.Options{Dir: s.dir, MemoryBudget: scaleStore}); err != nil {
		return err
	}
	for i := range s.ps {
		if s.ps[i], err = pending.New(s.env, s.cs[i], pending.Sighting{End: s.ends[i], At: s.now}); err != nil {
			return err
		}
		part, err := s.store.Partition(state.PartitionID{Group: "g", Topic: "requests", TopicID: [16]byte{1}, Partition: int32(i)})
		if err != nil {
			return err
		}
		got, err := pending.Inherit(ctx.Err, s.env.Route, part, s.cs[i], 0, s.ends[i])
		if err != nil {
			return err
		}
		if got.Unused != nil {
			return fmt.Errorf("the store is of no use: %w", got.Unused)
		}
		s.part = part
		s.ps[i].Trust(math.MaxInt64)
		s.ps[i].Use(part, got, s.now, s.room.Window)
		if s.reading {
			continue
		}
		s.ps[i].Pass(s.ends[i], state.NoEpoch)
		for live := false; !live; {
			if live, err = s.ps[i].Enliven(s.room); err != nil {
				return err
			}
		}
	}
	return nil
}

// fill takes in records that are due within a day, an hour from now at the earliest.
func (s *scaled) fill(ctx context.Context, n int) error {
	return s.take(ctx, n, func() int64 { return s.now + 3_600_000 + s.noise.Int64N(86_400_000) })
}

// take takes in records as fetches bring them, and commits a checkpoint now and then.
func (s *scaled) take(ctx context.Context, n int, due func() int64) error {
	for from := 0; from < n; from += scaleSync {
		i := from / scaleSync % len(s.ps)
		p := s.ps[i]
		for range min(scaleSync, n-from) {
			s.record.Offset = s.ends[i]
			s.record.Value = s.values[s.noise.IntN(len(s.values)-scaleValue):][:scaleValue] // which cannot be compressed
			s.record.Headers[0].Value = strconv.AppendInt(s.record.Headers[0].Value[:0], due(), 10)
			if _, err := p.Accept(s.record, s.now); err != nil {
				return err
			}
			s.ends[i]++
		}
		if err := errors.Join(p.Sync(), ctx.Err()); err != nil {
			return err
		}
		if from/scaleSync%(10*len(s.ps)) < len(s.ps) {
			s.commit(i)
		}
	}
	return nil
}

// commit writes the checkpoint of a partition.
func (s *scaled) commit(i int) {
	if s.reading {
		return
	}
	if pt := s.ps[i].Checkpoint(); pt != nil {
		s.ps[i].Wrote(pt)
		s.cs[i] = pt.To
	}
}

// close ends the process as SIGTERM does.
func (s *scaled) close() error {
	var err error
	for i, p := range s.ps {
		s.commit(i)
		err = errors.Join(err, p.Flush())
		s.ps[i] = nil
	}
	return errors.Join(err, s.store.Close())
}

// pass takes in records that are due soon and delivers them, for so many, and returns how long that took on the CPU.
func (s *scaled) pass(ctx context.Context, n int) (took, cpu time.Duration, err error) {
	began, used := time.Now(), cpuTime()
	items := make([]pending.Item, 0, 20_000)
	for done := 0; done < n; {
		batch := min(n-done, 20_000)
		if err := s.take(ctx, batch, func() int64 { return s.now + 20 + s.noise.Int64N(50) }); err != nil {
			return 0, 0, err
		}
		s.now += 70
		for i, p := range s.ps {
			if err := p.Load(s.now, s.room); err != nil {
				return 0, 0, err
			}
			for pt := p.Take(s.now, items[:0], 20_000, 1<<30); pt != nil; pt = p.Take(s.now, items[:0], 20_000, 1<<30) {
				done += len(pt.Items)
				p.Settle(pt)
				p.Committed(pt)
				s.cs[i] = pt.To
			}
			if err := p.Tidy(false); err != nil {
				return 0, 0, err
			}
		}
	}
	return time.Since(began), cpuTime() - used, nil
}

// settle reads something now and then, until nothing is left to compact.
func (s *scaled) settle(ctx context.Context) error {
	for still := 0; still < 5; still++ {
		if err := s.part.Scan(state.Key{}, func(state.Key, []byte) bool { return false }); err != nil {
			return err
		}
		busy, err := s.store.Compacting()
		if err != nil {
			return err
		}
		if busy {
			still = 0
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

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

// replay has the partitions read again what they have read, into an empty store.
func (s *scaled) replay(ctx context.Context, dir string, n int) error {
	if err := s.store.Close(); err != nil {
		return err
	}
	for i := range s.cs {
		s.cs[i].Offset, s.ends[i] = int64(n), 0
	}
	s.dir, s.reading = dir, true
	return s.open(ctx)
}

// checked says whether as many are pending as there should be.
func (s *scaled) checked(n int) string {
	pending := int64(0)
	for _, p := range s.ps {
		pending += p.Pending()
	}
	if pending != int64(n) {
		return fmt.Sprintf("%s are pending, want %s", thousands(pending), thousands(int64(n)))
	}
	return thousands(pending) + " are pending"
}

package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/bench/child"
	"github.com/duewheel/duewheel/processor"
	"github.com/duewheel/duewheel/topics"
)

// fleet is the replicas of a stage's group, each in a process of its own, and what they tell. Its methods may be called from several
// goroutines.
type fleet struct {
	s        *stage
	standbys int
	lanes    int
	every    time.Duration                // how often replicas tell what they have counted
	heed     func(*replica, child.Counts) // is called with what they have counted; nil: nothing

	mu       sync.Mutex
	replicas []*replica // every one that was started
	seats    map[int32]seat
	heard    []heard // in the order in which it was told

	records     int64     // that were committed
	committedAt time.Time // when the last of them were
}

// heard is an event of partitions, and whose.
type heard struct {
	by *replica
	processor.Event
}

// seat is the replica that has a partition.
type seat struct {
	owner *replica
	live  time.Time // since when it is live there
}

// replica is one child process.
type replica struct {
	*child.Process

	// Guarded by the fleet's mu.
	stopping  bool // it was told to end, or killed
	counts    child.Counts
	lastWords string // the last line of its log
}

// ServeReplica is the whole of a child process of a benchmark. client says how to reach the cluster.
func ServeReplica(ctx context.Context, client []kgo.Opt, in io.Reader, out, log io.Writer) error {
	return child.Serve(ctx, in, out, log, func(o *child.Order) error {
		o.Client = client
		return nil
	})
}

func route(topic string, targets []string, dead string, emit topics.Emit) topics.Route {
	return topics.Route{Topic: topic, Target: targets[0], Allow: targets[1:], DeadLetter: dead, Emit: emit, MaxDelay: 366 * 24 * time.Hour}
}

func (s *stage) fleet(lanes, standbys int) *fleet {
	return &fleet{s: s, lanes: lanes, standbys: standbys, every: 100 * time.Millisecond, seats: map[int32]seat{}}
}

// start starts a replica with a state directory, which one that has ended may have left.
func (f *fleet) start(dir string) (*replica, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	o := child.Order{CountEvery: f.every, Level: slog.LevelWarn, Presence: "127.0.0.1:0", Config: processor.Config{
		Group: f.s.group, Instance: fmt.Sprintf("%s-%d", f.s.r.id[len(namePrefix):], len(f.replicas)), StateDir: dir,
		Lanes: f.lanes, Standbys: f.standbys, SessionTimeout: f.s.r.o.session, MemoryBudget: f.s.r.o.MemoryBudget,
	}}
	if f.s.r.o.Logger.Enabled(context.Background(), slog.LevelInfo) {
		o.Level = slog.LevelInfo
	}
	for _, topic := range f.s.delays {
		o.Routes = append(o.Routes, route(topic, f.s.targets, f.s.dead, topics.EmitSource))
	}
	if f.s.change != nil {
		f.s.change(&o.Config)
	}
	r := &replica{}
	cmd := f.s.r.o.Replica()
	cmd.Stderr = f.logOf(r, o.Instance)
	var err error
	if r.Process, err = child.Start(cmd, o, func(_ *child.Process, m child.Message) { f.note(r, m) }); err != nil {
		return nil, fmt.Errorf("start a replica: %w", err)
	}
	f.replicas = append(f.replicas, r)
	return r, nil
}

// startNew starts n replicas with nothing in their state directories.
func (f *fleet) startNew(n int) error {
	for range n {
		dir, err := f.s.r.newDir()
		if err != nil {
			return err
		}
		if _, err := f.start(dir); err != nil {
			return err
		}
	}
	return nil
}

// logOf passes a replica's log on, and keeps the last line of it.
func (f *fleet) logOf(r *replica, name string) io.Writer {
	return child.Lines(func(line string) error {
		f.s.r.o.Logger.Info("replica", "name", name, "line", line)
		f.mu.Lock()
		defer f.mu.Unlock()
		r.lastWords = line
		return nil
	})
}

func (f *fleet) note(r *replica, m child.Message) {
	if m.Counts != nil && f.heed != nil {
		f.heed(r, *m.Counts)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if m.Counts != nil {
		r.counts = *m.Counts
	}
	if m.Event == nil {
		return
	}
	if m.Event.Kind == processor.EventCommitted {
		if m.Event.Records > 0 {
			f.records, f.committedAt = f.records+int64(m.Event.Records), m.Event.At
		}
		return
	}
	f.heard = append(f.heard, heard{r, *m.Event})
	if m.Event.Kind == processor.EventLive {
		for _, tp := range m.Event.Partitions {
			f.seats[tp.Partition] = seat{owner: r, live: m.Event.At}
		}
	}
}

// committed is how many records turns have delivered, and when the last one did.
func (f *fleet) committed() (records int64, last time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.records, f.committedAt
}

// moving are the events that tell that partitions move; the last of them is that they have arrived.
var moving = []processor.EventKind{processor.EventAssigned, processor.EventRevoked, processor.EventLost, processor.EventLive}

// first is when one of some events was first told after a moment, zero when none was; nil partitions stand for any.
func (f *fleet) first(after time.Time, partitions []int32, kinds ...processor.EventKind) (at time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, h := range f.heard {
		concerns := partitions == nil || slices.ContainsFunc(h.Partitions, func(tp processor.TopicPartition) bool { return slices.Contains(partitions, tp.Partition) })
		if concerns && slices.Contains(kinds, h.Kind) && h.At.After(after) && (at.IsZero() || h.At.Before(at)) {
			at = h.At
		}
	}
	return at
}

// last is when one of some events was last told. It is called with mu held.
func (f *fleet) last(kinds ...processor.EventKind) (at time.Time) {
	for _, h := range f.heard {
		if slices.Contains(kinds, h.Kind) && h.At.After(at) {
			at = h.At
		}
	}
	return at
}

// broken is an error when a replica has ended that was not told to.
func (f *fleet) broken() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.replicas {
		if r.HasExited() && !r.stopping {
			return fmt.Errorf("replica %s has ended by itself: %w; %s", r.Name(), cmpErr(r.Err(), errors.New("without an error")), r.lastWords)
		}
	}
	return nil
}

func cmpErr(err, other error) error {
	if err != nil {
		return err
	}
	return other
}

func (f *fleet) until(ctx context.Context, what string, want int64, count func() int64) error {
	err := f.s.r.until(ctx, what, want, count, f.broken)
	if err != nil && ctx.Err() == nil {
		err = errors.Join(err, f.words())
	}
	return err
}

// words are what the running replicas have complained of last.
func (f *fleet) words() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var errs []error
	for _, r := range f.runningLocked() {
		if r.lastWords != "" {
			errs = append(errs, fmt.Errorf("replica %s: %s", r.Name(), r.lastWords))
		}
	}
	return errors.Join(errs...)
}

// running are the replicas that were not told to end.
func (f *fleet) running() []*replica {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.runningLocked()
}

func (f *fleet) runningLocked() (rs []*replica) {
	for _, r := range f.replicas {
		if !r.stopping {
			rs = append(rs, r)
		}
	}
	return rs
}

// sum adds up what the running replicas have counted, and says whether all of them have after a moment.
func (f *fleet) sum(after time.Time, of func(child.Counts) int64) (n int64, all bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	all = true
	for _, r := range f.runningLocked() {
		all = all && r.counts.At.After(after)
		n += of(r.counts)
	}
	return n, all
}

// countsOf are what a replica has counted last.
func (f *fleet) countsOf(r *replica) child.Counts {
	f.mu.Lock()
	defer f.mu.Unlock()
	return r.counts
}

// owners tells which replica has each partition.
func (f *fleet) owners() map[int32]*replica {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := map[int32]*replica{}
	for p, s := range f.seats {
		m[p] = s.owner
	}
	return m
}

// quietFor is how long nothing must have moved before a group counts as settled.
const quietFor = time.Second

// settle waits until every partition is live, each running replica has its share, and nothing moves any more.
func (f *fleet) settle(ctx context.Context) error {
	since := time.Now()
	return f.until(ctx, "partitions live, with nothing moving", int64(f.s.partitions), func() int64 {
		live, share, moved := f.look()
		if share == 0 || time.Since(since) < quietFor || time.Since(moved) < quietFor {
			live = min(live, int64(f.s.partitions)-1)
		}
		return live
	})
}

// look says how many partitions are live at running replicas, by their own counts, the smallest share of a replica, and when something has
// moved last.
func (f *fleet) look() (live, share int64, moved time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, r := range f.runningLocked() {
		live += r.counts.Live
		if i == 0 || r.counts.Live < share {
			share = r.counts.Live
		}
	}
	return live, share, f.last(moving...)
}

// liveElsewhere says how many of some partitions have become live after a moment at a replica other than the given one, and when
// the last of them did.
func (f *fleet) liveElsewhere(partitions []int32, than *replica, after time.Time) (n int64, last time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range partitions {
		s := f.seats[p]
		if s.owner != than && s.live.After(after) {
			n++
			if s.live.After(last) {
				last = s.live
			}
		}
	}
	return n, last
}

// kill ends a replica at once and waits until it is gone.
func (f *fleet) kill(r *replica) {
	f.tell(r)
	r.Kill()
}

func (f *fleet) tell(r *replica) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r.stopping = true
}

// endLimit bounds how long a replica may take to end in order.
const endLimit = 30 * time.Second

// terminate ends a replica in order.
func (f *fleet) terminate(r *replica) error {
	f.tell(r)
	return r.Terminate(endLimit)
}

// end ends all replicas in order.
func (f *fleet) end() error {
	var wg sync.WaitGroup
	running := f.running()
	errs := make([]error, len(running))
	for i, r := range running {
		wg.Go(func() { errs[i] = f.terminate(r) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// abandon kills what still runs. It is for the way out.
func (f *fleet) abandon() {
	for _, r := range f.running() {
		f.kill(r)
	}
}

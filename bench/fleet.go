package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"sync"
	"time"
)

// fleet is the replicas of a stage's group, each in a process of its own, and what their logs say of them. Its methods may be
// called from several goroutines.
type fleet struct {
	s        *stage
	standbys int
	lanes    int

	mu       sync.Mutex
	replicas []*replica // every one that was started
	seats    map[int32]seat
}

// seat is who has a partition.
type seat struct {
	owner *replica
	live  time.Time // since when it is live there
}

// replica is one child process.
type replica struct {
	config  replicaConfig
	cmd     *exec.Cmd
	stdin   io.Closer
	started time.Time
	exited  chan struct{} // closed when it has ended; err is set before

	// Guarded by the fleet's mu.
	err       error
	stopping  bool // it was told to end, or killed
	assigned  []time.Time
	revoked   []time.Time
	fenced    []time.Time
	restored  map[int32]time.Time // by partition: when its catch-up began
	counts    counts
	countedAt time.Time
	lastWords string // what it has warned of last
}

func (s *stage) fleet(lanes, standbys int) *fleet {
	return &fleet{s: s, lanes: lanes, standbys: standbys, seats: map[int32]seat{}}
}

// start starts a replica with a state directory, which one that has ended may have left.
func (f *fleet) start(dir string) (*replica, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := &replica{
		config: replicaConfig{
			Group: f.s.group, Instance: fmt.Sprintf("%s-%d", f.s.r.id[len(namePrefix):], len(f.replicas)), StateDir: dir,
			Topics: f.s.delays, Target: f.s.target, DeadLetter: f.s.dead, Lanes: f.lanes, Standbys: f.standbys, SessionTimeout: f.s.r.o.session,
		},
		cmd: f.s.r.o.Replica(), exited: make(chan struct{}), restored: map[int32]time.Time{}, started: time.Now(),
	}
	if err := f.launch(r); err != nil {
		return nil, fmt.Errorf("start a replica: %w", err)
	}
	f.replicas = append(f.replicas, r)
	return r, nil
}

func (f *fleet) launch(r *replica) error {
	detach(r.cmd)
	stdin, err := r.cmd.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := r.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	errs := &lastLine{}
	r.cmd.Stderr = errs
	if err := r.cmd.Start(); err != nil {
		return err
	}
	r.stdin = stdin
	go func() {
		defer close(r.exited)
		f.listen(r, stdout)
		err := r.cmd.Wait()
		f.mu.Lock()
		defer f.mu.Unlock()
		if err != nil {
			err = fmt.Errorf("%w %s", err, errs)
		}
		r.err = err
	}()
	return json.NewEncoder(stdin).Encode(r.config)
}

// startNew starts n replicas with nothing in their state directories.
func (f *fleet) startNew(n int) error {
	for range n {
		if err := f.s.newDir(); err != nil {
			return err
		}
		if _, err := f.start(f.s.dir); err != nil {
			return err
		}
	}
	return nil
}

// logLine is what is of interest in a line of a replica's log.
type logLine struct {
	Time      time.Time
	Level     slog.Level
	Msg       string
	Partition *int32
	Error     string
	Counts    counts
}

// listen reads a replica's log until it ends.
func (f *fleet) listen(r *replica, out io.Reader) {
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		var l logLine
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			l = logLine{Time: time.Now(), Level: slog.LevelError, Msg: lines.Text()}
		}
		if l.Msg != msgCounts {
			f.s.r.o.Logger.Log(context.Background(), l.Level, "replica", "name", r.config.Instance, "line", lines.Text())
		}
		f.note(r, &l)
	}
}

func (f *fleet) note(r *replica, l *logLine) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch l.Msg {
	case msgAssigned:
		r.assigned = append(r.assigned, l.Time)
	case msgRevoked:
		r.revoked = append(r.revoked, l.Time)
	case msgFencing:
		r.fenced = append(r.fenced, l.Time)
	case msgCounts:
		r.counts, r.countedAt = l.Counts, l.Time
	case msgRestored:
		if l.Partition != nil {
			r.restored[*l.Partition] = l.Time
		}
	case msgLive:
		if l.Partition != nil {
			f.seats[*l.Partition] = seat{owner: r, live: l.Time}
		}
	default:
		if l.Level >= slog.LevelWarn {
			r.lastWords = l.Msg + ": " + l.Error
		}
	}
}

// broken is an error when a replica has ended that was not told to.
func (f *fleet) broken() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.replicas {
		select {
		case <-r.exited:
			if !r.stopping {
				return fmt.Errorf("replica %s has ended by itself: %w", r.config.Instance, cmpErr(r.err, errors.New("without an error")))
			}
		default:
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
			errs = append(errs, fmt.Errorf("replica %s: %s", r.config.Instance, r.lastWords))
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
func (f *fleet) sum(after time.Time, of func(counts) int64) (n int64, all bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	all = true
	for _, r := range f.runningLocked() {
		all = all && r.countedAt.After(after)
		n += of(r.counts)
	}
	return n, all
}

// owners says who has which partition.
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
		for _, times := range [][]time.Time{r.assigned, r.revoked} {
			if n := len(times); n > 0 && times[n-1].After(moved) {
				moved = times[n-1]
			}
		}
	}
	for _, s := range f.seats {
		if s.live.After(moved) {
			moved = s.live
		}
	}
	return live, share, moved
}

// liveElsewhere says how many of some partitions have become live after a moment at a replica other than the given one, and when
// the last of them did.
func (f *fleet) liveElsewhere(parts []int32, than *replica, after time.Time) (n int64, last time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range parts {
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

// restoredAfter is when the catch-up of the first of some partitions began after a moment.
func (f *fleet) restoredAfter(parts []int32, after time.Time) (first time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.runningLocked() {
		for _, p := range parts {
			if t := r.restored[p]; t.After(after) && (first.IsZero() || t.Before(first)) {
				first = t
			}
		}
	}
	return first
}

// firstAfter is the earliest time after a moment, zero when there is none.
func firstAfter(times []time.Time, after time.Time) time.Time {
	for _, t := range times {
		if t.After(after) {
			return t
		}
	}
	return time.Time{}
}

// assignedAfter is when a running replica was first assigned something after a moment.
func (f *fleet) assignedAfter(after time.Time) (first time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.runningLocked() {
		if t := firstAfter(r.assigned, after); !t.IsZero() && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	return first
}

// kill ends a replica at once and waits until it is gone.
func (f *fleet) kill(r *replica) {
	f.tell(r)
	_ = r.cmd.Process.Kill() // an error says that it has ended already
	<-r.exited
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
	if err := terminate(r.cmd.Process); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("end replica %s: %w", r.config.Instance, err)
	}
	select {
	case <-r.exited:
	case <-time.After(endLimit):
		f.kill(r)
		return fmt.Errorf("replica %s did not end within %v", r.config.Instance, endLimit)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.err != nil {
		return fmt.Errorf("replica %s: %w", r.config.Instance, r.err)
	}
	return nil
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

// lastLine keeps the end of what is written to it.
type lastLine struct {
	mu sync.Mutex
	b  []byte
}

func (l *lastLine) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.b = append(l.b, b...)
	l.b = l.b[max(0, len(l.b)-1000):]
	return len(b), nil
}

func (l *lastLine) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.b)
}

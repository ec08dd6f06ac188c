package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/duewheel/duewheel/bench/check"
	"github.com/duewheel/duewheel/processor"
	"github.com/duewheel/duewheel/topics"
)

// stage is where one measurement plays: delay topics that hold the requests, and the target, dead
// letter topic and group of one processor.
type stage struct {
	r          *runner
	name       string
	delays     []string
	partitions int      // of all delay topics together
	targets    []string // the first is the default
	dead       string
	keys       int // how many there are; 0: records have none
	emit       topics.Emit
	far        int    // requests that are due only hours later
	ids        bool   // each request has one
	to         string // where all requests ask for; empty: to the targets in turn
	group      string
	change     func(*processor.Config) // of every processor; nil: nothing
}

// shape is what targets there are: so many topics of so many partitions.
type shape struct{ topics, partitions int }

func (s shape) String() string { return fmt.Sprintf("%d × %d", s.topics, s.partitions) }

// newStage makes delay topics, each with so many partitions, a target, and what else a processor needs.
func (r *runner) newStage(ctx context.Context, name string, delays, partitions int) (*stage, error) {
	return r.newStageFor(ctx, name, delays, partitions, shape{1, r.o.targets})
}

func (r *runner) newStageFor(ctx context.Context, name string, delays, partitions int, targets shape) (s *stage, err error) {
	r.stages++
	s = &stage{r: r, name: fmt.Sprintf("%s-%d-%s", r.id, r.stages, name), partitions: delays * partitions}
	s.group = s.name + ".run"
	s.dead = s.group + ".dead"
	if s.delays, err = r.newTopics(ctx, s.name, delays, partitions); err != nil {
		return nil, err
	}
	r.made = append(r.made, made{group: s.group})
	if s.targets, err = r.newTopics(ctx, s.group+".out", targets.topics, targets.partitions); err != nil {
		return nil, err
	}
	return s, r.newTopic(ctx, s.dead, 1)
}

// running is a processor at work.
type running struct {
	*processor.Processor
	s      *stage
	cancel context.CancelFunc
	done   chan struct{} // closed when Run has returned
	err    error         // what it returned; set before done is closed
}

// start starts a processor with an empty state directory. The garbage of whatever ran before is collected first.
func (s *stage) start(ctx context.Context, change func(*processor.Config)) (*running, error) {
	dir, err := s.r.newDir()
	if err != nil {
		return nil, err
	}
	cfg := processor.Config{Client: s.r.o.Client, Group: s.group, Lanes: s.r.o.Lanes, StateDir: dir, Logger: s.r.o.Logger}
	for _, topic := range s.delays {
		cfg.Routes = append(cfg.Routes, route(topic, s.targets, s.dead, s.emit))
	}
	for _, change := range []func(*processor.Config){s.change, change} {
		if change != nil {
			change(&cfg)
		}
	}
	p, err := processor.New(cfg)
	if err != nil {
		return nil, err
	}
	runtime.GC()
	ctx, cancel := context.WithCancel(ctx)
	run := &running{Processor: p, s: s, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(run.done)
		run.err = p.Run(ctx)
	}()
	return run, nil
}

// play is one run of a processor: it is started, and does what is to be done when all its partitions are live; then it ends, and every
// record is judged. It returns what is to be said of them.
func (s *stage) play(ctx context.Context, change func(*processor.Config), meanwhile func(*running) error) (checked string, err error) {
	p, err := s.start(ctx, change)
	if err != nil {
		return "", err
	}
	if err = p.ready(ctx); err == nil {
		err = meanwhile(p)
	}
	if err = errors.Join(err, p.stop()); err != nil {
		return "", err
	}
	return s.check(ctx)
}

// playSeen is play before an observer.
func (s *stage) playSeen(ctx context.Context, change func(*processor.Config), meanwhile func(*running, *observer) error) (checked string, err error) {
	o, err := s.observe(ctx, false)
	if err != nil {
		return "", err
	}
	checked, err = s.play(ctx, change, func(p *running) error { return meanwhile(p, o) })
	return checked, errors.Join(err, o.end())
}

// stop ends the processor and returns what it ended with.
func (p *running) stop() error {
	p.cancel()
	<-p.done
	return p.err
}

// accepted and delivered are how many records were, in all delay topics.
func (p *running) accepted() int64 {
	return total(p.Stats().Topics, func(t processor.TopicStats) int64 { return t.Accepted })
}

func (p *running) delivered() int64 {
	return total(p.Stats().Topics, func(t processor.TopicStats) int64 { return t.Delivered })
}

// pending and near are how many records are accepted and not delivered, and how many of them are held in memory, as
// told a few times a second.
func (p *running) pending() int64 {
	return total(p.Stats().Partitions, func(ps processor.PartitionStats) int64 { return ps.Pending })
}

func (p *running) near() int64 {
	return total(p.Stats().Partitions, func(ps processor.PartitionStats) int64 { return ps.Near })
}

func total[T any](all []T, of func(T) int64) (n int64) {
	for _, one := range all {
		n += of(one)
	}
	return n
}

// live is how many partitions are delivering.
func (p *running) live() (n int64) {
	for _, ps := range p.Stats().Partitions {
		if ps.Phase == processor.PhaseLive {
			n++
		}
	}
	return n
}

// ready waits until every partition of the delay topics is live, and the group has settled: every lane has its share.
func (p *running) ready(ctx context.Context) error {
	lanes := min(p.Stats().Lanes, p.s.partitions)
	if err := p.until(ctx, "lanes with partitions", int64(lanes), p.busyLanes); err != nil {
		return err
	}
	return p.until(ctx, "partitions live", int64(p.s.partitions), p.live)
}

func (p *running) busyLanes() int64 {
	lanes := map[int]bool{}
	for _, ps := range p.Stats().Partitions {
		lanes[ps.Lane] = true
	}
	return int64(len(lanes))
}

const (
	lookEvery = 5 * time.Millisecond // costs less than one percent of a core
	tellEvery = 2 * time.Second
	stuck     = time.Minute           // longer than any rebalance or transaction takes
	slowRead  = 10 * time.Microsecond // and for each pending record longer than a rebuild takes, where no partition is live before all nearly are
)

// until waits until count has come to want. It ends with an error when the processor ends, or when nothing
// moves for a long time.
func (p *running) until(ctx context.Context, what string, want int64, count func() int64) error {
	return p.s.r.until(ctx, what, want, count, func() error {
		select {
		case <-p.done:
			return errors.Join(errors.New("the processor has ended"), p.err)
		default:
			return nil
		}
	})
}

// until waits until count has come to want. It ends with an error when broken does, or when nothing moves for longer than it takes to read what is pending.
func (r *runner) until(ctx context.Context, what string, want int64, count func() int64, broken func() error) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	n, moved, told, patience := int64(0), time.Now(), time.Now(), stuck+time.Duration(r.o.Pending)*slowRead
	for {
		now := count()
		if now >= want {
			return nil
		}
		if now != n {
			n, moved = now, time.Now()
		}
		if time.Since(told) >= tellEvery {
			told = time.Now()
			r.progress("  %s of %s %s", thousands(n), thousands(want), what)
		}
		if err := broken(); err != nil {
			return fmt.Errorf("%d of %d %s: %w", now, want, what, err)
		}
		if time.Since(moved) > patience {
			return fmt.Errorf("%d of %d %s, and none more within %v", n, want, what, patience)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// check has every record judged. It returns what is to be said of them, or the faults as an error.
func (s *stage) check(ctx context.Context) (string, error) {
	report, err := s.report(ctx, func(*check.Config) {})
	if err != nil {
		return "", err
	}
	if report.DeadLettered > 0 || report.Later != int64(s.far) || report.Delivered+report.Later != report.Requested {
		return "", fmt.Errorf("of %d requests, %d of them due hours later, %d were delivered and %d dead-lettered", report.Requested, s.far, report.Delivered, report.DeadLettered)
	}
	checked := fmt.Sprintf("%s records: each delivered once, none early, altered or out of order", thousands(report.Delivered))
	if s.far > 0 {
		checked += fmt.Sprintf("; %s more still pending, and counted as such by the replicas", thousands(report.Later))
	}
	return checked, nil
}

// report has every record judged, and returns the faults as an error.
func (s *stage) report(ctx context.Context, change func(*check.Config)) (*check.Report, error) {
	config := s.checks()
	change(&config)
	report, err := check.Read(ctx, config, s.r.o.Client...)
	if err != nil {
		return nil, fmt.Errorf("check the records: %w", err)
	}
	return report, report.Err()
}

// checks is what the checker is told.
func (s *stage) checks() check.Config {
	config := check.Config{Until: time.Now()}
	for _, target := range s.targets {
		config.Targets = append(config.Targets, check.Target{Topic: target})
	}
	for _, topic := range s.delays {
		config.Routes = append(config.Routes, check.Route{Topic: topic, Target: s.targets[0], Allow: s.targets, DeadLetter: s.dead, Emit: s.emit.String()})
	}
	return config
}

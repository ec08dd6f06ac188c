package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

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
	shape      shape
	keys       int // how many there are; 0: records have none
	emit       topics.Emit
	far        int // requests that are due only hours later
	group      string
	dir        string // of the processor's state
}

// shape is what targets there are: so many topics of so many partitions.
type shape struct{ topics, partitions int }

func (s shape) String() string { return fmt.Sprintf("%d × %d", s.topics, s.partitions) }

// newStage makes delay topics, each with so many partitions, a target, and what else a processor needs.
func (r *runner) newStage(ctx context.Context, name string, delays, partitions int) (*stage, error) {
	return r.newStageFor(ctx, name, delays, partitions, shape{1, r.o.targets})
}

func (r *runner) newStageFor(ctx context.Context, name string, delays, partitions int, targets shape) (*stage, error) {
	r.stages++
	s := &stage{r: r, name: fmt.Sprintf("%s-%d-%s", r.id, r.stages, name), partitions: delays * partitions, shape: targets}
	for i := range delays {
		topic := s.name
		if delays > 1 {
			topic += "-" + strconv.Itoa(i)
		}
		if err := r.newTopic(ctx, topic, partitions); err != nil {
			return nil, err
		}
		s.delays = append(s.delays, topic)
	}
	return s, s.afresh(ctx, "run")
}

// afresh gives the stage another target, dead letter topic, group and state directory: a processor that
// starts now knows nothing of one before, and takes in all requests once more.
func (s *stage) afresh(ctx context.Context, run string) error {
	s.group = s.name + "." + run
	s.targets, s.dead = nil, s.group+".dead"
	s.r.made = append(s.r.made, made{group: s.group})
	if err := s.newDir(); err != nil {
		return err
	}
	for i := range s.shape.topics {
		target := s.group + ".out"
		if i > 0 {
			target += "-" + strconv.Itoa(i)
		}
		if err := s.r.newTopic(ctx, target, s.shape.partitions); err != nil {
			return err
		}
		s.targets = append(s.targets, target)
	}
	return s.r.newTopic(ctx, s.dead, 1)
}

// newDir makes an empty state directory.
func (s *stage) newDir() (err error) {
	if s.dir, err = os.MkdirTemp(s.r.o.Dir, "duewheel-bench-"); err != nil {
		return fmt.Errorf("make a state directory: %w", err)
	}
	s.r.made = append(s.r.made, made{dir: s.dir})
	return nil
}

// newTopic makes a topic with the durability that `duewheel topics create` gives to delay topics, and
// waits until it can be used.
func (r *runner) newTopic(ctx context.Context, topic string, partitions int) error {
	md, err := r.adm.BrokerMetadata(ctx)
	if err != nil {
		return fmt.Errorf("list brokers: %w", err)
	}
	replicas := min(3, len(md.Brokers))
	insync := "1"
	if replicas >= 3 {
		insync = "2"
	}
	r.made = append(r.made, made{topic: topic})
	// What has begun is waited for, whether ctx ends or not: a broker that does not know of a topic yet does not delete it
	// either, and it would be left behind.
	making, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanLimit)
	defer cancel()
	_, err = r.adm.CreateTopic(making, int32(partitions), int16(replicas), map[string]*string{
		"cleanup.policy": kadm.StringPtr("delete"), "retention.ms": kadm.StringPtr("-1"), "min.insync.replicas": &insync,
	}, topic)
	if err != nil {
		return fmt.Errorf("make topic %s: %w", topic, err)
	}
	for {
		offsets, err := r.adm.ListEndOffsets(making, topic)
		if err == nil && offsets.Error() == nil && len(offsets[topic]) == partitions {
			return ctx.Err()
		}
		if !sleep(making, 20*time.Millisecond) {
			return fmt.Errorf("wait for topic %s: %w", topic, making.Err())
		}
	}
}

// running is a processor at work.
type running struct {
	*processor.Processor
	s      *stage
	cancel context.CancelFunc
	done   chan struct{} // closed when Run has returned
	err    error         // what it returned; set before done is closed
}

// start starts a processor. The garbage of whatever ran before is collected first.
func (s *stage) start(ctx context.Context, change func(*processor.Config)) (*running, error) {
	cfg := processor.Config{Client: s.r.o.Client, Group: s.group, Lanes: s.r.o.Lanes, StateDir: s.dir, Logger: s.r.o.Logger}
	for _, topic := range s.delays {
		cfg.Routes = append(cfg.Routes, route(topic, s.targets, s.dead, s.emit))
	}
	change(&cfg)
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

// stop ends the processor and returns what it ended with. It may be called again.
func (p *running) stop() error {
	p.cancel()
	<-p.done
	return p.err
}

// accepted and delivered are how many records were, in all delay topics.
func (p *running) accepted() (n int64) {
	for _, t := range p.Stats().Topics {
		n += t.Accepted
	}
	return n
}

func (p *running) delivered() (n int64) {
	for _, t := range p.Stats().Topics {
		n += t.Delivered
	}
	return n
}

// pending and near are how many records are accepted and not delivered, and how many of them are held in memory, as
// told a few times a second.
func (p *running) pending() (n int64) {
	for _, ps := range p.Stats().Partitions {
		n += ps.Pending
	}
	return n
}

func (p *running) near() (n int64) {
	for _, ps := range p.Stats().Partitions {
		n += ps.Near
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
	stuck     = time.Minute // longer than any rebalance or transaction takes
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

// until waits until count has come to want. It ends with an error when broken does, or when nothing moves for a long time.
func (r *runner) until(ctx context.Context, what string, want int64, count func() int64, broken func() error) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	n, moved, told := int64(0), time.Now(), time.Now()
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
		if time.Since(moved) > stuck {
			return fmt.Errorf("%d of %d %s, and none more within %v", n, want, what, stuck)
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
	config := check.Config{Until: time.Now()}
	for _, target := range s.targets {
		config.Targets = append(config.Targets, check.Target{Topic: target})
	}
	for _, topic := range s.delays {
		config.Routes = append(config.Routes, check.Route{Topic: topic, Target: s.targets[0], Allow: s.targets, DeadLetter: s.dead, Emit: s.emit.String()})
	}
	report, err := check.Read(ctx, config, s.r.o.Client...)
	if err != nil {
		return "", fmt.Errorf("check the records: %w", err)
	}
	if err := report.Err(); err != nil {
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

// client makes one with further options.
func (r *runner) client(more ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append(r.o.Client[:len(r.o.Client):len(r.o.Client)], more...)...)
}

// targetReader makes a read_committed consumer of the targets, from their beginning.
func (s *stage) targetReader() (*kgo.Client, error) {
	return s.r.client(
		kgo.ConsumeTopics(s.targets...),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
	)
}

// Package bench measures duewheel on a real cluster: throughput against a plain copy loop, what
// is written for each delayed record, lateness at a steady rate, and what happens when very many
// records are due at one instant.
//
// A case makes topics and a consumer group of its own, runs a processor in this process, checks
// every record with the checker, and deletes what it made. Where two things are compared they are
// measured in the same run, one after the other, because machines differ more than programs do.
package bench

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/integration/check"
	"github.com/duewheel/duewheel/processor"
	"github.com/duewheel/duewheel/topics"
)

// Options are what a run of the benchmark needs to know.
type Options struct {
	Client     []kgo.Opt // brokers, TLS, SASL
	Cases      []string  // names; nil: all
	Records    int       // of a throughput case; defaults to 1,000,000
	Partitions int       // of every topic; defaults to 4
	Lanes      int       // defaults to the processor's default
	Seconds    int       // of a lateness case; defaults to 20
	Progress   io.Writer // nil: silent
	Logger     *slog.Logger
}

// Result is one line of the table.
type Result struct {
	Case     string             `json:"case"`
	What     string             `json:"what"`
	Figures  map[string]float64 `json:"figures"`
	Measured string             `json:"measured"`
	Goal     string             `json:"goal"`
	Met      bool               `json:"met"`
	Checked  string             `json:"checked"` // what the checker says
}

// runner holds what the cases share.
type runner struct {
	o   Options
	cl  *kgo.Client
	adm *kadm.Client
	id  string
}

// Cases names every case in the order in which they run.
func Cases() []string {
	return []string{"throughput", "store", "writes", "lateness", "lateness-alo", "instant"}
}

// Run runs the cases and returns what they measured. An error of one does not keep the others
// from running.
func Run(ctx context.Context, o Options) ([]Result, error) {
	if o.Records == 0 {
		o.Records = 1_000_000
	}
	if o.Partitions == 0 {
		o.Partitions = 4
	}
	if o.Seconds == 0 {
		o.Seconds = 20
	}
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Cases == nil {
		o.Cases = Cases()
	}
	cl, err := kgo.NewClient(o.Client...)
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	r := &runner{o: o, cl: cl, adm: kadm.NewClient(cl), id: "bench-" + strings.ToLower(rand.Text()[:6])}
	var results []Result
	var errs []error
	for _, name := range o.Cases {
		rs, err := r.run(ctx, name)
		results = append(results, rs...)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
	}
	return results, errors.Join(errs...)
}

func (r *runner) run(ctx context.Context, name string) ([]Result, error) {
	switch name {
	case "throughput":
		return r.throughput(ctx, false)
	case "store":
		return r.throughput(ctx, true)
	case "lateness":
		return r.lateness(ctx, processor.ExactlyOnce)
	case "lateness-alo":
		return r.lateness(ctx, processor.AtLeastOnce)
	case "instant":
		return r.instant(ctx)
	}
	return nil, fmt.Errorf("no such case; there are %s", strings.Join(Cases(), ", "))
}

// progress tells the person who waits.
func (r *runner) progress(format string, args ...any) {
	fmt.Fprintf(r.o.Progress, format+"\n", args...)
}

// stage is a set of topics and a group for one measurement.
type stage struct {
	r                   *runner
	delay, target, dead string
	group               string
	dir                 string
}

func (r *runner) stage(ctx context.Context, name string) (*stage, func(), error) {
	base := r.id + "-" + name
	s := &stage{r: r, delay: base, target: base + ".out", dead: base + ".dead", group: base}
	for _, t := range []string{s.delay, s.target, s.dead} {
		cfg := map[string]*string{"retention.ms": kadm.StringPtr("-1")}
		if _, err := r.adm.CreateTopic(ctx, int32(r.o.Partitions), -1, cfg, t); err != nil {
			return nil, nil, fmt.Errorf("make topic %s: %w", t, err)
		}
	}
	dir, err := os.MkdirTemp("", "duewheel-bench-")
	if err != nil {
		return nil, nil, err
	}
	s.dir = dir
	return s, func() {
		ctx := context.WithoutCancel(ctx)
		r.adm.DeleteTopics(ctx, s.delay, s.target, s.dead)
		r.adm.DeleteGroups(ctx, s.group)
		os.RemoveAll(dir)
	}, nil
}

// processor starts a processor for the stage; stop ends it.
func (s *stage) processor(ctx context.Context, change func(*processor.Config)) (p *processor.Processor, stop func() error, err error) {
	cfg := processor.Config{
		Client: s.r.o.Client, Group: s.group, Lanes: s.r.o.Lanes, StateDir: s.dir, Logger: s.r.o.Logger,
		Routes: []topics.Route{{Topic: s.delay, Target: s.target, DeadLetter: s.dead, EmitHeaders: true, MaxDelay: 24 * time.Hour}},
	}
	if change != nil {
		change(&cfg)
	}
	if p, err = processor.New(cfg); err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	return p, func() error { cancel(); return <-done }, nil
}

// ready waits until every partition of the stage is live.
func (s *stage) ready(ctx context.Context, p *processor.Processor) error {
	return waitFor(ctx, func() bool {
		ok, _ := p.Ready()
		live := 0
		for _, ps := range p.Stats().Partitions {
			if ps.Phase == processor.PhaseLive {
				live++
			}
		}
		return ok && live == s.r.o.Partitions
	})
}

// checkAll reads every topic of the stage once more and judges every record.
func (s *stage) checkAll(ctx context.Context) (string, error) {
	report, err := check.Read(ctx, check.Config{
		Routes:  []check.Route{{Topic: s.delay, Target: s.target, DeadLetter: s.dead}},
		Targets: []check.Target{{Topic: s.target}},
	}, s.r.o.Client...)
	if err != nil {
		return "", err
	}
	if err := report.Err(); err != nil {
		return report.String(), err
	}
	return report.String(), nil
}

func waitFor(ctx context.Context, done func() bool) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// fill writes n requests of 100 bytes, due as due says, as fast as the cluster takes them.
func (s *stage) fill(ctx context.Context, n int, due func(i int) int64) error {
	cl, err := kgo.NewClient(append(s.r.o.Client[:len(s.r.o.Client):len(s.r.o.Client)],
		kgo.RecordPartitioner(kgo.RoundRobinPartitioner()), kgo.ProducerLinger(5*time.Millisecond))...)
	if err != nil {
		return err
	}
	defer cl.Close()
	value := []byte(strings.Repeat("v", 100))
	var failed error
	for i := range n {
		cl.Produce(ctx, &kgo.Record{
			Topic: s.delay, Value: value,
			Headers: []kgo.RecordHeader{{Key: "delay-until", Value: strconv.AppendInt(nil, due(i), 10)}},
		}, func(_ *kgo.Record, err error) {
			if err != nil && failed == nil {
				failed = err
			}
		})
	}
	return errors.Join(cl.Flush(ctx), failed)
}

// delivered is how many records of a topic a read_committed consumer could see, with the markers
// between them.
func (r *runner) ends(ctx context.Context, topic string) (int64, error) {
	offs, err := r.adm.ListCommittedOffsets(ctx, topic)
	if err != nil {
		return 0, err
	}
	var sum int64
	offs.Each(func(o kadm.ListedOffset) { sum += o.Offset })
	return sum, offs.Error()
}

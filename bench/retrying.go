package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/bench/check"
	"github.com/duewheel/duewheel/processor"
	"github.com/duewheel/duewheel/topics"
)

// retryAttempts is how often each record of the case retry is delivered again.
const retryAttempts = 3

// retrying measures a retry route before a consumer that fails everything: each record fails once, and at each of its attempts, and is parked.
func retrying(ctx context.Context, r *runner) (results []Result, err error) {
	return retryingAs(ctx, r, "retry", "")
}

// retryingDLQ is the same where failures are written as the dead letter queue of a sink of Kafka Connect is: with headers that say why, and a timestamp of the
// original, so that each is written once more; and what is parked has a topic of its own.
func retryingDLQ(ctx context.Context, r *runner) (results []Result, err error) {
	return retryingAs(ctx, r, "retry-dlq", strings.Repeat("at org.example. ", 4096/16))
}

func retryingAs(ctx context.Context, r *runner, name, stackTrace string) (results []Result, err error) {
	s, err := r.newStage(ctx, name, 1, r.o.Partitions)
	if err != nil {
		return nil, err
	}
	kind, said, parking := "LogAppendTime", "", ""
	if stackTrace != "" {
		kind, said = "CreateTime", "with 4 kB of headers that say why and a timestamp of a day ago, "
		parking = s.name + ".parked"
		if err := r.newTopic(ctx, parking, r.o.Partitions); err != nil {
			return nil, err
		}
	}
	if _, err := r.adm.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "message.timestamp.type", Value: &kind}}, s.delays...); err != nil {
		return nil, fmt.Errorf("configure %s: %w", s.delays[0], err)
	}
	f := &failing{s: s, into: s.delays[0], stackTrace: stackTrace, warm: time.Duration(retryAttempts+1)*r.o.pause + r.o.For/4}
	backoff := topics.Backoff{Initial: r.o.pause, Factor: 1, Max: r.o.pause}
	checked, err := f.play(ctx, func(c *processor.Config) {
		c.Routes[0].Retry = &topics.Retrying{Backoff: backoff, MaxAttempts: retryAttempts, Parking: parking, Strip: topics.ErrorHeaders}
	})
	if err != nil {
		return nil, err
	}
	if len(f.late) == 0 {
		return nil, errors.New("too short: no retry was due in the measurement")
	}
	late := summarize(f.late)
	figures := late.figures()
	figures["failures_per_s"] = f.rose / r.o.For.Seconds()
	figures["kept_up"] = figures["failures_per_s"] / float64(r.o.Rate)
	return []Result{{
		Case: name,
		What: fmt.Sprintf("A retry route with a backoff of %v, %d attempts and message.timestamp.type %s, in %d partitions, and a consumer that fails to process whatever it gets, and writes it %sto the route: %s new records of 100 B a second fail, "+
			"and come back %d times each before they are parked, %s failures a second in all if the route keeps up. How many failures are written in %v after a warm-up, and when the poll of the consumer, in the same process, returns a record, less "+
			"its due time, over every record of that time. exactly_once, defaults otherwise.",
			r.o.pause, retryAttempts, kind, r.o.Partitions, said, thousands(int64(r.o.Rate/(retryAttempts+1))), retryAttempts, thousands(int64(r.o.Rate)), r.o.For),
		Measured: fmt.Sprintf("%s failures/s, %.2f of those meant; %s", thousands(int64(math.Round(figures["failures_per_s"]))), figures["kept_up"], late),
		Figures:  figures, Checked: checked,
	}}, nil
}

// failing is a consumer that fails, and writes what it gets to a retry topic.
type failing struct {
	s          *stage
	into       string
	stackTrace string // a header of what it writes; "": it writes what it gets
	warm       time.Duration
	cl         *kgo.Client

	from, until time.Time // of the measurement
	failures    atomic.Int64
	rose        float64      // by how much, in the measurement
	largest     atomic.Int64 // size of what has come back
	broken      atomic.Pointer[error]

	mu   sync.Mutex
	late []time.Duration
}

// play lets records fail until all are parked.
func (f *failing) play(ctx context.Context, change func(*processor.Config)) (checked string, err error) {
	r := f.s.r
	n := 0
	var route topics.Route
	p, err := f.s.start(ctx, func(c *processor.Config) { change(c); route = c.Routes[0] })
	if err != nil {
		return "", err
	}
	if err = p.ready(ctx); err == nil {
		n, err = f.run(ctx, p)
	}
	if err = errors.Join(err, p.stop()); err != nil {
		return "", err
	}
	b := route.Retry.Backoff
	report, err := f.s.report(ctx, func(c *check.Config) {
		c.Routes[0].Retry = &check.Retry{Initial: b.Initial, Max: b.Max, Factor: b.Factor, Jitter: b.Jitter, MaxAttempts: int64(route.Retry.MaxAttempts),
			Parking: route.Retry.Parking, Strip: route.Retry.Strip}
	})
	if err != nil {
		return "", err
	}
	if all := int64(n); report.Parked != all || report.DeadLettered != all || report.Delivered != retryAttempts*all {
		return "", fmt.Errorf("of %d records, which fail %d times, %d were delivered and %d parked; %d were dead-lettered in all", n, retryAttempts+1, report.Delivered, report.Parked, report.DeadLettered)
	}
	if largest := f.largest.Load(); largest > 1000 {
		return "", fmt.Errorf("a record of 100 B has come back with %d", largest)
	}
	r.progress("retry: all %s were parked", thousands(int64(n)))
	return fmt.Sprintf("%s records: each delivered %d times, none early, altered or out of order, with the number of its attempt, and then parked", thousands(int64(n)), retryAttempts), nil
}

// run writes the new failures, and returns how many when all that came of them is parked.
func (f *failing) run(ctx context.Context, p *running) (n int, err error) {
	r := f.s.r
	if f.cl, err = r.client(kgo.ConsumeTopics(f.s.targets...), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.RecordPartitioner(kgo.RoundRobinPartitioner()), kgo.ProducerLinger(2*time.Millisecond)); err != nil {
		return 0, err
	}
	defer f.cl.Close()
	consuming, stop := context.WithCancel(ctx)
	f.from = time.Now().Add(f.warm)
	f.until = f.from.Add(r.o.For)
	var wg sync.WaitGroup
	wg.Go(func() {
		for consuming.Err() == nil {
			fetches := f.cl.PollFetches(consuming)
			now := time.Now()
			fetches.EachRecord(func(rec *kgo.Record) { f.take(ctx, rec, now) })
		}
	})
	wg.Go(func() {
		rises, err := (schedule{first: f.from, rate: r.o.Rate, in: int(float64(r.o.Rate) * r.o.For.Seconds())}).rises(ctx, func() float64 { return float64(f.failures.Load()) })
		if err == nil {
			f.rose = rises[0]
		}
	})
	r.progress("retry: %s failures/s for %v, after a warm-up", thousands(int64(r.o.Rate)), r.o.For)
	n, err = f.renew(ctx)
	if err == nil {
		err = p.until(ctx, "parked", int64(n), func() int64 {
			return total(p.Stats().DeadLetters, func(d processor.DeadLetterStats) int64 { return d.Records })
		})
	}
	stop()
	wg.Wait()
	if broken := f.broken.Load(); broken != nil {
		err = errors.Join(*broken, err)
	}
	return n, err
}

// renew has new records fail, at a steady rate, until the measurement has ended.
func (f *failing) renew(ctx context.Context) (n int, err error) {
	w, err := f.s.newWriter()
	if err != nil {
		return 0, err
	}
	defer w.cl.Close()
	steadily, stop := context.WithDeadline(ctx, f.until)
	defer stop()
	rate := max(f.s.r.o.Rate/(retryAttempts+1), 1)
	return w.paced(steadily, ctx, rate, math.MaxInt, func(i int) stamp { return stamp{index: uint32(i)} }, func(int) { f.failures.Add(1) })
}

// take fails to process a record.
func (f *failing) take(ctx context.Context, rec *kgo.Record, now time.Time) {
	again := &kgo.Record{Topic: f.into, Key: rec.Key, Value: rec.Value, Headers: slices.Clone(rec.Headers)}
	if size := int64(topics.RecordSize(rec.Key, rec.Value, rec.Headers)); size > f.largest.Load() { // it alone writes there
		f.largest.Store(size)
	}
	if f.stackTrace != "" {
		again.Timestamp = now.AddDate(0, 0, -1)
		again.Headers = append(again.Headers, kgo.RecordHeader{Key: "__connect.errors.topic", Value: []byte(rec.Topic)},
			kgo.RecordHeader{Key: "__connect.errors.exception.stacktrace", Value: []byte(f.stackTrace)})
	}
	for _, h := range rec.Headers {
		if h.Key != topics.HeaderDue {
			continue
		}
		due, err := strconv.ParseInt(string(h.Value), 10, 64)
		if err != nil {
			f.broken.CompareAndSwap(nil, &err)
		}
		if at := time.UnixMilli(due); !at.Before(f.from) && at.Before(f.until) {
			f.mu.Lock()
			f.late = append(f.late, now.Sub(at))
			f.mu.Unlock()
		}
	}
	f.cl.Produce(ctx, again, func(_ *kgo.Record, err error) {
		if err != nil {
			f.broken.CompareAndSwap(nil, &err)
			return
		}
		f.failures.Add(1)
	})
}

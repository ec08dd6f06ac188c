package check

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// These errors can be returned by a Watch.
var (
	// ErrWaiting means that the deadline passed while records were outstanding.
	ErrWaiting = errors.New("check: still waiting")
	// ErrLostSight means that a topic was trimmed, or made anew, before the watch had read it.
	ErrLostSight = errors.New("check: records are gone that were not read yet")
)

// Watch reads the topics of a Config from their beginnings as a read_committed consumer, in the background. Its methods may be
// called from several goroutines.
type Watch struct {
	config Config
	opts   []kgo.Opt
	client *kgo.Client
	admin  *kadm.Client
	done   chan struct{} // closed when the reader has ended
	stop   context.CancelFunc

	mu       sync.Mutex // guards what follows
	checker  *Checker
	next     map[topicPartition]int64 // offset that is read next
	changed  chan struct{}            // closed and replaced when anything here changes
	trouble  error                    // the last error of the client, for the message of ErrWaiting
	lost     error                    // ends the reader
	finished bool
}

// Start makes a watch and starts to read. The topics must be there. Opts reach the cluster: addresses, TLS, SASL.
func Start(ctx context.Context, config Config, opts ...kgo.Opt) (*Watch, error) {
	w := &Watch{opts: opts, next: make(map[topicPartition]int64), changed: make(chan struct{}), done: make(chan struct{})}
	client, err := kgo.NewClient(append(slices.Clone(opts),
		kgo.ConsumeTopics(config.topics()...),
		kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords(), // so that a topic which ends in a marker is read to its end
		kgo.FetchMaxWait(50*time.Millisecond),
		kgo.MetadataMinAge(250*time.Millisecond),
	)...)
	if err != nil {
		return nil, err
	}
	w.client, w.admin = client, kadm.NewClient(client)
	if w.config, err = w.complete(ctx, config); err == nil {
		w.checker, err = New(w.config)
	}
	if err != nil {
		client.Close()
		return nil, err
	}
	ctx, w.stop = context.WithCancel(context.WithoutCancel(ctx))
	go w.read(ctx)
	return w, nil
}

// topics returns every topic, each once.
func (c *Config) topics() []string {
	full := *c
	full.fill()
	var all []string
	for _, r := range full.Routes {
		all = append(all, r.Topic, r.DeadLetter)
		if r.Retry != nil && r.Retry.Parking != "" {
			all = append(all, r.Retry.Parking)
		}
	}
	for _, t := range full.Targets {
		all = append(all, t.Topic)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// complete asks the cluster for the topics' ids, and whether all of them are there.
func (w *Watch) complete(ctx context.Context, config Config) (Config, error) {
	config.fill()
	topics, err := w.admin.ListTopics(ctx, config.topics()...)
	if err != nil {
		return config, fmt.Errorf("list topics: %w", err)
	}
	if err := topics.Error(); err != nil {
		return config, fmt.Errorf("list topics: %w", err)
	}
	for i := range config.Routes {
		r := &config.Routes[i]
		if r.TopicID == ([16]byte{}) {
			r.TopicID = topics[r.Topic].ID
		}
	}
	return config, nil
}

// read is the reader: it feeds the checker until it is stopped or has lost sight.
func (w *Watch) read(ctx context.Context) {
	defer close(w.done)
	for ctx.Err() == nil {
		fetches := w.client.PollFetches(ctx)
		if fetches.IsClientClosed() || ctx.Err() != nil {
			break
		}
		if !w.take(fetches, time.Now()) {
			break
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.finished = true
	close(w.changed)
}

// take feeds what was fetched to the checker, and tells whether to go on.
func (w *Watch) take(fetches kgo.Fetches, seen time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	fetches.EachError(func(topic string, partition int32, err error) {
		switch {
		case errors.Is(err, kerr.OffsetOutOfRange):
			w.lost = fmt.Errorf("%w: %s/%d from %d", ErrLostSight, topic, partition, w.next[topicPartition{topic, partition}])
		case !w.mayVanish(topic):
			w.trouble = fmt.Errorf("read %s/%d: %w", topic, partition, err)
		}
	})
	fetches.EachPartition(func(p kgo.FetchTopicPartition) {
		if len(p.Records) == 0 {
			return
		}
		key := topicPartition{p.Topic, p.Partition}
		next := w.next[key]
		for _, r := range p.Records {
			if r.Offset < next {
				continue // read again after a failure
			}
			next = r.Offset + 1
			if !r.Attrs.IsControl() {
				w.checker.Observe(r, seen)
			}
		}
		w.next[key] = next
	})
	close(w.changed)
	w.changed = make(chan struct{})
	return w.lost == nil
}

func (w *Watch) mayVanish(topic string) bool {
	return slices.ContainsFunc(w.config.Targets, func(t Target) bool { return t.MayVanish && t.Topic == topic })
}

// Counts returns what was seen so far.
func (w *Watch) Counts() Counts {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.checker.Counts()
}

// Position returns the offset of a partition that is read next: what lies below it has been seen.
func (w *Watch) Position(topic string, partition int32) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.next[topicPartition{topic, partition}]
}

// Report judges what was read so far, as if it were all. Call Settle before, or Stop instead, unless things go on.
func (w *Watch) Report() *Report {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.checker.Report()
}

// Ill says that something is being broken, as Checker.Ill.
func (w *Watch) Ill() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.checker.Ill()
}

// Well says that nothing is broken any more, as Checker.Well.
func (w *Watch) Well() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.checker.Well(time.Now())
}

// Checkpoint takes the checkpoint of a partition as it is now, as Checker.Checkpoint.
func (w *Watch) Checkpoint(topic string, partition int32, offset, due, seq int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.checker.Checkpoint(topic, partition, offset, due, seq, time.Now())
}

// Beheaded says that the log of a partition has lost what lay below an offset, which the watch has to have read: what was pending there may be missing.
func (w *Watch) Beheaded(topic string, partition int32, below int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	beheading{w.checker}.below(topic, partition, below)
	close(w.changed)
	w.changed = make(chan struct{})
}

// Stop reads every topic to its end once more, ends the watch and reports. Processors should have been stopped before, so that
// nothing can be doubled afterwards. It reports also when it could not read on; the error then says why.
func (w *Watch) Stop(ctx context.Context) (*Report, error) {
	err := w.Settle(ctx)
	w.stop()
	<-w.done
	report := w.Report()
	for k := range report.Found {
		for i := range report.Found[k].First {
			w.complement(ctx, &report.Found[k].First[i])
		}
	}
	w.client.Close()
	return report, err
}

// complement fetches the request of a fault, so that it is reported in full. A request that is gone stays away.
func (w *Watch) complement(ctx context.Context, f *Fault) {
	isRequest := slices.ContainsFunc(w.config.Routes, func(r Route) bool { return r.Topic == f.Source.Topic })
	if f.Request != nil || !isRequest || ctx.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	client, err := kgo.NewClient(append(slices.Clone(w.opts), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{
		f.Source.Topic: {f.Source.Partition: kgo.NewOffset().At(f.Source.Offset)},
	}), kgo.ConsumeResetOffset(kgo.NoResetOffset()), kgo.FetchIsolationLevel(kgo.ReadUncommitted()))...)
	if err != nil {
		return
	}
	defer client.Close()
	for _, r := range client.PollRecords(ctx, 1).Records() {
		if r.Offset == f.Source.Offset {
			f.Request = clone(r)
		}
	}
}

// Read checks all that is in the topics now: for what has already happened.
func Read(ctx context.Context, config Config, opts ...kgo.Opt) (*Report, error) {
	w, err := Start(ctx, config, opts...)
	if err != nil {
		return nil, err
	}
	return w.Stop(ctx)
}

// Summary is one line on how far a watch is.
func (c Counts) Summary() string {
	var b strings.Builder
	fmt.Fprintf(&b, "requested %d, outstanding %d, later %d, delivered %d, dead-lettered %d", c.Requested, c.Outstanding, c.Later, c.Delivered, c.DeadLettered)
	if c.Faults > 0 {
		fmt.Fprintf(&b, ", FAULTS %d", c.Faults)
	}
	return b.String()
}

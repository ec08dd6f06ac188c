package clients

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/integration/brokers"
	"github.com/duewheel/duewheel/processor"
	"github.com/duewheel/duewheel/topics"
)

// ground are the topics of a round, and what is seen of them.
type ground struct {
	*watch
	cl                         *kgo.Client
	admin                      *kadm.Client
	config                     processor.Config
	plain, keyed, target, dead string
	partitions                 int32
	probes                     int
}

// patience is for how long what is due may be awaited: many times what was seen.
const patience = time.Minute

// probePrefix begins the values of records that only show how far everything has come.
const probePrefix = "probe-"

func newGround(ctx context.Context, t *testing.T, cluster *brokers.Cluster) *ground {
	t.Helper()
	name := strconv.FormatInt(time.Now().UnixMilli(), 36)
	g := &ground{plain: name + ".plain", keyed: name + ".keyed", target: name + ".orders", dead: name + ".dead", partitions: 3}
	g.config = processor.Config{
		Client: cluster.Opts(brokers.Plain), Group: name, StateDir: t.TempDir(), SessionTimeout: 6 * time.Second, NearWindow: time.Second,
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Routes: []topics.Route{
			{Topic: g.plain, DeadLetter: g.dead, Allow: []string{g.target}, CancelsAnswered: true},
			{Topic: g.keyed, DeadLetter: g.dead, Allow: []string{g.target}, Keyed: true, OnDuplicate: topics.DuplicateReplaces},
		},
	}
	var err error
	if g.cl, err = kgo.NewClient(append(cluster.Opts(brokers.Plain), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0))...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.cl.Close)
	g.admin = kadm.NewClient(g.cl)
	forever := "-1"
	created, err := g.admin.CreateTopics(ctx, g.partitions, 1, map[string]*string{"retention.ms": &forever}, g.plain, g.keyed, g.target, g.dead)
	if err = cmp.Or(err, created.Error()); err != nil {
		t.Fatal(err)
	}
	g.watch = startWatch(ctx, t, cluster, g.plain, g.keyed, g.target, g.dead)
	return g
}

// deliver runs a processor until stop is called, and returns when all of its partitions are live.
func (g *ground) deliver(ctx context.Context, t *testing.T) (stop func()) {
	t.Helper()
	p, err := processor.New(g.config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	once := false
	stop = func() {
		if cancel(); !once {
			once = true
			if err := <-ended; err != nil {
				t.Errorf("the processor: %v", err)
			}
		}
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		live := 0
		for _, s := range p.Stats().Partitions {
			if s.Phase == processor.PhaseLive {
				live++
			}
		}
		if live == 2*int(g.partitions) {
			return stop
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			stop()
			t.Fatalf("%d partitions are live, want %d", live, 2*g.partitions)
		}
	}
}

func (g *ground) addPartitions(ctx context.Context) error {
	g.partitions += 2
	added, err := g.admin.CreatePartitions(ctx, 2, g.plain, g.keyed)
	return cmp.Or(err, added.Error())
}

// settle writes a probe into each partition of both delay topics, and returns when all are delivered, and with them what came before, and
// all of it has been seen.
func (g *ground) settle(ctx context.Context, due time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, time.Until(due)+patience)
	defer cancel()
	var probes, ends []*kgo.Record
	probe := func() []byte {
		g.probes++
		return fmt.Appendf(nil, "%s%d", probePrefix, g.probes)
	}
	for _, topic := range []string{g.plain, g.keyed} {
		for p := range g.partitions {
			v := probe()
			probes = append(probes, &kgo.Record{Topic: topic, Partition: p, Key: v, Value: v, Headers: []kgo.RecordHeader{
				{Key: topics.HeaderUntil, Value: strconv.AppendInt(nil, due.UnixMilli(), 10)}, {Key: topics.HeaderTargetTopic, Value: []byte(g.target)},
			}})
		}
	}
	if err := g.cl.ProduceSync(ctx, probes...).FirstErr(); err != nil {
		return err
	}
	if _, err := g.find(ctx, g.target, valuesOf(probes)...); err != nil {
		return err
	}
	for _, topic := range []string{g.target, g.dead} {
		for p := range int32(3) {
			ends = append(ends, &kgo.Record{Topic: topic, Partition: p, Value: probe()})
		}
	}
	if err := g.cl.ProduceSync(ctx, ends...).FirstErr(); err != nil {
		return err
	}
	for _, end := range ends {
		if _, err := g.find(ctx, end.Topic, string(end.Value)); err != nil {
			return err
		}
	}
	return nil
}

func valuesOf(rs []*kgo.Record) (values []string) {
	for _, r := range rs {
		values = append(values, string(r.Value))
	}
	return values
}

// outcomes is what came of each value.
func (g *ground) outcomes() map[string][]outcome {
	got := make(map[string][]outcome)
	for _, r := range g.records(g.target, g.dead) {
		value := string(r.Value)
		if strings.HasPrefix(value, probePrefix) {
			continue
		}
		became := delivered
		if r.Topic == g.dead {
			became = outcome(topics.Last(r.Headers, topics.HeaderErrorCode))
		}
		got[value] = append(got[value], became)
	}
	return got
}

// watch has seen what is committed in some topics.
type watch struct {
	mu   sync.Mutex
	all  []*kgo.Record
	more chan struct{} // closed when there are more
}

func startWatch(ctx context.Context, t *testing.T, cluster *brokers.Cluster, names ...string) *watch {
	t.Helper()
	cl, err := kgo.NewClient(append(cluster.Opts(brokers.Plain), kgo.ConsumeTopics(names...), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.FetchMaxWait(200*time.Millisecond),
		kgo.MetadataMinAge(100*time.Millisecond), kgo.MetadataMaxAge(time.Second))...) // partitions are added
	if err != nil {
		t.Fatal(err)
	}
	w := &watch{more: make(chan struct{})}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			fetches := cl.PollFetches(ctx)
			if fetches.IsClientClosed() || ctx.Err() != nil {
				return
			}
			w.mu.Lock()
			w.all = append(w.all, fetches.Records()...)
			close(w.more)
			w.more = make(chan struct{})
			w.mu.Unlock()
		}
	}()
	t.Cleanup(func() { cl.Close(); <-ended })
	return w
}

// records are those of some topics so far.
func (w *watch) records(topics ...string) (of []*kgo.Record) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.all {
		if slices.Contains(topics, r.Topic) {
			of = append(of, r)
		}
	}
	return of
}

// find waits until a topic has a record of each value, and returns the first of each.
func (w *watch) find(ctx context.Context, topic string, values ...string) ([]*kgo.Record, error) {
	for {
		w.mu.Lock()
		more := w.more
		w.mu.Unlock()
		byValue := make(map[string]*kgo.Record)
		for _, r := range w.records(topic) {
			if byValue[string(r.Value)] == nil {
				byValue[string(r.Value)] = r
			}
		}
		found := make([]*kgo.Record, len(values))
		missing := ""
		for i, v := range values {
			if found[i] = byValue[v]; found[i] == nil {
				missing = v
			}
		}
		if missing == "" {
			return found, nil
		}
		select {
		case <-more:
		case <-ctx.Done():
			return nil, fmt.Errorf("%q is not in %s: %w", missing, topic, ctx.Err())
		}
	}
}

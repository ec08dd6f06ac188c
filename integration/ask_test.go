package integration

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/bench/check"
	"github.com/duewheel/duewheel/integration/brokers"
	"github.com/duewheel/duewheel/processor"
	"github.com/duewheel/duewheel/topics"
)

// answersCancels has what comes in vain dead-lettered, so that the checker sees the outcome of each.
func answersCancels(set setting) setting {
	set.route = func(r *topics.Route) { r.CancelsAnswered = true }
	set.check = func(c *check.Config) { c.Routes[0].CancelsAnswered, c.InTime = true, time.Minute }
	return set
}

// remembers is answersCancels, and ids are remembered. Clocks that differ by less than max_clock_skew may let a memory end so much sooner.
func remembers(set setting) setting {
	set = answersCancels(set)
	route, config := set.route, set.check
	set.route = func(r *topics.Route) { route(r); r.Remember = 12 * time.Second }
	set.check = func(c *check.Config) { config(c); c.Routes[0].Remember = 10 * time.Second }
	return set
}

// Requests are cancelled and replaced by handle and by id, from whatever partition, while replicas are killed, and in a race with their
// delivery: of each exactly one thing becomes, and no id is delivered twice while it is remembered.
func TestCancelAndReplace(t *testing.T) {
	t.Parallel()
	s := newTenant(t, shared(t), remembers(setting{seed: newSeed(t)}))
	k := s.newKiller(2)
	report := k.whileAsked(func() bool { return k.open > 0 })
	t.Logf("killed %d times, %d of them inside an open transaction; %d requests, %d cancels, %d dead letters", k.kills, k.open, report.Requested, report.Cancels, report.DeadLettered)
	if report.Cancels < 300 || report.DeadLettered < 30 || report.Requested-report.Delivered < 100 {
		t.Errorf("too little has happened: %s", report.Summary())
	}
}

// At least once the same holds but for what was delivered and is not in a checkpoint when its replica is killed: that comes again.
func TestCancelAndReplaceAtLeastOnce(t *testing.T) {
	t.Parallel()
	set := answersCancels(setting{seed: newSeed(t)})
	answered := set.check
	set.check = func(c *check.Config) { answered(c); c.AllowDoubles = true }
	s := newTenant(t, shared(t), set)
	k := s.newKiller(2, func(c *replicaConfig) { c.Guarantee = processor.AtLeastOnce })
	report := k.whileAsked(func() bool { return k.watch.Counts().Doubled > 0 })
	t.Logf("killed %d times; %d requests, %d cancels, %d dead letters, %d came again", k.kills, report.Requested, report.Cancels, report.DeadLettered, report.Doubled)
	if report.Cancels < 300 || report.DeadLettered < 30 || report.Requested-report.Delivered+report.Doubled < 100 || report.Doubled == 0 {
		t.Errorf("too little has happened: %s", report.Summary())
	}
}

// whileAsked kills replicas while all kinds of requests come, until what is to have happened has, and judges what has become of them.
func (k *killer) whileAsked(enough func() bool) *check.Report {
	k.t.Helper()
	stop := k.newAsker().keepAsking(600)
	for k.kills < 4 || !enough() && k.kills < mostKills {
		k.strike()
	}
	k.addPartitions(6) // the partition of a handle stays what it is
	k.strike()
	stop()
	k.arrive()
	k.terminate()
	return k.judge()
}

// written is a request that has a handle, and when that was known.
type written struct {
	topics.Handle
	at time.Time
}

// asker requests, cancels and replaces.
type asker struct {
	*tenant
	cl     *kgo.Client
	random *rand.Rand
	asked  int
	ahead  time.Duration // how far ahead a request is due at most
	old    time.Duration // for how long a request is left alone at least

	mu     sync.Mutex
	known  []written
	places map[string]ask // of all that it has written
}

// ask is what was asked for with one record.
type ask struct {
	cancels bool
	id      string // of a request; empty: none
}

func (s *tenant) newAsker() *asker {
	s.t.Helper()
	cl, err := kgo.NewClient(append(s.opts(), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0))...)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(cl.Close)
	return &asker{tenant: s, cl: cl, random: rand.New(rand.NewPCG(s.seed, 2)), ahead: 5 * time.Second, places: map[string]ask{}}
}

// keepAsking asks so often a second, until stop is called.
func (a *asker) keepAsking(rate int) (stop func()) {
	ctx, cancel := context.WithCancel(a.t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(time.Second / time.Duration(rate))
		defer tick.Stop()
		for ctx.Err() == nil {
			a.cl.Produce(context.Background(), a.draw(), a.acknowledged)
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
	})
	return func() {
		cancel()
		wg.Wait()
		if err := a.cl.Flush(a.t.Context()); err != nil {
			a.t.Error(err)
		}
	}
}

func (a *asker) acknowledged(r *kgo.Record, err error) {
	if err != nil {
		a.t.Errorf("produce: %v", err)
		return
	}
	a.mu.Lock()
	a.places[fmt.Sprintf("%d-%d", r.Partition, r.Offset)] = a.askOf(r)
	a.mu.Unlock()
	for _, h := range r.Headers {
		if h.Key == topics.HeaderID || h.Key == topics.HeaderReplace && strings.HasPrefix(string(h.Value), "id") {
			return // it is named by that
		}
		if h.Key != topics.HeaderUntil {
			continue
		}
		due, _ := strconv.ParseInt(string(h.Value), 10, 64)
		a.mu.Lock()
		a.known = append(a.known, written{topics.Handle{Partition: r.Partition, Offset: r.Offset, Due: due}, time.Now()})
		a.mu.Unlock()
	}
}

func (a *asker) askOf(r *kgo.Record) ask {
	switch {
	case value(r, topics.HeaderCancel) != "":
		return ask{cancels: true}
	case a.route.Keyed:
		return ask{id: string(r.Key)}
	}
	return ask{id: value(r, topics.HeaderID)}
}

// pick is a request of lately, but for those that are left alone.
func (a *asker) pick() (topics.Handle, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	before := time.Now().Add(-a.old)
	last := sort.Search(len(a.known), func(i int) bool { return a.known[i].at.After(before) })
	n := min(last, 2000)
	if n == 0 {
		return topics.Handle{}, false
	}
	return a.known[last-1-a.random.IntN(n)].Handle, true
}

// draw is a request that is due at once, soon, or beyond the near window; or a cancel, or a replacement.
func (a *asker) draw() *kgo.Record {
	a.asked++
	r := &kgo.Record{Topic: a.route.Topic, Partition: int32(a.random.IntN(4)), Key: fmt.Appendf(nil, "k%d", a.random.IntN(50)), Value: fmt.Appendf(nil, "%d", a.asked)}
	set := func(name, value string) {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: name, Value: []byte(value)})
	}
	h, ok := a.pick()
	what := a.random.IntN(16)
	id := fmt.Sprintf("id%d", a.random.IntN(400))
	switch what {
	case 10, 11, 12, 13:
		set(topics.HeaderID, id)
	case 14:
		set(topics.HeaderReplace, id)
	case 15:
		set(topics.HeaderCancel, id)
		return r
	}
	if ok && what < 2 {
		set(topics.HeaderCancel, h.String())
		return r
	}
	if ok && what == 2 {
		set(topics.HeaderReplace, h.String())
		r.Partition = h.Partition
	}
	due := time.Now().Add(time.Duration(a.random.Int64N(int64(a.ahead))))
	set(topics.HeaderUntil, strconv.FormatInt(due.UnixMilli(), 10))
	if a.route.Target == "" {
		set(topics.HeaderTargetTopic, a.targets[0])
	}
	return r
}

// A consumer that fails writes what it could not process to a retry topic, as Kafka Connect does: with headers that say why, behind those that
// are there, and with the timestamp of the original. It gets it back by and by, not larger than it was, and what fails for ever is parked, once, in a topic of
// its own, as it was written the last time.
func TestRetryRoute(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"LogAppendTime", "CreateTime"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			retrying := &topics.Retrying{
				Backoff: topics.Backoff{Initial: 200 * time.Millisecond, Factor: 1.5, Max: time.Second}, MaxAttempts: 20, FromHeaders: true, Strip: topics.ErrorHeaders,
			}
			var parking string
			s := newTenant(t, shared(t), setting{delayConfig: map[string]string{"message.timestamp.type": kind}, route: func(r *topics.Route) {
				parking = strings.TrimSuffix(r.DeadLetter, ".dead") + ".parked"
				retrying.Parking, r.Retry = parking, retrying
			}})
			s.create(1, nil, parking)
			p := s.start(s.replica())
			s.awaitLive(p, 4)
			f := &failing{tenant: s, fails: map[string]int{"never": 0, "thrice": 3, "often": 20, "for ever": 1 << 30}, seen: map[string][]trip{}}
			f.run(s.targets[0], s.route.Topic)
			for key := range f.fails {
				f.write(s.targets[0], key, time.Now().Add(-time.Hour))
			}
			parked := f.await(parking)
			p.stop()
			f.judge(retrying)
			if string(parked.Key) != "for ever" || value(parked, "__delay.errors.code") != "attempts_exhausted" || value(parked, "delay-attempt") != "20" {
				t.Errorf("parked is %s with %v", parked.Key, parked.Headers)
			}
			f.compareParked(parked, s.visible(parking), s.visible(s.route.DeadLetter))
		})
	}
}

// trip is one time that a record came.
type trip struct {
	at      time.Time
	attempt string
	size    int
	headers []string
}

// failing is a consumer that fails.
type failing struct {
	*tenant
	fails map[string]int // by key: how often

	mu   sync.Mutex
	seen map[string][]trip
}

// write writes a record as an application does.
func (f *failing) write(topic, key string, at time.Time) {
	f.t.Helper()
	r := &kgo.Record{Topic: topic, Key: []byte(key), Value: []byte(lineOf(key)), Timestamp: at, Headers: []kgo.RecordHeader{{Key: "trace", Value: []byte(key)}}}
	if err := f.client.ProduceSync(f.t.Context(), r).FirstErr(); err != nil {
		f.t.Fatal(err)
	}
}

// lineOf is the value of a record: 100 bytes that tell which one it is.
func lineOf(key string) string { return (key + strings.Repeat(".", 100))[:100] }

// run consumes a topic, and writes to another one what it fails to process.
func (f *failing) run(from, to string) {
	f.t.Helper()
	cl, err := kgo.NewClient(append(f.opts(), kgo.ConsumeTopics(from), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()))...)
	if err != nil {
		f.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	f.t.Cleanup(func() { cancel(); wg.Wait(); cl.Close() })
	wg.Go(func() {
		for ctx.Err() == nil {
			cl.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
				if again := f.process(r, from, to); again != nil {
					cl.Produce(context.Background(), again, nil)
				}
			})
		}
	})
}

func (f *failing) process(r *kgo.Record, from, to string) *kgo.Record {
	f.mu.Lock()
	defer f.mu.Unlock()
	key := string(r.Key)
	n := trip{at: time.Now(), attempt: value(r, "delay-attempt"), size: topics.RecordSize(r.Key, r.Value, r.Headers)}
	for _, h := range r.Headers {
		n.headers = append(n.headers, h.Key)
	}
	f.seen[key] = append(f.seen[key], n)
	if len(f.seen[key]) > f.fails[key] {
		return nil
	}
	again := &kgo.Record{Topic: to, Key: r.Key, Value: r.Value, Timestamp: r.Timestamp.Add(-time.Hour), Headers: slices.Clone(r.Headers)}
	for name, v := range map[string]string{
		"__connect.errors.topic": from, "__connect.errors.exception.message": fmt.Sprintf("attempt %s of %s", cmp.Or(n.attempt, "0"), key),
		"__connect.errors.exception.stacktrace": strings.Repeat("at org.example. ", errorBytes/16),
	} {
		again.Headers = append(again.Headers, kgo.RecordHeader{Key: name, Value: []byte(v)})
	}
	return again
}

// value is that of the last header of a name.
func value(r *kgo.Record, name string) (v string) {
	for _, h := range r.Headers {
		if h.Key == name {
			v = string(h.Value)
		}
	}
	return v
}

// await waits for the first record of a topic, and for all else to be processed.
func (f *failing) await(topic string) *kgo.Record {
	f.t.Helper()
	cl, err := kgo.NewClient(append(f.cluster.Opts(brokers.Plain), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()))...)
	if err != nil {
		f.t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(f.t.Context(), patience)
	defer cancel()
	var first *kgo.Record
	for first == nil {
		fs := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.t.Fatalf("nothing came to %s; seen were %v", topic, f.seen)
		}
		fs.EachRecord(func(r *kgo.Record) { first = r })
	}
	eventually(f.t, func() string {
		f.mu.Lock()
		defer f.mu.Unlock()
		for key, n := range f.fails {
			if want := min(n, 20) + 1; len(f.seen[key]) != want {
				return fmt.Sprintf("%s came %d times, want %d", key, len(f.seen[key]), want)
			}
		}
		return ""
	})
	return first
}

// compareParked: what is parked has the errors of the last trip and of no other one, and nothing else is parked or dead-lettered.
func (f *failing) compareParked(parked *kgo.Record, all, dead []*kgo.Record) {
	f.t.Helper()
	if value(parked, "__connect.errors.exception.message") != "attempt 20 of for ever" {
		f.t.Errorf("parked says %q", value(parked, "__connect.errors.exception.message"))
	}
	stacks := 0
	for _, h := range parked.Headers {
		if h.Key == "__connect.errors.exception.stacktrace" {
			stacks++
		}
	}
	if size := topics.RecordSize(parked.Key, parked.Value, parked.Headers); stacks != 1 || size < errorBytes || size > errorBytes+1000 || len(all) != 1 || len(dead) > 0 {
		f.t.Errorf("parked are %d records, the first of %d bytes with %d stack traces; %d others are dead-lettered", len(all), size, stacks, len(dead))
	}
}

// errorBytes is what a stack trace takes of those that Kafka Connect writes, about.
const errorBytes = 4000

// judge looks at the trips: each has its number and comes no sooner than the backoff says, and none is larger than the first.
func (f *failing) judge(as *topics.Retrying) {
	f.t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	for key, trips := range f.seen {
		pause := as.Backoff.Initial
		for i, n := range trips {
			want := ""
			if i > 0 {
				want = strconv.Itoa(i)
			}
			if n.attempt != want {
				f.t.Errorf("%s: trip %d says attempt %q", key, i, n.attempt)
			}
			if i == 0 {
				continue
			}
			if took := n.at.Sub(trips[i-1].at); took < pause {
				f.t.Errorf("%s: trip %d came after %v, and the backoff is %v", key, i, took, pause)
			}
			if pause = time.Duration(float64(pause)*as.Backoff.Factor).Round(time.Millisecond) - time.Millisecond; pause > as.Backoff.Max {
				pause = as.Backoff.Max
			}
			if i > 1 && n.size > trips[1].size+16 || slices.Contains(n.headers, "__connect.errors.topic") || !slices.Contains(n.headers, "trace") {
				f.t.Errorf("%s: trip %d has %d bytes, and the first had %d: %v", key, i, n.size, trips[1].size, n.headers)
			}
		}
	}
}

package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/bench/check"
	"github.com/duewheel/duewheel/processor"
	"github.com/duewheel/duewheel/topics"
)

// demoMark is the header by which the demo knows its own records again. Its value is the name of the story that a record belongs to, if any.
const demoMark = "demo"

// watch sees all that is in the topics, as a read_committed consumer does. It has every record judged by the checker, and knows what the
// screen shows. Its methods may be called from several goroutines.
type watch struct {
	mu        sync.Mutex
	changed   chan struct{} // closed and replaced whenever something was read
	checker   *check.Checker
	positions map[string]int64 // by topic/partition: the next offset to be seen

	asked     int
	waiting   map[check.Source]*waiting // requested, and not seen arriving
	named     map[string]check.Source   // those of them that have an id
	ahead     map[check.Source]bool     // seen arriving, and not requested yet: topics are read side by side
	cancelled map[check.Source]int64    // taken away, and when each would have been due
	arrived   map[string]int            // by topic
	yours     yours
	calm      *hdrhistogram.Histogram // lateness in µs
	latest    []arrival               // the last few, the youngest first

	takeover     *takeover // the last one; nil: none yet
	takeovers    int       // how many were judged
	badTakeovers int       // of these: with a fault
	stories      *stories
}

// waiting is a request of which nothing was seen arriving.
type waiting struct {
	due         int64 // ms
	target, key string
	id          string
	story       bool // it belongs to one
	yours       bool
}

// yours are the requests that are not the demo's: asked for from another terminal.
type yours struct {
	waiting, came, dead, cancelled int
	last                           time.Duration // how late the last one came
}

func (y yours) any() bool { return y.waiting+y.came+y.dead+y.cancelled > 0 }

// arrival is one delivered record.
type arrival struct {
	target string
	late   time.Duration
	yours  bool
}

// latestKept is how many deliveries the screen can show.
const latestKept = 8

// newWatch makes a watch that knows the ids of the delay topics, by which the checker tells a replica's own records.
func newWatch(ids map[string][16]byte) (*watch, error) {
	var config check.Config
	for _, r := range demoRoutes() {
		route := promised(&r)
		route.TopicID, route.Group = ids[r.Topic], demoGroup
		config.Routes = append(config.Routes, route)
	}
	for _, t := range demoTargets {
		config.Targets = append(config.Targets, check.Target{Topic: t, Partitions: demoTargetPartitions})
	}
	checker, err := check.New(config)
	if err != nil {
		return nil, err
	}
	return &watch{
		changed: make(chan struct{}), checker: checker, positions: map[string]int64{},
		waiting: map[check.Source]*waiting{}, named: map[string]check.Source{}, ahead: map[check.Source]bool{}, cancelled: map[check.Source]int64{}, arrived: map[string]int{},
		calm: newDemoLateness(), stories: newStories(),
	}, nil
}

func newDemoLateness() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, time.Hour.Microseconds(), 3)
}

// watchTopics makes a watch of a broker's topics.
func watchTopics(ctx context.Context, cl *kgo.Client) (*watch, error) {
	details, err := newPatient(cl).ListTopics(ctx, demoRequests, demoRetry)
	if err == nil {
		err = details.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("list topics: %w", err)
	}
	ids := map[string][16]byte{}
	for name, d := range details {
		ids[name] = d.ID
	}
	return newWatch(ids)
}

// consume reads all topics until ctx ends.
func (w *watch) consume(ctx context.Context, broker string) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(broker), kgo.ClientID("demo-consumer"),
		kgo.ConsumeTopics(append(demoTopics(), demoRequests, demoRetry)...),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords(), // so that a log that ends in a marker is seen to its end
	)
	if err != nil {
		return err
	}
	defer cl.Close()
	for {
		fetches := cl.PollFetches(ctx)
		now := time.Now()
		if ctx.Err() != nil {
			return nil
		}
		if err := fetches.Err(); err != nil {
			return fmt.Errorf("consume: %w", err)
		}
		w.see(fetches.Records(), now)
	}
}

// see takes in what was read, requests first: one fetch may bring a request and what has come of it.
func (w *watch) see(records []*kgo.Record, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range records {
		w.positions[partitionName(r.Topic, r.Partition)] = r.Offset + 1
		if !r.Attrs.IsControl() && isDelayTopic(r.Topic) {
			w.request(r)
			w.checker.Observe(r, now)
		}
	}
	for _, r := range records {
		if !r.Attrs.IsControl() && !isDelayTopic(r.Topic) {
			w.arrive(r, now)
		}
	}
	close(w.changed)
	w.changed = make(chan struct{})
}

func isDelayTopic(topic string) bool { return topic == demoRequests || topic == demoRetry }

func partitionName(topic string, partition int32) string {
	return fmt.Sprintf("%s/%d", topic, partition)
}

// request notes what a record of a delay topic asks for.
func (w *watch) request(r *kgo.Record) {
	at := check.Source{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset}
	e := w.checker.Expect(r)
	if e.NamesID {
		w.take(w.named[e.ID])
	} else if e.Names.Topic != "" {
		w.take(e.Names)
	}
	if e.Outcome != check.Deliver && e.Outcome != check.Either {
		return
	}
	w.asked++
	if w.ahead[at] { // what came of it was read before it
		delete(w.ahead, at)
		return
	}
	if e.OrLater { // when it is due is not known before a replica has read it
		return
	}
	mark, ours := lastHeader(r, demoMark)
	w.waiting[at] = &waiting{due: e.Due, target: e.Target, key: string(r.Key), id: e.ID, story: len(mark) > 0, yours: !ours}
	if e.ID != "" {
		w.named[e.ID] = at
	}
}

// take notes that a request was cancelled or replaced.
func (w *watch) take(at check.Source) {
	if q := w.waiting[at]; q != nil {
		w.cancelled[at] = q.due
		if q.yours {
			w.yours.cancelled++
		}
		w.drop(at)
	}
}

func (w *watch) drop(at check.Source) {
	if q := w.waiting[at]; q != nil && q.id != "" && w.named[q.id] == at {
		delete(w.named, q.id)
	}
	delete(w.waiting, at)
}

// arrive takes in a record of a target or dead letter topic. One that is there by another way than the delay topics concerns nothing.
func (w *watch) arrive(r *kgo.Record, now time.Time) {
	dead := isDeadLetter(r)
	from, ok := sourceOf(r, dead)
	if !ok {
		return
	}
	w.checker.Observe(r, now)
	if w.positions[partitionName(from.Topic, from.Partition)] <= from.Offset {
		w.ahead[from] = true
	}
	w.drop(from)
	delete(w.cancelled, from)
	w.arrived[r.Topic]++
	_, ours := lastHeader(r, demoMark)
	w.stories.arrived(r, from)
	if dead {
		if !ours {
			w.yours.dead++
		}
		return
	}
	due, err := strconv.ParseInt(string(topics.Last(r.Headers, topics.HeaderDue)), 10, 64)
	if err != nil {
		return // the checker has said so
	}
	late := now.Sub(time.UnixMilli(due))
	if !w.takeover.delivered(from, due, now) {
		_ = w.calm.RecordValue(max(1, late.Microseconds())) // what is beyond the scale is late enough to be seen
	}
	came := arrival{r.Topic, late, !ours}
	if !ours {
		w.yours.came++
		w.yours.last = late
	}
	w.latest = slices.Insert(w.latest, 0, came)
	w.latest = w.latest[:min(len(w.latest), latestKept)]
}

func isDeadLetter(r *kgo.Record) bool {
	return r.Topic == demoRequests+".dead" || r.Topic == demoRetry+".dead"
}

func lastHeader(r *kgo.Record, name string) ([]byte, bool) {
	for _, h := range slices.Backward(r.Headers) {
		if h.Key == name {
			return h.Value, true
		}
	}
	return nil, false
}

// sourceOf is the request that a delivered or dead-lettered record names.
func sourceOf(r *kgo.Record, dead bool) (check.Source, bool) {
	topic, partition, offset := topics.Last(r.Headers, topics.HeaderErrorTopic), topics.Last(r.Headers, topics.HeaderErrorPartition), topics.Last(r.Headers, topics.HeaderErrorOffset)
	if !dead {
		parts := bytes.Split(topics.Last(r.Headers, topics.HeaderSource), []byte("/"))
		if len(parts) != 3 {
			return check.Source{}, false
		}
		topic, partition, offset = parts[0], parts[1], parts[2]
	}
	p, err := strconv.ParseInt(string(partition), 10, 32)
	if err != nil {
		return check.Source{}, false
	}
	o, err := strconv.ParseInt(string(offset), 10, 64)
	return check.Source{Topic: string(topic), Partition: int32(p), Offset: o}, err == nil
}

// waitForOffset returns when a partition has been seen up to end, or the grace is over.
func (w *watch) waitForOffset(topic string, partition int32, end int64, grace time.Duration) {
	timeout := time.After(grace)
	for {
		w.mu.Lock()
		ok, changed := w.positions[partitionName(topic, partition)] >= end, w.changed
		w.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-changed:
		case <-timeout:
			return
		}
	}
}

// judge has the checker judge what was due until a time, again and again until there is no fault, or the grace is over: what is on its way
// when it is asked for looks like a fault.
func (w *watch) judge(until time.Time, grace time.Duration) *check.Report {
	for end := time.Now().Add(grace); ; {
		began := time.Now()
		w.mu.Lock()
		report, changed := w.checker.ReportUntil(until), w.changed
		w.mu.Unlock()
		if report.Faults == 0 || time.Now().After(end) {
			return report
		}
		select {
		case <-time.After(time.Until(end)):
		case <-changed:
			time.Sleep(max(50*time.Millisecond, 4*time.Since(began))) // the more there is, the dearer is a report
		}
	}
}

// next is a request that is due soon and not too soon to be cancelled.
func (w *watch) next(after time.Time) (at check.Source, q waiting, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for a, one := range w.waiting {
		if a.Topic == demoRequests && !one.story && one.id == "" && one.due >= after.UnixMilli() && (!ok || one.due < q.due) {
			at, q, ok = a, *one, true
		}
	}
	return at, q, ok
}

// overdue tells whether something of a partition waits that was due between two times.
func (w *watch) overdue(of processor.TopicPartition, from, to time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for at, q := range w.waiting {
		if at.Topic == of.Topic && at.Partition == of.Partition && q.due > from.UnixMilli() && q.due <= to.UnixMilli() {
			return true
		}
	}
	return false
}

// demoTally is what the screen shows of what has come.
type demoTally struct {
	asked, waiting, delivered, dead, cancelled int
	arrived                                    map[string]int // by topic
	p50, p99, max                              time.Duration
	latest                                     []arrival
	yours                                      yours
}

func (w *watch) tally() demoTally {
	w.mu.Lock()
	defer w.mu.Unlock()
	µs := func(v int64) time.Duration { return time.Duration(v) * time.Microsecond }
	t := demoTally{
		asked: w.asked, waiting: len(w.waiting), cancelled: len(w.cancelled), yours: w.yours, arrived: maps.Clone(w.arrived), latest: slices.Clone(w.latest),
		p50: µs(w.calm.ValueAtPercentile(50)), p99: µs(w.calm.ValueAtPercentile(99)), max: µs(w.calm.Max()),
	}
	for _, q := range w.waiting {
		if q.yours {
			t.yours.waiting++
		}
	}
	for topic, n := range w.arrived {
		if isDeadLetter(&kgo.Record{Topic: topic}) {
			t.dead += n
		} else {
			t.delivered += n
		}
	}
	return t
}

package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/topics"
)

// request is what the demo asked for.
type request struct {
	id     int64
	due    int64 // ms
	target string
}

// arrival is one delivered record.
type arrival struct {
	request
	late  time.Duration
	yours bool // not one of the demo's: sent from another terminal
}

// watch knows what was asked for and compares it with what a read_committed consumer sees.
type watch struct {
	mu           sync.Mutex
	changed      chan struct{} // closed and replaced whenever something arrived
	nextID       int64
	waiting      map[int64]request
	seen         []uint64 // a bit for each id that has arrived
	delivered    int
	doubled      int
	early        int
	misplaced    int // dead-lettered although deliverable, or the other way round
	deadLettered int
	yours        int
	lateness     *hdrhistogram.Histogram // µs
	latest       []arrival               // the last few, the youngest first
	positions    map[string]int64        // by topic/partition: the next offset to be seen
	stories      *stories
}

// latestKept is how many deliveries the table can show.
const latestKept = 10

func newWatch() *watch {
	return &watch{
		changed:   make(chan struct{}),
		waiting:   map[int64]request{},
		lateness:  hdrhistogram.New(1, time.Hour.Microseconds(), 3),
		positions: map[string]int64{},
		stories:   newStories(),
	}
}

// expect notes a request before it is sent, and gives it its number.
func (w *watch) expect(due int64, target string) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.nextID++
	w.waiting[w.nextID] = request{id: w.nextID, due: due, target: target}
	return w.nextID
}

// consume reads targets and dead letters until ctx ends.
func (d *demo) consume(ctx context.Context) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(d.broker), kgo.ClientID("demo-consumer"),
		kgo.ConsumeTopics(append([]string{demoDeadLetter, demoRetry + ".dead"}, demoTargets...)...),
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
			return fmt.Errorf("consume targets: %w", err)
		}
		d.watch.arrived(fetches.Records(), now)
	}
}

func (w *watch) arrived(records []*kgo.Record, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range records {
		w.positions[partitionName(r.Topic, r.Partition)] = r.Offset + 1
		if !r.Attrs.IsControl() && !w.stories.arrived(r) {
			w.record(r, now)
		}
	}
	close(w.changed)
	w.changed = make(chan struct{})
}

func (w *watch) record(r *kgo.Record, now time.Time) {
	id := number(r, demoID)
	q, known := w.waiting[id]
	dead := r.Topic == demoDeadLetter
	switch {
	case id <= 0 || id > w.nextID:
		w.yours++
		if due := number(r, topics.HeaderDue); due > 0 && !dead {
			late := now.Sub(time.UnixMilli(due))
			w.show(arrival{request: request{due: due, target: r.Topic}, late: late, yours: true})
		}
		return
	case w.mark(id):
		w.doubled++
		return
	case !known:
		return
	}
	delete(w.waiting, id)
	switch {
	case dead && q.target == "payroll":
		w.deadLettered++
		w.stories.dead(id, r)
	case dead || q.target != r.Topic:
		w.misplaced++
	default:
		w.delivered++
		late := now.Sub(time.UnixMilli(q.due))
		if late < 0 || r.Timestamp.UnixMilli() < q.due || number(r, topics.HeaderDue) != q.due {
			w.early++
		}
		_ = w.lateness.RecordValue(max(1, late.Microseconds())) // what is beyond the scale is late enough to be seen
		w.show(arrival{request: q, late: late})
	}
}

// mark notes that an id has arrived, and reports whether it had before.
func (w *watch) mark(id int64) bool {
	for int64(len(w.seen)) <= id/64 {
		w.seen = append(w.seen, 0)
	}
	before := w.seen[id/64]
	w.seen[id/64] |= 1 << (id % 64)
	return before == w.seen[id/64]
}

func (w *watch) show(a arrival) {
	w.latest = slices.Insert(w.latest, 0, a)
	w.latest = w.latest[:min(len(w.latest), latestKept)]
}

// number is a header's decimal value; -1 when there is none.
func number(r *kgo.Record, header string) int64 {
	for _, h := range slices.Backward(r.Headers) {
		if h.Key == header {
			if n, err := strconv.ParseInt(string(h.Value), 10, 64); err == nil {
				return n
			}
			return -1
		}
	}
	return -1
}

func partitionName(topic string, partition int32) string {
	return fmt.Sprintf("%s/%d", topic, partition)
}

// waitForDue returns when everything due at or before cut (ms) has arrived, or the grace is over.
func (w *watch) waitForDue(cut int64, grace time.Duration) {
	w.wait(grace, func() bool { return w.missing(cut) == 0 })
}

// waitForOffset returns when a partition has been seen up to end, or the grace is over.
func (w *watch) waitForOffset(topic string, partition int32, end int64, grace time.Duration) {
	w.wait(grace, func() bool { return w.positions[partitionName(topic, partition)] >= end })
}

func (w *watch) wait(grace time.Duration, done func() bool) {
	timeout := time.After(grace)
	for {
		w.mu.Lock()
		ok, changed := done(), w.changed
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

// missing counts what was due at or before cut and has not arrived. Called with mu held.
func (w *watch) missing(cut int64) int {
	n := 0
	for _, q := range w.waiting {
		if q.due <= cut {
			n++
		}
	}
	return n
}

// soonest returns the next n that wait, of one in every, so that a countdown can be followed; and
// the n that wait longest.
func (w *watch) soonest(n, every int) (next, far []request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := make([]request, 0, len(w.waiting))
	for _, q := range w.waiting {
		all = append(all, q)
	}
	slices.SortFunc(all, func(a, b request) int { return cmp.Or(cmp.Compare(a.due, b.due), cmp.Compare(a.id, b.id)) })
	rest := all
	for i, q := range all {
		if len(next) == n {
			break
		}
		if q.id%int64(every) == 0 {
			next, rest = append(next, q), all[i+1:]
		}
	}
	return next, slices.Clone(rest[max(0, len(rest)-n):])
}

// counts is what the screen shows.
type counts struct {
	asked, delivered, doubled, early, misplaced, deadLettered, yours int
	p50, p99, max                                                    time.Duration
	latest                                                           []arrival
}

func (w *watch) counts() counts {
	w.mu.Lock()
	defer w.mu.Unlock()
	µs := func(v int64) time.Duration { return time.Duration(v) * time.Microsecond }
	return counts{
		asked: int(w.nextID), delivered: w.delivered, doubled: w.doubled, early: w.early, misplaced: w.misplaced,
		deadLettered: w.deadLettered, yours: w.yours,
		p50: µs(w.lateness.ValueAtPercentile(50)), p99: µs(w.lateness.ValueAtPercentile(99)), max: µs(w.lateness.Max()),
		latest: slices.Clone(w.latest),
	}
}

// summary is the last line, and whether the demo kept its promises.
func (w *watch) summary(cut int64) (string, bool) {
	c := w.counts()
	w.mu.Lock()
	missing, pending := w.missing(cut), len(w.waiting)
	w.mu.Unlock()
	var wrong []string
	for _, p := range []struct {
		n    int
		what string
	}{{missing, "missing"}, {c.doubled, "delivered twice"}, {c.early, "early"}, {c.misplaced, "in the wrong topic"}} {
		if p.n > 0 {
			wrong = append(wrong, fmt.Sprintf("%d %s", p.n, p.what))
		}
	}
	cancelled, retried, faults := w.stories.ends()
	if wrong = append(wrong, faults...); len(wrong) > 0 {
		return fmt.Sprintf("demo: FAILED: %s (%d delivered, %d dead-lettered)", strings.Join(wrong, ", "), c.delivered, c.deadLettered), false
	}
	return fmt.Sprintf("demo: ok: all %d due were delivered exactly once, none early (lateness p50 %s, p99 %s); %d dead-lettered, %d cancelled, %d retried, %d not due yet",
		c.delivered, millis(c.p50), millis(c.p99), c.deadLettered, cancelled, retried, pending), true
}

// millis prints a duration as people compare it: 2.1 ms.
func millis(d time.Duration) string {
	return strconv.FormatFloat(float64(d.Microseconds())/1000, 'f', 1, 64) + " ms"
}

package ahead

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/wait"
	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
)

// These errors can be returned when looking at a partition, besides those of state.ParseCheckpoint, of a parser that is not known, and of
// brokers.
var (
	// ErrBeyondLog: the log ends below O.
	ErrBeyondLog = errors.New("ahead: the checkpoint lies beyond the end of the log")
	// ErrMoving: checkpoint or log were set back, or cut, each time while they were read.
	ErrMoving = errors.New("ahead: the checkpoint was set back, or the log was cut, while it was read")
)

// Looker looks at partitions of delay topics as one group has them. It may be used by many goroutines.
type Looker struct {
	Client   *kgo.Client
	Group    string
	Identity string        // what the group goes by where it has no checkpoint that says so; empty: its name
	Skew     time.Duration // clocks may differ by this much
	Now      time.Time
	// Route is what the configuration says of a topic; nil: nothing.
	Route func(topic string) *topics.Route
	// Chosen is as in Env.
	Chosen func(r *kgo.Record, q *topics.Request) bool
	// Enough ends the reading of a queue, whose records come in the order in which they are delivered. What it returns is asked after each
	// one of a partition that waits, chosen or not, whether there is enough. nil: never.
	Enough func() func(last Pending, chosen bool) bool
	// Watch is what Trace is to tell of in each partition.
	Watch Watch
	// Progress is told how many offsets were passed, and how many more there are than it was told before. It may be nil.
	Progress func(passed, more int64)

	once        sync.Once
	coordinator *kafka.Coordinator
	away        trouble // with it
	led         *leaders

	mu        sync.Mutex
	settledBy time.Time // until then it waits for transactions; zero: it has met none that was open
}

// Looked is what was found of a partition.
type Looked struct {
	*Partition
	kafka.TopicPartition
	ID      kafka.TopicID
	Bounds  kafka.Bounds
	Fresh   bool  // there is no checkpoint: all that the log has is new
	Anew    bool  // the checkpoint is of another topic of this name
	Lost    bool  // the log begins above L, so it has lost what was pending
	Needed  int64 // with Lost: L, from which on it is
	Records int64 // that were read
	Stopped bool  // there was enough before the end
	Open    bool  // a transaction was open for long: what lies in it or behind it was not read, and may be of the checkpoint
	ReadTo  int64

	identity string
}

const (
	tries   = 5      // how often it begins anew
	rounds  = 20     // how often it asks whether O has moved
	nearEnd = 10_000 // offsets: so near to O the rest is read at once

	settling = 2 * time.Second // for so long transactions are waited for, of all partitions together
)

// Look finds out what is pending in a partition.
func (l *Looker) Look(ctx context.Context, tp kafka.TopicPartition, id kafka.TopicID) (*Looked, error) {
	return settled(tp, func() (*Looked, error) { return l.try(ctx, tp, id) })
}

// settled is what was found of a partition when neither checkpoint nor log were set back or cut meanwhile.
func settled(tp kafka.TopicPartition, try func() (*Looked, error)) (*Looked, error) {
	for range tries {
		got, err := try()
		if !errors.Is(err, ErrMoving) && !errors.Is(err, kerr.OffsetOutOfRange) {
			return got, err
		}
	}
	return nil, fmt.Errorf("%w: %s", ErrMoving, tp)
}

// place makes a partition of its checkpoint.
func (l *Looker) place(ctx context.Context, tp kafka.TopicPartition, id kafka.TopicID, until time.Time) (*Looked, state.Checkpoint, error) {
	got := &Looked{TopicPartition: tp, ID: id, identity: cmp.Or(l.Identity, l.Group)}
	c, err := l.checkpoint(ctx, got, until)
	if err != nil {
		return nil, c, err
	}
	if got.Partition, err = New(l.env(got), c, got.Bounds.High); err != nil {
		return nil, c, fmt.Errorf("checkpoint of %s: %w", tp, err)
	}
	return got, c, nil
}

func (l *Looker) try(ctx context.Context, tp kafka.TopicPartition, id kafka.TopicID) (*Looked, error) {
	until := time.Now().Add(settling)
	got, c, err := l.place(ctx, tp, id, until)
	if err != nil {
		return nil, err
	}
	got.LogBegins(got.Bounds.Start)
	if c.LowWater >= got.Bounds.Stable {
		return got, nil // nothing is pending, nor new
	}
	r := reader{Looker: l, got: got}
	if l.Enough != nil {
		r.enough = l.Enough()
	}
	r.expect(got.Bounds.Stable)
	for range rounds {
		if err := r.read(ctx, min(c.Offset, got.Bounds.Stable)); err != nil {
			return nil, err
		}
		if c, err = l.checkpoint(ctx, got, until); err != nil {
			return nil, err
		}
		if ok, err := got.Follow(c, got.Bounds.High); err != nil || !ok {
			return nil, errors.Join(err, fmt.Errorf("%w: %s", ErrMoving, tp))
		}
		if got.Queue() || c.Offset-got.Position() < nearEnd {
			break
		}
	}
	for _, to := range []int64{c.Offset, got.Bounds.Stable} {
		r.expect(to)
		if err := r.read(ctx, min(to, got.Bounds.Stable)); err != nil {
			return nil, err
		}
	}
	got.ReadTo = got.Position()
	got.Decide()
	return got, nil
}

// Trace finds out what has become of the record at an offset, which is watched. It reads what lies behind that, and ends at a time: then
// Stopped is set, and what lies at or above ReadTo may have taken the record away. At or above O what lies before it has a say, too: for half of
// the time that is read, and if it is more, Blind reports so. Of one that the log has lost there is a fate if it was carried and a copy was found.
func (l *Looker) Trace(ctx context.Context, tp kafka.TopicPartition, id kafka.TopicID, until time.Time) (*Looked, error) {
	return settled(tp, func() (*Looked, error) { return l.trace(ctx, tp, id, until) })
}

func (l *Looker) trace(ctx context.Context, tp kafka.TopicPartition, id kafka.TopicID, until time.Time) (*Looked, error) {
	got, c, err := l.place(ctx, tp, id, until)
	if err != nil {
		return nil, err
	}
	got.LogBegins(got.Bounds.Start)
	at := min(l.Watch.Offset, got.Bounds.Stable)
	if at < c.Offset && at >= got.Bounds.Start {
		got.position = at // what lies before it has no say; of what the log has lost a copy may be pending
	}
	now := time.Now()
	r := reader{Looker: l, got: got, until: now.Add(until.Sub(now) / 2)}
	r.expect(got.Bounds.Stable)
	if err := r.read(ctx, at); err != nil {
		return nil, err
	}
	if got.Stopped {
		if got.Partition, err = New(l.env(got), c, got.Bounds.High); err != nil {
			return nil, fmt.Errorf("checkpoint of %s: %w", tp, err)
		}
		got.LogBegins(got.Bounds.Start)
		got.position, got.blind = at, true // although what lies before it has a say
		got.Stopped = false
	}
	r.until = until
	if err := r.read(ctx, got.Bounds.Stable); err != nil {
		return nil, err
	}
	got.ReadTo = got.Position()
	got.Decide()
	return got, nil
}

func (l *Looker) env(got *Looked) Env {
	env := Env{Mark: got.Mark(), Skew: l.Skew.Milliseconds(), Now: l.Now.UnixMilli(), Chosen: l.Chosen, Watch: l.Watch}
	if l.Route != nil {
		env.Route = l.Route(got.Topic)
	}
	return env
}

// checkpoint asks for the checkpoint, and then where the log lies, and sorts what can be wrong with them.
func (l *Looker) checkpoint(ctx context.Context, got *Looked, until time.Time) (state.Checkpoint, error) {
	tp := got.TopicPartition
	fetched, err := l.fetched(ctx, got)
	if err != nil {
		return state.Checkpoint{}, err
	}
	if got.Bounds, err = l.Bounds(ctx, tp); err != nil {
		return state.Checkpoint{}, err
	}
	if err := l.settle(ctx, got, until); err != nil {
		return state.Checkpoint{}, err
	}
	start := got.Bounds.Start
	fresh := state.Checkpoint{TopicID: got.ID.Short(), Offset: start, LowWater: start}
	got.Fresh, got.Anew, got.Lost = fetched.Offset < 0, false, false
	if got.Fresh {
		return fresh, nil
	}
	c, err := state.ParseCheckpoint(fetched.Offset, fetched.Epoch, fetched.Metadata)
	switch {
	case err != nil:
		return c, fmt.Errorf("checkpoint of %s: %w", tp, err)
	case c.TopicID != got.ID.Short():
		got.Anew = true
		return fresh, nil
	case c.Offset > got.Bounds.High:
		return c, fmt.Errorf("%w: %s is at offset %d and the log ends at %d", ErrBeyondLog, tp, c.Offset, got.Bounds.High)
	case c.LowWater < start:
		switch again, err := l.fetched(ctx, got); {
		case err != nil:
			return c, err
		case lowWaterOf(again) >= start:
			return c, fmt.Errorf("%w: %s", ErrMoving, tp) // an owner has trimmed it since
		}
		got.Lost, got.Needed = true, c.LowWater
		c.LowWater, c.Offset = start, max(c.Offset, start)
	}
	got.identity = cmp.Or(c.Identity, l.Group)
	return c, nil
}

// Mark is that of what the group writes into the partition for itself.
func (l *Looked) Mark() topics.Mark {
	return topics.NewMark(l.ID.Short(), l.identity, l.TopicPartition.Partition)
}

// lowWaterOf is that of a checkpoint; -1 where none can be read.
func lowWaterOf(f kafka.Fetched) int64 {
	c, err := state.ParseCheckpoint(f.Offset, f.Epoch, f.Metadata)
	if f.Offset < 0 || err != nil {
		return -1
	}
	return c.LowWater
}

// settle waits until the transactions have ended that were open in a log when its checkpoint was asked for. Brokers end a transaction in each
// partition by itself, so the one that has brought the checkpoint may be open in the log still: what it has resolved would seem to wait, and a copy that
// stands for what it has passed would not be seen. One that is open for long is some producer's.
func (l *Looker) settle(ctx context.Context, got *Looked, until time.Time) (err error) {
	high := got.Bounds.High
	got.Open = got.Bounds.Stable < high
	for got.Open && time.Now().Before(l.settles(until)) && wait.For(ctx, 5*time.Millisecond) {
		if got.Bounds, err = l.Bounds(ctx, got.TopicPartition); err != nil {
			return err
		}
		got.Open = got.Bounds.Stable < high
	}
	return ctx.Err()
}

// settles is until when a transaction is waited for.
func (l *Looker) settles(until time.Time) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.settledBy.IsZero() {
		l.settledBy = time.Now().Add(settling)
	}
	if until.Before(l.settledBy) {
		return until
	}
	return l.settledBy
}

// begin makes what is needed to ask.
func (l *Looker) begin() {
	l.once.Do(func() { l.coordinator, l.led = kafka.NewCoordinator(l.Group), &leaders{cl: l.Client} })
}

func (l *Looker) leaders() *leaders {
	l.begin()
	return l.led
}

// Bounds asks where the log of a partition begins and ends.
func (l *Looker) Bounds(ctx context.Context, tp kafka.TopicPartition) (b kafka.Bounds, err error) {
	err = l.leaders().ask(ctx, tp, func(leader *kgo.Broker) (err error) {
		asking, cancel := context.WithTimeout(ctx, kafka.RequestTimeout)
		defer cancel()
		b, err = kafka.BoundsOf(asking, leader, tp)
		return err
	})
	return b, err
}

// patience is how long a group may have no coordinator, or partitions no leader.
const patience = 15 * time.Second

// fetched is what the group has committed, whatever transaction is open.
func (l *Looker) fetched(ctx context.Context, got *Looked) (kafka.Fetched, error) {
	l.begin()
	tp := got.TopicPartition
	for tries := 1; ; tries++ {
		all, err := l.coordinator.Fetch(ctx, l.Client, map[kafka.TopicPartition]kafka.TopicID{tp: got.ID}, false)
		f, has := all[tp]
		switch {
		case err == nil && !has:
			err = fmt.Errorf("checkpoint of %s: not in the answer", tp)
		case err == nil && f.Err != nil:
			err = fmt.Errorf("checkpoint of %s: %w", tp, f.Err)
		case err == nil:
			if tries > 1 {
				l.away.over()
			}
			return f, nil
		}
		if errors.Is(err, kerr.GroupIDNotFound) { // such a group has committed nothing
			return kafka.Fetched{Offset: -1}, nil
		}
		if !kafka.IsPassing(err) || l.away.lasts() || !wait.For(ctx, 250*time.Millisecond) {
			return f, err
		}
	}
}

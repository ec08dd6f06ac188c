package processor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/assignor"
	"github.com/duewheel/duewheel/processor/group"
	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/pending"
	"github.com/duewheel/duewheel/processor/producer"
	"github.com/duewheel/duewheel/processor/wait"
	"github.com/duewheel/duewheel/state"
)

// lane is one member of the group: it reads its partitions, keeps their pending records and
// delivers them. One goroutine owns it all; every other goroutine hands over to it on a
// channel.
type lane struct {
	// Set once.
	kit
	memory memory

	// Handed over from other goroutines.
	restored  chan restored
	decided   chan *turn
	committed chan *turn
	uneven    wait.Wake // asked by the standbys for a rebalance

	stepped  atomic.Pointer[time.Time] // when the loop last took a step
	standing group.Standing

	// Owned by the lane's goroutine.
	producers   producers
	reading     reading
	ends        ends
	group       *group.Group
	membership  membership
	parts       map[topicPartition]*partition
	order       []*partition // parts in a fixed order, for turns to take in rotation
	restores    map[*restore]struct{}
	turn        *turn     // in flight
	ahead       *turn     // rendered while that is in flight, because more was due than fitted into it
	commit      *turn     // checkpoints alone, beside that (at_least_once)
	batch       batch     // how much a turn takes
	pace        pace      // and how soon it follows another
	resizedAt   time.Time // when it was last said that turns are made smaller
	timeouts    int       // turns in a row that ran out of time
	narrowing   bool      // there may be suspects (suspect.go)
	lost        lost      // time, to the search for those to blame
	aborts      int       // turns in a row that were given up
	unanswered  unanswered
	refusals    int                              // commits of checkpoints in a row of which none was taken
	refusedFor  string                           // what the log says of them
	stopping    bool                             // nothing may begin any more
	draining    bool                             // nothing may begin when the turn in flight is decided
	served      int                              // how often partitions were asked for what is due
	due         []*partition                     // scratch of that
	spare       [][]pending.Item                 // memory of parts that have been settled
	failing     map[topicPartition]*wait.Backoff // partitions that started over because something failed
	unknowns    wait.Backoff                     // turns with unknown outcome
	stays       wait.Backoff                     // stays in the group that were ended
	balancedAt  time.Time
	readAgainAt time.Time // when a partition without a store was last read again
	tidiedAt    time.Time
	wg          sync.WaitGroup // goroutines that the lane has started
}

// membership is the lane's stay in its group.
type membership interface {
	Member() kafka.Member
	Rebalance()
	Leave()
	Left() <-chan struct{}
}

func newLane(p *Processor, n int) *lane {
	l := &lane{
		kit: kit{
			p: p, cfg: &p.cfg, n: n,
			log:         p.cfg.Logger.With("lane", n),
			events:      events{p.cfg.Events, n},
			coordinator: kafka.NewCoordinator(p.cfg.Group),
			quota:       &quota{},
			windowMax:   p.cfg.NearWindow.Milliseconds(),
		},
		restored:  make(chan restored),
		decided:   make(chan *turn, 1),
		committed: make(chan *turn, 1),
		uneven:    wait.NewWake(),
		parts:     map[topicPartition]*partition{},
		restores:  map[*restore]struct{}{},
		failing:   map[topicPartition]*wait.Backoff{},
	}
	l.memory.budget, l.memory.widest, l.memory.window = p.nearBudget()/int64(p.cfg.Lanes), l.windowMax, l.windowMax
	l.batch = l.most()
	l.pace = pace{fixed: p.cfg.TurnInterval, freely: p.cfg.Guarantee == AtLeastOnce}
	if p.cfg.Guarantee == ExactlyOnce {
		l.writer = producer.Writer(p.cfg.Group, p.cfg.Instance, n)
	}
	return l
}

// run works until ctx ends, then finishes the open turn, writes the checkpoints and leaves.
func (l *lane) run(ctx context.Context) (err error) {
	cl, closeReader, err := kafka.NewReader(l.cfg.Client, l.p.fetchBytes())
	if err != nil {
		return fmt.Errorf("make reader: %w", err)
	}
	defer closeReader()
	l.equip(cl)
	defer l.group.Wait()
	defer l.producers.close()
	defer l.wg.Wait()
	if err = kafka.AwaitVersions(ctx, l.reader, l.cfg.Guarantee == ExactlyOnce, l.log); err != nil || ctx.Err() != nil {
		return err
	}
	// The group is joined when there is a producer to deliver with.
	if err = l.producers.start(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	l.standing.Await(errAwaitsTime)
	if !l.p.clock.Await(ctx) {
		return nil
	}
	l.standing.Await(nil)
	if err = l.group.AwaitProtocol(ctx, l.reader); err != nil || ctx.Err() != nil {
		return err
	}
	if l.membership, err = l.group.Join(); err != nil {
		return err
	}
	for ctx.Err() == nil {
		if err := l.step(ctx); err != nil {
			return err
		}
		l.wait(ctx)
	}
	l.shutdown()
	return nil
}

// equip gives the lane what works with its reader.
func (l *lane) equip(reader *kgo.Client) {
	l.reader = reader
	l.group = group.New(l.groupConfig(), &l.standing)
	l.producers = producers{kit: &l.kit, standing: &l.standing, wg: &l.wg, renewed: make(chan error, 1)}
	l.reading = reading{cl: reader, wg: &l.wg, fetched: make(chan kgo.Fetches, 1)}
	l.ends = ends{cl: reader, log: l.log, wg: &l.wg, answers: make(chan logEnds, 1)}
}

// errAwaitsTime is what a lane says of itself while it does not know what time it is.
var errAwaitsTime = errors.New("processor: waiting for the brokers to say what time it is")

// groupConfig is what the lane is as a member of its group.
func (l *lane) groupConfig() group.Config {
	var names []string
	for _, r := range l.cfg.Routes {
		names = append(names, r.Topic)
	}
	id := kafka.ClientID(l.reader)
	return group.Config{
		Client: l.cfg.Client, Group: l.cfg.Group, Topics: names, Protocol: l.cfg.Protocol, InstanceID: l.cfg.InstanceID, Number: l.n,
		ClientID:       assignor.ClientID(id, l.cfg.Instance, l.n),
		Balancer:       assignor.New(assignor.Replica(id, l.cfg.Instance), l.cfg.Standbys, l.p.holds),
		SessionTimeout: l.cfg.SessionTimeout, HeartbeatInterval: l.cfg.HeartbeatInterval,
		// A revocation waits for a turn, which TurnTimeout bounds.
		RebalanceTimeout: max(l.cfg.SessionTimeout, l.cfg.TurnTimeout+2*time.Second),
		Until:            l.p.until, Log: l.log,
	}
}

// step does everything that can be done now without waiting.
func (l *lane) step(ctx context.Context) error {
	now := l.p.clock.Now()
	stepped := time.Now()
	l.stepped.Store(&stepped)
	if time.Since(l.balancedAt) >= 5*time.Millisecond {
		l.balancedAt = time.Now()
		if err := l.balance(now); err != nil {
			l.storeFailed(ctx, err)
		}
	}
	limit := l.p.clock.Limit()
	for _, p := range l.order {
		if !p.live() {
			continue
		}
		p.Trust(limit)
		if err := p.Load(now, l.memory.room(len(l.order))); err != nil {
			l.restart(ctx, p, err)
			return nil // order has changed
		}
	}
	l.settleCatchUps(ctx, now)
	l.beginCommit(ctx)
	l.beginTurn(ctx, now)
	if time.Since(l.tidiedAt) >= 250*time.Millisecond {
		l.tidiedAt = time.Now()
		l.tidy(ctx, now)
	}
	l.reading.poll(ctx)
	return nil
}

// balance keeps the near records inside the lane's memory. A live partition that still holds too much
// pauses reading. One that is not live never does, since nothing would drain it.
func (l *lane) balance(now int64) error {
	if err := l.memory.fit(l.order, now); err != nil {
		return err
	}
	l.reading.throttle(l.order, now, l.memory.room(len(l.order)))
	return nil
}

// wait waits for the next thing to happen and takes it in.
func (l *lane) wait(ctx context.Context) {
	timer := time.NewTimer(l.pause())
	defer timer.Stop()
	select {
	case fs := <-l.reading.fetched:
		l.acceptAll(ctx, fs)
	case h := <-l.group.Handovers():
		l.take(ctx, h)
		h.Done()
	case r := <-l.restored:
		l.adopt(ctx, r)
	case t := <-l.decided:
		l.took(ctx, t)
	case t := <-l.committed:
		l.tookCommit(ctx, t)
	case <-l.producers.renewed:
		l.producers.renewing = false
	case a := <-l.ends.answers:
		l.ends.answered(a, l.p.clock.Now())
	case <-l.uneven:
		l.membership.Rebalance()
	case <-timer.C:
	case <-ctx.Done():
	}
}

// pause is how long nothing has to be done: until the next record is due, exactly, or the next
// look at whether a checkpoint is to be written.
func (l *lane) pause() time.Duration {
	pause := 100 * time.Millisecond
	if l.turn != nil || l.producers.renewing {
		return pause // its end wakes us
	}
	if throttled := l.quota.left(); throttled > 0 {
		return min(pause, throttled)
	}
	due := pause
	for _, p := range l.order {
		if at, ok := p.nextDue(); ok {
			due = min(due, l.p.clock.Until(at))
		}
	}
	return min(pause, max(due, l.pace.left(time.Now()), leastPause))
}

// leastPause keeps a lane from spinning while something is due that cannot be tried yet.
const leastPause = 200 * time.Microsecond

// stopPoll takes in what the reader has, and leaves it alone: only then may partitions be added
// or removed, so that nothing from before turns up after.
func (l *lane) stopPoll(ctx context.Context) {
	if fs, polled := l.reading.stop(); polled {
		l.acceptAll(ctx, fs)
	}
}

// acceptAll takes in what was read.
func (l *lane) acceptAll(ctx context.Context, fs kgo.Fetches) {
	l.reading.ended()
	now := l.p.clock.Now()
	var failed []*partition
	var why []error
	fs.EachPartition(func(ftp kgo.FetchTopicPartition) {
		p := l.parts[topicPartition{Topic: ftp.Topic, Partition: ftp.Partition}]
		if p == nil || p.phase == PhaseStopped {
			for _, r := range ftp.Records {
				r.Recycle()
			}
			return
		}
		if len(ftp.Records) > 0 {
			p.readAt = time.Now()
		}
		err := ftp.Err
		for _, r := range ftp.Records {
			if err == nil {
				err = l.without(p, l.accept(p, r, now))
			}
			r.Recycle() // what was accepted has been copied
		}
		if err == nil {
			p.unread = nil
			err = l.without(p, p.Sync())
		}
		if err != nil && !kafka.IsShutdown(err) && !errors.Is(err, context.DeadlineExceeded) {
			failed, why = append(failed, p), append(why, err)
		}
	})
	for i, p := range failed {
		switch {
		case l.parts[p.tp] != p: // started over with another one
		case kafka.IsTopicGone(why[i]):
			l.restartTopic(ctx, p.tp.Topic, why[i])
		case kafka.IsRefusedFetch(why[i]):
			p.restReading(why[i])
		default:
			l.restart(ctx, p, why[i])
		}
	}
}

// storeFailed makes every partition go on without the store. One that is being read has counted
// what the store held, so it is read from its low water on.
func (l *lane) storeFailed(ctx context.Context, err error) {
	l.p.store.failed(err)
	for _, p := range slices.Clone(l.order) { // which changes meanwhile
		switch {
		case !p.opened() || !p.HasStore():
		case p.live():
			p.Forgo()
		default:
			l.startOver(ctx, p, 0)
		}
	}
}

// without makes a live partition go on without the store when that is what the error asks for; the
// others do when they meet the failure, too.
func (l *lane) without(p *partition, err error) error {
	if err == nil || !p.live() || !errors.Is(err, state.ErrFailed) {
		return err
	}
	l.p.store.failed(err)
	p.Forgo()
	return nil
}

package processor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/assignor"
	"github.com/duewheel/duewheel/processor/group"
	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/producer"
	"github.com/duewheel/duewheel/processor/restore"
	"github.com/duewheel/duewheel/processor/retention"
	"github.com/duewheel/duewheel/processor/turn"
	"github.com/duewheel/duewheel/processor/wait"
)

// lane is one member of the group: it reads its partitions, keeps their pending records and
// delivers them. One goroutine owns it all; every other goroutine hands over to it on a
// channel.
type lane struct {
	kit

	// For other goroutines, too.
	standing group.Standing
	stepped  atomic.Pointer[time.Time] // when the loop last took a step
	excerpts chan *retention.Excerpt   // of what is to be carried, one at a time

	// Owned by the lane's goroutine.
	group       *group.Group
	membership  membership
	partitions  map[kafka.TopicPartition]*partition
	order       []*partition // the same in a fixed order, for turns to take in rotation
	memory      memory
	reading     reading
	restores    *restore.Set
	ends        ends
	producers   producers
	selection   selection
	checkpoints checkpoints
	turns       turns
	unknowns    wait.Backoff // turns with unknown outcome
	stays       wait.Backoff // stays in the group that were ended
	balancedAt  time.Time
	readAgainAt time.Time // when a partition without a store was last read again
	tidiedAt    time.Time
	stint       stint
	settling    bool // another partition may become live in the next step
	enlivens    bool // one needs more than one step for that
	catchUps    catchUps
}

func newLane(p *Processor, n int) *lane {
	l := &lane{partitions: map[kafka.TopicPartition]*partition{}, excerpts: make(chan *retention.Excerpt)}
	l.kit = kit{
		shared: &p.shared, n: n,
		log:         p.cfg.Logger.With("lane", n),
		events:      events{p.cfg.Events, n},
		coordinator: kafka.NewCoordinator(p.cfg.Group),
		quota:       &producer.Quota{},
		wg:          &sync.WaitGroup{},
		windowMax:   p.cfg.NearWindow.Milliseconds(),
	}
	if p.cfg.Guarantee == ExactlyOnce {
		l.writer = producer.Writer(p.cfg.Group, p.cfg.Instance, n)
	}
	l.stint.took = &p.counters.work
	l.memory.budget, l.memory.widest, l.memory.window = p.cfg.nearBudget()/int64(p.cfg.Lanes), l.windowMax, l.windowMax
	l.catchUps = catchUps{log: l.log}
	l.producers = producers{kit: &l.kit, standing: &l.standing, renewed: make(chan error, 1)}
	l.selection = newSelection(&l.kit)
	l.checkpoints = checkpoints{kit: &l.kit, committed: make(chan *turn.Turn, 1)}
	l.turns = turns{
		kit: &l.kit, producers: &l.producers, selection: &l.selection, checkpoints: &l.checkpoints, decided: make(chan *turn.Turn, 1),
		pace: pace{fixed: p.cfg.TurnInterval, freely: p.cfg.Guarantee == AtLeastOnce},
	}
	return l
}

// run works until ctx ends, then finishes the open turn, writes the checkpoints and leaves.
func (l *lane) run(ctx context.Context) error {
	cl, closeReader, err := kafka.NewReader(l.cfg.Client, l.cfg.fetchBytes())
	if err != nil {
		return fmt.Errorf("make reader: %w", err)
	}
	l.equip(cl)
	err = l.work(ctx)
	// Not deferred: a panic must end the process, and would wait here for what goes on.
	l.wg.Wait()
	l.producers.close()
	l.group.Wait()
	closeReader()
	return err
}

// work joins the group when there is a producer to deliver with, and does what the lane is for until ctx ends.
func (l *lane) work(ctx context.Context) (err error) {
	epochs, err := kafka.AwaitVersions(ctx, l.reader, l.cfg.Guarantee == ExactlyOnce, l.log)
	if err != nil || ctx.Err() != nil {
		return err
	}
	l.epochs.Tell(epochs)
	if err = l.producers.start(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	l.standing.Await(errAwaitsTime)
	if !l.clock.Await(ctx) {
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
		l.step(ctx)
		l.wait(ctx)
	}
	l.shutdown()
	return nil
}

// equip gives the lane what works with its reader.
func (l *lane) equip(reader *kgo.Client) {
	l.reader = reader
	l.group = group.New(l.groupConfig(), &l.standing)
	l.reading = reading{cl: reader, wg: l.wg, fetched: make(chan kgo.Fetches, 1)}
	l.restores = restore.New(l.restoreEnv(), l.wg)
	l.ends = ends{cl: reader, log: l.log, wg: l.wg, answers: make(chan logEnds, 1), lasting: l.cfg.SessionTimeout}
}

// errAwaitsTime is what a lane says of itself while it does not know what time it is.
var errAwaitsTime = errors.New("processor: waiting for the brokers to say what time it is")

// groupConfig is what the lane is as a member of its group.
func (k *kit) groupConfig() group.Config {
	var names []string
	for _, r := range k.cfg.Routes {
		names = append(names, r.Topic)
	}
	id := kafka.ClientID(k.reader)
	return group.Config{
		Client: k.cfg.Client, Group: k.cfg.Group, Topics: names, Protocol: k.cfg.Protocol, InstanceID: k.cfg.InstanceID, Number: k.n,
		ClientID: assignor.ClientID(id, k.cfg.Instance, k.n),
		Balancer: func() kgo.GroupBalancer {
			return assignor.New(assignor.Replica(id, k.cfg.Instance), k.cfg.Standbys, k.holds)
		},
		SessionTimeout: k.cfg.SessionTimeout, HeartbeatInterval: k.cfg.HeartbeatInterval,
		// A revocation waits for a turn, which TurnTimeout bounds.
		RebalanceTimeout: max(k.cfg.SessionTimeout, k.cfg.TurnTimeout+2*time.Second),
		Until:            k.until, Log: k.log,
	}
}

// step does everything that can be done now without waiting.
func (l *lane) step(ctx context.Context) {
	now := l.clock.Now()
	l.stint.begin()
	stepped := l.stint.began
	l.stepped.Store(&stepped)
	room := l.store.HasRoom()
	if time.Since(l.balancedAt) >= balanceEvery {
		l.balancedAt = time.Now()
		if err := l.memory.fit(l.order, now, room); err != nil {
			l.storeFailed(ctx, err)
		}
		l.reading.throttle(l.order, now, l.memory.room(len(l.order)))
		l.stint.end(workSpill)
	}
	limit := l.clock.Limit()
	for _, p := range l.order {
		if p.live() {
			p.Trust(limit)
		}
	}
	if p, err := l.memory.load(l.order, now); err != nil {
		l.restart(ctx, p, err)
		return // order has changed
	}
	l.stint.end(workLoad)
	l.settleCatchUps(ctx, now, room)
	l.stint.end(workLive)
	l.checkpoints.begin(l.order, l.membership)
	l.turns.begin(l.order, now, l.membership)
	l.stint.end(workTurn)
	if time.Since(l.tidiedAt) >= 250*time.Millisecond {
		l.tidiedAt = time.Now()
		l.tidy(ctx, now)
		l.stint.end(workTidy)
	}
	l.reading.poll(ctx, room)
}

// wait waits for the next thing to happen and takes it in.
func (l *lane) wait(ctx context.Context) {
	pause := min(l.turns.pause(l.order), l.reading.pause(), l.memory.pause())
	if l.settling {
		pause = min(pause, leastPause)
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case fs := <-l.reading.fetched:
		l.stint.spend(workAccept, func() { l.acceptAll(ctx, fs) })
	case h := <-l.group.Handovers():
		l.stint.spend(workMove, func() { l.take(ctx, h) })
		h.Done()
	case r := <-l.restores.Restored:
		l.stint.spend(workMove, func() { l.adopt(ctx, r) })
	case t := <-l.turns.decided:
		l.stint.spend(workTurn, func() { l.turnDecided(ctx, t) })
	case t := <-l.checkpoints.committed:
		l.stint.spend(workTurn, func() { l.commitDecided(ctx, t) })
	case x := <-l.excerpts:
		l.stint.spend(workTurn, func() { l.turns.take(x, l.order) })
	case <-l.producers.renewed:
		l.producers.renewing = false
	case a := <-l.ends.answers:
		l.ends.answered(a, l.clock.Now())
		beheading{l}.heard()
	case <-l.uneven:
		l.membership.Rebalance()
	case <-timer.C:
	case <-ctx.Done():
	}
}

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
	now := l.clock.Now()
	var failed []*partition
	var why []error
	fs.EachPartition(func(ftp kgo.FetchTopicPartition) {
		p := l.partitions[kafka.TopicPartition{Topic: ftp.Topic, Partition: ftp.Partition}]
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
		if errors.Is(err, kafka.ErrCut) {
			err = nil
		}
		if err == nil {
			err = l.without(p, p.Expect(ftp.Records))
		}
		if len(ftp.Records) > 0 {
			err = l.intake(p).all(ftp.Records, now, err)
		}
		if err == nil {
			p.unread.Read()
			err = l.without(p, p.Sync())
		}
		if err != nil && !kafka.IsShutdown(err) && !errors.Is(err, context.DeadlineExceeded) {
			failed, why = append(failed, p), append(why, err)
		}
	})
	for i, p := range failed {
		switch {
		case l.partitions[p.tp] != p: // started over with another one
		case kafka.IsRefusedFetch(why[i]):
			l.refused(ctx, p, why[i])
		case errors.Is(why[i], kerr.OffsetOutOfRange) && p.live() && holds(p):
			beheading{l}.begin(p)
		default:
			l.restart(ctx, p, why[i])
		}
	}
}

// refused leaves a partition alone for a while that brokers do not let be read. What was read before is as good as ever, and is
// delivered, unless the topic is gone.
func (l *lane) refused(ctx context.Context, p *partition, why error) {
	p.unread.Refused(l.reader, p.tp, why)
	if p.unread.Gone() {
		l.restartTopics(ctx, map[string]error{p.tp.Topic: why})
		return
	}
	if why := p.unread.News(l.cfg.SessionTimeout); why != nil {
		p.log.Warn("partition cannot be read; trying again", "error", why)
	}
	l.balancedAt = time.Time{} // it is paused before the next poll
}

// storeFailed makes every partition go on without the store. One that is being read has counted
// what the store held, so it is read from its low water on.
func (l *lane) storeFailed(ctx context.Context, err error) {
	l.store.Failed(err)
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

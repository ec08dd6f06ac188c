package processor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/duewheel/duewheel/processor/kafka"
)

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

// errAwaitsTime is what a lane says of itself while it does not know what time it is.
var errAwaitsTime = errors.New("processor: waiting for the brokers to say what time it is")

// step does everything that can be done now without waiting.
func (l *lane) step(ctx context.Context) {
	now := l.clock.Now()
	l.stint.begin()
	stepped := l.stint.began
	l.stepped.Store(&stepped)
	l.checkpoints.steps(stepped)
	room := l.store.HasRoom()
	if time.Since(l.balancedAt) >= balanceEvery {
		l.balancedAt = time.Now()
		if p, err := l.memory.fit(l.order, now, room); err != nil {
			l.restart(ctx, p, err)
			return // order has changed
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
	if p, err := l.memory.load(l.order, now, l.turns.isDecided); err != nil {
		l.restart(ctx, p, err)
		return // order has changed
	}
	l.stint.end(workLoad)
	l.settleCatchUps(ctx, now, room)
	l.passing.look(l.order, &l.assigned)
	l.stint.end(workLive)
	l.checkpoints.begin(l.order, l.membership)
	if l.turns.inFlight == nil {
		l.producers.settle(ctx)
	}
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
		l.stint.spend(workTurn, func() { l.turns.copies.take(x, l.order) })
	case <-l.producers.renewed:
		l.producers.renewing = false
	case a := <-l.ends.answers:
		l.ends.answered(a, l.clock.Now())
		beheading{l}.heard()
		beheading{l}.tell()
	case <-l.uneven:
		l.membership.Rebalance()
	case <-timer.C:
	case <-ctx.Done():
	}
}

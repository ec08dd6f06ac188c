package processor

import (
	"context"
	"time"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/pending"
)

// settleCatchUps makes a partition live that has read to the end of the log, and asks again for the end where the answer is old: what was in the log
// before must be honoured. What is due soon has to come from the store first, so it is one in each step. What needs more than one step writes to the store, and
// waits where that has no room.
func (l *lane) settleCatchUps(ctx context.Context, now int64, room bool) {
	var ask []*partition
	waits := l.enlivens && !room
	settled := waits
	l.settling = false
	for _, p := range l.order {
		if p.phase != PhaseCatchUp {
			continue
		}
		if fresh := p.endIsFresh(); !p.Ordered() {
			if p.Marks().Position < p.logEnd && (fresh || time.Since(p.readAt) <= freshEnd) {
				continue
			}
			if !fresh {
				ask = append(ask, p)
				continue
			}
		}
		if l.settling = settled && !waits; settled {
			break
		}
		settled = true
		if err := p.goLive(l.memory.room(len(l.order))); err != nil {
			l.restart(ctx, p, err)
			return
		}
		if l.enlivens = !p.live(); l.enlivens {
			l.settling = true
			break
		}
		l.passing.begin(p)
		p.writing, p.liveAfter = writing{at: time.Now(), tried: time.Now()}, time.Since(p.since)
		p.publish(now, &l.kit) // a takeover shows at once, and not with the next tidying
		l.log.Info("partition is live", "topic", p.tp.Topic, "partition", p.tp.Partition,
			"pending", p.Pending(), "position", p.Marks().Position, "after", p.liveAfter.Round(time.Millisecond))
		tellMissed(p)
		tellSkipped(p)
		l.events.tell(Event{Kind: EventLive}, p.tp)
	}
	l.ends.ask(ctx, ask)
}

// tellMissed says what other groups had carried or tried again of what was gone when this group began: they deliver it, and this one does not.
func tellMissed(p *partition) {
	if p.missed > 0 {
		p.log.Warn("another group has carried requests that left this topic before this group began, or were given up: this one does not deliver them. "+
			"Where it is to take the place of that one: docs/operations.md#another-name-for-a-group", "records", p.missed, "group", p.missedBy)
		p.missed = 0
	}
}

const syncInterval = 5 * time.Second

// tidy does what need not be done at every step.
func (l *lane) tidy(ctx context.Context, now int64) {
	l.memory.published.Store(l.memory.used)
	if again := lookAgain(l.order); len(again) > 0 {
		l.log.Debug("stopped partitions look again", "partitions", again)
		l.drop(ctx, again)
		l.restore(ctx, again, 0)
	}
	for _, p := range l.order {
		if err := p.tidyStore(); err != nil {
			l.restart(ctx, p, err)
			return
		}
	}
	if p, err := (beheading{l}).save(); err != nil {
		l.restart(ctx, p, err)
		return
	}
	if (beheading{l}).tidy(ctx) {
		return
	}
	beheading{l}.tell()
	l.readAgain(ctx, now)
	if l.turns.inFlight == nil && l.turns.ahead == nil { // they belong to a turn otherwise
		l.producers.forgetGone(ctx, time.Now())
	}
	var old []*partition
	for _, p := range l.order {
		if p.live() && time.Since(p.endAsked) > endEvery(p, l.cfg.SessionTimeout) {
			old = append(old, p)
		}
	}
	l.ends.ask(ctx, old)
	l.checkpoints.tellOverdue(l.order)
	for _, p := range l.order {
		if p.phase == PhaseCatchUp {
			p.progress.look(p.Marks().Position, time.Now())
		}
		watchLog(p, l.events, l.cfg.SessionTimeout, !l.reading.waiting)
		p.publish(now, &l.kit)
	}
	l.catchUps.tell(l.order, time.Now())
}

// lookAgain are the partitions that were stopped a while ago. They start over all at once, and the others have not to wait for that. Why they are stopped
// is no matter: what the store has answered one of them takes it away from no other.
func lookAgain(ps []*partition) (again []kafka.TopicPartition) {
	for _, p := range ps {
		if p.phase == PhaseStopped && time.Since(p.stoppedAt) > stoppedRetry {
			again = append(again, p.tp)
		}
	}
	return again
}

// tidyStore deletes behind the watermark what was delivered, and writes the position now and
// then, so that a restart has little to read again.
func (p *partition) tidyStore() error {
	if !p.live() {
		return nil
	}
	due := time.Since(p.syncedAt) > syncInterval
	if due {
		p.syncedAt = time.Now()
	}
	return p.Tidy(due)
}

// goLive ends a catch-up, or takes a step towards it.
func (p *partition) goLive(room pending.Room) error {
	if live, err := p.Enliven(room); !live || err != nil {
		return err
	}
	p.phase, p.err, p.liveAt = PhaseLive, nil, time.Now()
	p.checkLog() // what the store alone has is said at once
	return nil
}

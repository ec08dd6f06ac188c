package processor

import (
	"context"
	"time"

	"github.com/duewheel/duewheel/processor/pending"
)

// beginTurn starts the next turn if there is something to do. While a turn is in flight that
// could not hold all that was due, the next is rendered ahead.
func (l *lane) beginTurn(ctx context.Context, now int64) {
	if l.producers.renewing || len(l.order) == 0 {
		return
	}
	if l.turn != nil {
		if l.turn.full && l.ahead == nil {
			l.beginAhead(ctx, now)
		}
		return
	}
	m := l.membership.Member()
	if !m.Valid() || l.pace.left(time.Now()) > 0 {
		return
	}
	t := &turn{kit: &l.kit, member: m, began: time.Now()}
	t.parts, t.full = l.dueRecords(now)
	t.narrows = l.narrowing
	if l.cfg.Guarantee == ExactlyOnce {
		// Checkpoints that are getting old go along; with nothing to deliver they go alone.
		t.plain = len(t.parts) == 0
		t.parts = append(t.parts, l.staleCheckpoints()...)
	}
	if len(t.parts) > 0 {
		l.turn = t
		l.start(ctx, t)
	}
}

// beginAhead takes the next batch out and has it rendered. It begins when the turn in flight is
// decided and has happened, and is put back otherwise.
func (l *lane) beginAhead(ctx context.Context, now int64) {
	t := &turn{kit: &l.kit, began: time.Now(), begin: make(chan bool, 1)}
	if t.parts, t.full = l.dueRecords(now); len(t.parts) > 0 {
		if l.cfg.Guarantee == ExactlyOnce {
			t.parts = append(t.parts, l.staleCheckpoints()...) // turns may go on being full
		}
		l.ahead = t
		l.start(ctx, t)
	}
}

// release lets the turn begin that was rendered ahead, or puts it back.
func (l *lane) release(ctx context.Context, begin bool) {
	t := l.ahead
	if t == nil {
		return
	}
	l.ahead = nil
	t.member, t.began = l.membership.Member(), time.Now()
	if begin && !l.producers.renewing && !l.draining && !l.quota.lasts() && t.member.Valid() {
		for _, pt := range t.parts {
			// The turn before may have appended above this one's O.
			pt.To.Appended = pt.To.Appended || pt.p.Marks().OwnEnd > pt.To.Offset
		}
		l.turn = t
		t.begin <- true
		return
	}
	t.begin <- false
	<-l.decided
	t.endTrials()
	for _, pt := range t.parts {
		if pt.p.End(); len(pt.Items) > 0 {
			pt.p.Repeat(pt.Part, 0)
		}
	}
}

// start hands a turn to its goroutine.
func (l *lane) start(ctx context.Context, t *turn) {
	if !t.plain {
		t.producer, t.render = l.producers.take()
	}
	t.patience = l.timeouts
	// What has begun is finished even when the processor is told to stop.
	ctx, t.cancel = context.WithCancel(l.p.until)
	decided := l.decided
	if t == l.commit {
		decided = l.committed
	}
	l.wg.Go(func() {
		t.run(ctx)
		decided <- t
	})
}

// items returns memory for the items of a part.
func (l *lane) items() []pending.Item {
	k := len(l.spare)
	if k == 0 {
		return nil
	}
	out := l.spare[k-1]
	l.spare = l.spare[:k-1]
	return out
}

// recycle keeps the memory of a part that has been settled.
func (l *lane) recycle(pt *part) {
	if cap(pt.Items) > 0 && len(l.spare) < 8 {
		clear(pt.Items)
		l.spare = append(l.spare, pt.Items[:0])
	}
	pt.Items = nil
}

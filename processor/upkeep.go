package processor

import (
	"context"
	"fmt"
	"time"
)

// freshEnd is how recently the end of the log must have been asked for a catch-up to be over.
const freshEnd = time.Second

// settleCatchUps makes partitions live that have read to the end of the log, and asks again for
// the end where the answer is old: what was in the log before must be honoured.
func (l *lane) settleCatchUps(ctx context.Context, now int64) {
	var ask []*partition
	for _, p := range l.order {
		if p.phase != PhaseCatchUp || p.position < p.logEnd && p.queue == nil {
			continue
		}
		if p.queue == nil && time.Since(p.endAsked) > freshEnd {
			ask = append(ask, p)
			continue
		}
		if err := l.goLive(p, now); err != nil {
			l.restart(ctx, p, err)
			return
		}
		p.writing, p.liveAfter = writing{at: time.Now(), tried: time.Now()}, time.Since(p.since)
		l.publish(p, now) // whoever waits for it need not wait for the next tidying
		l.log.Info("partition is live", "topic", p.tp.topic, "partition", p.tp.partition,
			"pending", p.pending(), "position", p.position, "after", p.liveAfter.Round(time.Millisecond))
	}
	l.askEnds(ctx, ask)
}

// logEnds are answers about where logs begin and end.
type logEnds struct {
	asked time.Time
	of    map[*partition]logBounds
	err   error
}

// askEnds asks in the background where the logs of partitions end.
func (l *lane) askEnds(ctx context.Context, ps []*partition) {
	if l.asking || len(ps) == 0 || time.Now().Before(l.askAgain) {
		return
	}
	l.asking = true
	l.wg.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, requestTimeout)
		defer cancel()
		e := logEnds{asked: time.Now(), of: map[*partition]logBounds{}}
		tps := make([]topicPartition, len(ps))
		for i, p := range ps {
			tps[i] = p.tp
		}
		bounds, err := askBounds(ctx, l.reader, tps)
		e.err = err
		for _, p := range ps {
			if b, ok := bounds[p.tp]; ok && b.err == nil {
				e.of[p] = b
			}
		}
		l.ends <- e
	})
}

func (l *lane) tookEnds(e logEnds) {
	l.asking = false
	l.askAgain = time.Time{}
	if e.err != nil {
		rest := max(l.unasked.failed(), leastRest)
		l.askAgain = time.Now().Add(rest)
		l.log.Warn("ask for the ends of logs; trying again", "error", e.err, "in", rest.Round(time.Millisecond))
	}
	for p, b := range e.of {
		if l.parts[p.tp] != p {
			continue
		}
		p.logStart, p.endAsked = b.start, e.asked
		l.checkLog(p)
		p.logEnd = b.end(p.committed.Appended)
	}
}

// checkLog notices that the log has lost records that are pending (design rule 11). Nothing is
// lost as long as this process holds them; it is now that a person can still act.
func (l *lane) checkLog(p *partition) {
	lost := p.live() && p.queue == nil && p.ledger.Len() > 0 && p.logStart > p.committed.LowWater
	if lost && p.loss == nil {
		p.loss = fmt.Errorf("%w: %s is needed from offset %d on and begins at %d; give the topic retention.ms=-1, and do not stop this process before they are delivered",
			ErrLogTruncated, p.tp, p.committed.LowWater, p.logStart)
		l.log.Error("log", "topic", p.tp.topic, "partition", p.tp.partition, "error", p.loss)
	}
	if !lost {
		p.loss = nil
	}
}

// stoppedRetry is how often a stopped partition looks whether somebody has decided.
const stoppedRetry = 30 * time.Second

const (
	trimRecords  = 100_000 // records delivered that make a range delete worth its while
	syncInterval = 5 * time.Second
)

// tidy does what need not be done at every step.
func (l *lane) tidy(ctx context.Context, now int64) {
	l.nearPublished.Store(l.nearBytes)
	for _, p := range l.order {
		if p.phase == PhaseStopped {
			if time.Since(p.since) > stoppedRetry {
				l.restart(ctx, p, p.err)
				return
			}
			continue
		}
		if err := l.tidyStore(p); err != nil {
			l.restart(ctx, p, err)
			return
		}
	}
	l.readAgain(ctx, now)
	var old []*partition
	for _, p := range l.order {
		if p.live() && time.Since(p.endAsked) > 10*time.Second {
			old = append(old, p)
		}
	}
	l.askEnds(ctx, old)
	l.tellOverdue()
	for _, p := range l.order {
		l.publish(p, now)
	}
}

// tidyStore deletes behind the watermark what was delivered, and writes the position now and
// then, so that a restart has little to read again.
func (l *lane) tidyStore(p *partition) error {
	if p.store == nil || !p.live() {
		return nil
	}
	if p.spent >= trimRecords || p.spent > 0 && time.Since(p.syncedAt) > syncInterval {
		if err := l.sync(p); err != nil {
			return err
		}
		if err := p.store.Trim(p.committed.Watermark); err != nil {
			return p.describe("delete delivered records from the store of", err)
		}
		p.spent = 0
	}
	if p.far() > 0 && time.Since(p.syncedAt) > syncInterval {
		p.syncedAt, p.dirty = time.Now(), true
		return l.sync(p)
	}
	return nil
}

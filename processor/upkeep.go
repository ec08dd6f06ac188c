package processor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/wait"
)

// freshEnd is how recently the end of the log must have been asked for a catch-up to be over.
const freshEnd = time.Second

// settleCatchUps makes partitions live that have read to the end of the log, and asks again for
// the end where the answer is old: what was in the log before must be honoured.
func (l *lane) settleCatchUps(ctx context.Context, now int64) {
	var ask []*partition
	for _, p := range l.order {
		if p.phase != PhaseCatchUp {
			continue
		}
		if fresh := time.Since(p.endAsked) <= freshEnd; !p.Ordered() {
			if p.Marks().Position < p.logEnd && (fresh || time.Since(p.readAt) <= freshEnd) {
				continue
			}
			if !fresh {
				ask = append(ask, p)
				continue
			}
		}
		if err := l.goLive(p); err != nil {
			l.restart(ctx, p, err)
			return
		}
		p.writing, p.liveAfter = writing{at: time.Now(), tried: time.Now()}, time.Since(p.since)
		l.publish(p, now) // a takeover shows at once, and not with the next tidying
		l.log.Info("partition is live", "topic", p.tp.Topic, "partition", p.tp.Partition,
			"pending", p.Pending(), "position", p.Marks().Position, "after", p.liveAfter.Round(time.Millisecond))
		l.tell(Event{Kind: EventLive}, p.tp)
	}
	l.askEnds(ctx, ask)
}

// logEnds are answers about where logs begin and end.
type logEnds struct {
	asked  time.Time
	of     map[*partition]kafka.Bounds
	passed map[*partition]int64 // up to there nothing lies above the position but what was aborted
	err    error
}

// askEnds asks in the background where the logs of partitions end.
func (l *lane) askEnds(ctx context.Context, ps []*partition) {
	if l.asking || len(ps) == 0 || time.Now().Before(l.askAgain) {
		return
	}
	l.asking = true
	tps, behind := map[*partition]topicPartition{}, map[*partition]stretch{}
	for _, p := range ps {
		tps[p] = p.tp
		if p.phase == PhaseCatchUp {
			behind[p] = stretch{tp: p.tp, id: p.id, from: p.Marks().Position}
		}
	}
	l.wg.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, kafka.RequestTimeout)
		defer cancel()
		e := logEnds{asked: time.Now(), of: map[*partition]kafka.Bounds{}}
		bounds, err := kafka.AskBounds(ctx, l.reader, slices.Collect(maps.Values(tps)))
		for p, tp := range tps {
			b, ok := bounds[tp]
			if ok && b.Err == nil {
				e.of[p] = b
			} else if err == nil {
				err = fmt.Errorf("ends of %s: %w", tp, cmp.Or(b.Err, error(kerr.LeaderNotAvailable)))
			}
		}
		for p, s := range behind {
			s.to = e.of[p].Stable
			behind[p] = s
		}
		var failed error
		e.passed, failed = passAborted(ctx, l.reader, behind)
		e.err = errors.Join(err, failed)
		l.ends <- e
	})
}

func (l *lane) tookEnds(e logEnds) {
	l.asking = false
	l.askAgain = time.Time{}
	if e.err != nil {
		rest := max(l.unasked.Failed(), wait.LeastRest)
		l.askAgain = time.Now().Add(rest)
		l.log.Warn("brokers do not say where logs end; asking again", "error", e.err, "in", rest.Round(time.Millisecond))
	}
	for p, b := range e.of {
		if l.parts[p.tp] != p {
			continue
		}
		p.logStart, p.endAsked = b.Start, e.asked
		l.checkLog(p)
		p.logEnd = p.endOf(b)
		p.Pass(e.passed[p])
		p.Sight(b.High, l.p.clock.Now())
	}
}

// checkLog notices that the log has lost records that are pending (design rule 11). Nothing is
// lost as long as this process holds them; it is now that a person can still act.
func (l *lane) checkLog(p *partition) {
	lost := p.live() && p.Counted() > 0 && p.logStart > p.needed()
	if lost && p.loss == nil {
		p.loss = fmt.Errorf("%w: %s is needed from offset %d on and begins at %d; give the topic retention.ms=-1, and do not stop this process before they are delivered",
			ErrLogTruncated, p.tp, p.needed(), p.logStart)
		l.log.Error("the log has lost records that this process still holds", "topic", p.tp.Topic, "partition", p.tp.Partition, "error", p.loss)
	}
	if !lost {
		p.loss = nil
	}
}

// needed is the low water, as the next checkpoint says it: the committed one may be as old as the
// commit interval, and retention may have cut what was resolved since.
func (p *partition) needed() int64 {
	if pt := p.prepareCommit(); pt != nil {
		return pt.To.LowWater
	}
	return p.Marks().Committed.LowWater
}

// stoppedRetry is how often a stopped partition looks whether a person has decided.
const stoppedRetry = 30 * time.Second

const syncInterval = 5 * time.Second

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
	if !p.live() {
		return nil
	}
	synced, err := p.Tidy(time.Since(p.syncedAt) > syncInterval)
	if synced {
		p.syncedAt = time.Now()
	}
	return err
}

// goLive ends a catch-up.
func (l *lane) goLive(p *partition) error {
	if err := p.GoLive(l.room()); err != nil {
		return err
	}
	p.phase, p.err, p.liveAt = PhaseLive, nil, time.Now()
	return nil
}

package processor

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/pending"
	"github.com/duewheel/duewheel/processor/wait"
)

// freshEnd is how recently the end of the log must have been asked for a catch-up to be over, unless brokers take longer than that to say it.
const freshEnd = time.Second

// ends asks where the logs of partitions begin and end, one question at a time, and beside the lane that it belongs to.
type ends struct {
	cl      *kgo.Client
	log     *slog.Logger
	wg      *sync.WaitGroup
	answers chan logEnds
	asking  bool
	took    time.Duration // the last answer
	inVain  int           // of how many questions in a row some were not answered
	unasked wait.Backoff  // of some it was asked in vain
	lasting time.Duration // what a partition may be in before it is looked at more closely
}

// logEnds are answers about where logs begin and end.
type logEnds struct {
	asked  time.Time
	of     map[*partition]kafka.Bounds
	passed map[*partition]passage // up to there nothing lies above the position but what was aborted
	failed map[*partition]error   // what could not be asked
}

// ask asks for the logs of partitions, unless a question is under way. What is asked in vain of one rests, and none of the others waits for that.
func (e *ends) ask(ctx context.Context, ps []*partition) {
	if e.asking {
		return
	}
	tps, behind := map[*partition]kafka.TopicPartition{}, map[*partition]stretch{}
	for _, p := range ps {
		if time.Now().Before(p.askAgain) {
			continue
		}
		tps[p] = p.tp
		if p.phase == PhaseCatchUp || p.stall.suspected(e.lasting) {
			behind[p] = stretch{tp: p.tp, id: p.id, from: p.Marks().Position}
		}
	}
	if len(tps) == 0 {
		return
	}
	e.asking = true
	patience := kafka.RequestTimeout << min(e.inVain, 2) // brokers may be slow to answer
	e.wg.Go(func() { e.answers <- askEnds(ctx, e.cl, tps, behind, patience) })
}

// askEnds asks brokers for ends, and of partitions that are read how far nothing is left to be seen.
func askEnds(ctx context.Context, cl *kgo.Client, tps map[*partition]kafka.TopicPartition, behind map[*partition]stretch, patience time.Duration) logEnds {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	a := logEnds{asked: time.Now(), of: map[*partition]kafka.Bounds{}, failed: map[*partition]error{}}
	bounds, err := kafka.AskBounds(ctx, cl, slices.Collect(maps.Values(tps)))
	for p, tp := range tps {
		if b := bounds[tp]; err == nil && b.Err == nil {
			a.of[p] = b
		} else {
			a.failed[p] = cmp.Or(err, b.Err)
		}
	}
	for p, s := range behind {
		s.to = a.of[p].Stable
		behind[p] = s
	}
	a.passed, err = passAborted(ctx, cl, behind)
	for p := range behind {
		if _, passed := a.passed[p]; !passed {
			a.failed[p] = err
		}
	}
	return a
}

// answered takes in an answer.
func (e *ends) answered(a logEnds, now int64) {
	e.asking = false
	took := time.Since(a.asked)
	slow := min(took, e.took)
	e.took = took
	if len(a.failed) == 0 {
		e.inVain = 0
	} else {
		e.inVain++
		rest := max(e.unasked.Failed(), wait.LeastRest)
		var why error
		for p, err := range a.failed {
			p.askAgain, why = time.Now().Add(rest), err
		}
		e.log.Warn("brokers do not say where logs end; asking again", "partitions", len(a.failed), "error", why, "in", rest.Round(time.Millisecond))
	}
	for p, b := range a.of {
		if p.dropped {
			continue
		}
		passed, looked := a.passed[p]
		if looked && p.stall.suspected(e.lasting) {
			p.stall.answered(passed.to, b.Stable)
			passed = passage{} // it is live: its position is what the reader has brought
		}
		p.learnEnds(b, a.asked, passed, now)
		p.endSlow = slow
	}
}

// endIsFresh reports whether the end of the log was asked for a moment ago. Where the brokers, or the way to them, are so slow that no answer is that young, it
// is the last one; a process that was frozen asks once more.
func (p *partition) endIsFresh() bool {
	return time.Since(p.endAsked) <= max(freshEnd, 2*p.endSlow)
}

// learnEnds notes where the partition's log begins and ends.
func (p *partition) learnEnds(b kafka.Bounds, asked time.Time, passed passage, now int64) {
	p.logStart, p.endAsked = b.Start, asked
	p.checkLog()
	p.logEnd = p.Marks().End(b.Stable)
	p.open.hear(b, asked)
	p.Pass(passed.to, passed.epoch)
	p.Sight(pending.Sighting{End: b.High, At: now, Epoch: b.Epoch})
	p.learnCopies(b.High, asked)
}

// checkLog notices that the log has lost records that are pending (design rule 11). Nothing is
// lost as long as this process holds them; it is now that a person can still act.
func (p *partition) checkLog() {
	lost := p.live() && holds(p) && p.logStart > p.needed()
	if lost && p.loss == nil {
		unread := ""
		if position := p.Marks().Position; position < p.logStart {
			unread = fmt.Sprintf("; what lay from offset %d on was not read, and is lost: what this process holds is delivered, and then the partition stops until a person decides, unless accept_loss is set", position)
		}
		p.loss = fmt.Errorf("%w: %s is needed from offset %d on and begins at %d; give the topic retention.ms=-1, or a longer one, and do not stop this process before they are delivered%s",
			ErrLogTruncated, p.tp, p.needed(), p.logStart, unread)
		p.log.Error("the log has lost records that this process still holds", "error", p.loss)
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

// watchLog looks whether a partition can be read up to the end of its log. room: the lane reads, and does not wait for its store.
func watchLog(p *partition, es events, lasting time.Duration, room bool) {
	if !p.opened() || p.phase == PhaseStopped {
		return
	}
	position := p.Marks().Position
	p.open.read(position)
	if p.loss != nil && !p.cutTold {
		es.tell(Event{Kind: EventCut, Error: p.loss.Error()}, p.tp)
	}
	p.cutTold = p.loss != nil
	ended, why := p.open.tell(p.log, p.tp, lasting)
	if ended {
		es.tell(Event{Kind: EventFreed}, p.tp)
	}
	if why != "" {
		es.tell(Event{Kind: EventBlocked, Error: why}, p.tp)
	}
	p.stall.look(position, room && p.live() && !p.paused && p.unread.Why(0) == nil && position < p.open.at)
	p.stall.tell(p.log, lasting)
}

// endEvery is how often a live partition is asked for the end of its log: more often while something is not as it is mostly, within reason.
func endEvery(p *partition, lasting time.Duration) time.Duration {
	const every, least = 10 * time.Second, time.Second
	if p.open.behind > 0 || p.stall.suspected(lasting) {
		return min(every, max(lasting, least))
	}
	return every
}

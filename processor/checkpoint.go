package processor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/state"
)

// writing is how far the writing of a partition's checkpoint has come. That it was tried and that it
// was written are two things: what counts after a crash is the second.
type writing struct {
	at     time.Time // when it was last written, or found
	tried  time.Time // when that was last tried
	behind time.Time // since when there has been something to write; zero: there is nothing
	err    error     // why the last try was in vain
	told   bool      // the log says that it is overdue
}

// overdue is for how long there has been something to write.
func (w *writing) overdue() time.Duration {
	if w.behind.IsZero() {
		return 0
	}
	return time.Since(w.behind)
}

// why says what an overdue checkpoint means.
func (w *writing) why() string {
	reason := "no answer"
	if w.err != nil {
		reason = w.err.Error()
	}
	return fmt.Sprintf("the checkpoint has not been written for %v, and a crash would go back to it: %s", w.overdue().Round(time.Second), reason)
}

// beginCommit writes, in at_least_once, the checkpoints that have moved on. It goes beside the turns,
// which may be full one after the other: no transaction is open that it could cross.
func (l *lane) beginCommit(ctx context.Context) {
	if l.cfg.Guarantee != AtLeastOnce || l.commit != nil || l.draining {
		return
	}
	t := &turn{kit: &l.kit, plain: true, member: l.membership.Member(), began: time.Now()}
	if !t.member.Valid() {
		return
	}
	if t.parts = l.staleCheckpoints(); len(t.parts) > 0 {
		l.commit = t
		l.start(ctx, t)
	}
}

// staleCheckpoints takes the checkpoints that have moved on and have not been written for some time.
// In exactly_once those of partitions that are in a turn go with it.
func (l *lane) staleCheckpoints() []*part {
	var out []*part
	for _, p := range l.order {
		if !p.live() || p.Undecided() > 0 && l.cfg.Guarantee != AtLeastOnce || time.Since(p.writing.tried) < l.commitInterval() {
			continue
		}
		pt := l.toCommit(p)
		if pt == nil {
			p.writing.behind = time.Time{}
			continue
		}
		if p.writing.behind.IsZero() {
			p.writing.behind = time.Now()
		}
		if l.cfg.Guarantee != AtLeastOnce {
			p.Begin()
		}
		out = append(out, pt)
	}
	return out
}

// slowestCommits is how far apart checkpoints are tried when they are refused again and again.
const slowestCommits = 2 * time.Second

// commitInterval is how often checkpoints are written.
func (l *lane) commitInterval() time.Duration {
	return max(l.cfg.CommitInterval, min(l.cfg.CommitInterval<<min(l.refusals, 5), slowestCommits))
}

// tookCommit takes in what became of the checkpoints that were written beside turns.
func (l *lane) tookCommit(ctx context.Context, t *turn) {
	t.cancel()
	l.commit = nil
	l.p.counters.turn(t)
	l.unanswered.note(t)
	if l.unanswered.lasts() > l.cfg.SessionTimeout && !l.stopping {
		l.endMembership(ctx, t.err)
		return
	}
	if t.outcome == outcomeDone {
		l.tookDone(t)
	} else {
		t.outcome = outcomeAborted // it has no say in what is delivered
	}
	l.tookRefused(ctx, t)
}

// tookRefused takes in which checkpoints were not written. They wait for their next time, which comes
// less often when all are refused.
func (l *lane) tookRefused(ctx context.Context, t *turn) {
	if t.outcome == outcomeAborted {
		l.refusals++
	} else if t.outcome == outcomeDone {
		l.refusals = 0
	}
	if len(t.refused) == 0 && t.outcome == outcomeDone {
		l.refusedFor = ""
	}
	for _, pt := range t.took {
		err := t.err
		if t.outcome == outcomeDone {
			err = t.refused[pt]
		}
		if err == nil || t.outcome == outcomeUnknown || l.parts[pt.p.tp] != pt.p {
			continue
		}
		pt.p.writing.tried, pt.p.writing.err = time.Now(), err
		if kafka.IsAny(err, kerr.UnknownTopicID, kerr.InconsistentTopicID) { // by name it is the coordinator that does not know it
			l.restartTopic(ctx, pt.p.tp.Topic, err)
		}
	}
	if said := codeOf(t.err); t.err != nil && t.outcome != outcomeUnknown && said != l.refusedFor {
		l.refusedFor = said
		level := slog.LevelWarn
		if kafka.VerdictOf(t.err) == kafka.Refused && len(t.refused) == 0 {
			level = slog.LevelInfo // every rebalance refuses some
		}
		l.log.Log(ctx, level, "checkpoints were not written; they are tried again", "partitions", len(t.took), "error", t.err)
	}
}

// codeOf is what the broker has answered, without the partition that it was about.
func codeOf(err error) string {
	var ke *kerr.Error
	if errors.As(err, &ke) {
		return ke.Message
	}
	return fmt.Sprint(err)
}

// tellOverdue logs which checkpoints have become overdue: a session is what a takeover takes anyway.
func (l *lane) tellOverdue() {
	var late []topicPartition
	var why string
	for _, p := range l.order {
		if w := &p.writing; p.live() && !w.told && w.overdue() > l.cfg.SessionTimeout {
			w.told = true
			late, why = append(late, p.tp), w.why()
		}
	}
	if len(late) > 0 {
		l.log.Error("checkpoints are overdue", "partitions", late, "error", why)
	}
}

// stop makes a partition wait that its coordinator refuses, so that the others go on without it. It
// starts over now and then, to see whether that has been mended.
func (l *lane) stop(p *partition, why error) {
	p.phase, p.err, p.since = PhaseStopped, why, time.Now()
	l.log.Error("partition is stopped", "topic", p.tp.Topic, "partition", p.tp.Partition, "error", why, "looks_again_in", stoppedRetry)
	l.events.tell(Event{Kind: EventStopped, Error: why.Error()}, p.tp)
}

// dropRefused takes the parts out of a transaction that is known not to have happened whose offsets
// the coordinator has refused for a reason of their own.
func (l *lane) dropRefused(t *turn) {
	t.took = slices.DeleteFunc(t.took, func(pt *part) bool {
		err := t.refused[pt]
		if err != nil && l.parts[pt.p.tp] == pt.p {
			l.stop(pt.p, fmt.Errorf("commit offset of %s: %w", pt.p.tp, err))
		}
		return err != nil
	})
}

// prepareCommit makes a part without records: a checkpoint that has moved on.
func (p *partition) prepareCommit() *part { return p.part(p.Checkpoint()) }

// tookCheckpoint takes in that a part without records has been written.
func (p *partition) tookCheckpoint(pt *part, now time.Time) {
	p.toldWritten(now)
	p.Wrote(pt.Part)
}

// toldWritten notes that a checkpoint has been committed.
func (p *partition) toldWritten(now time.Time) {
	if p.writing.told {
		p.log.Info("the checkpoint is written again", "after", p.writing.overdue().Round(time.Second))
	}
	p.writing = writing{at: now, tried: now}
}

// entry turns a checkpoint into what is sent.
func entry(tp topicPartition, id topicID, c state.Checkpoint) (kafka.Commit, error) {
	md, err := c.Metadata()
	if err != nil {
		return kafka.Commit{}, fmt.Errorf("checkpoint of %s: %w", tp, err)
	}
	return kafka.Commit{TP: tp, ID: id, Offset: c.Offset, Metadata: md}, nil
}

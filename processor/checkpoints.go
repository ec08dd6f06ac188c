package processor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/pending"
	"github.com/duewheel/duewheel/processor/wait"
)

// checkpoints says when those of a lane's partitions are written, beside the turns with records or by a turn of
// their own, and what came of it. It belongs to the lane.
type checkpoints struct {
	*kit
	commit     *turn // under way beside the turns (at_least_once)
	committed  chan *turn
	unanswered unanswered
	refusals   int    // commits in a row of which none was taken
	refusedFor string // what the log says of them
}

// begin writes, in at_least_once, the checkpoints that have moved on. It goes beside the turns,
// which may be full one after the other: no transaction is open that it could cross.
func (cs *checkpoints) begin(ps []*partition, stay membership) {
	if cs.cfg.Guarantee != AtLeastOnce || cs.commit != nil {
		return
	}
	t := &turn{kit: cs.kit, plain: true, member: stay.Member(), began: time.Now()}
	if !t.member.Valid() {
		return
	}
	if t.parts = cs.stale(ps); len(t.parts) > 0 {
		cs.commit = t
		t.start(cs.committed)
	}
}

// stale takes the checkpoints that have moved on and have not been written for some time.
// In exactly_once those of partitions that are in a turn go with it.
func (cs *checkpoints) stale(ps []*partition) []*part {
	var out []*part
	for _, p := range ps {
		if !p.live() || p.Undecided() > 0 && cs.cfg.Guarantee != AtLeastOnce || time.Since(p.writing.tried) < cs.interval() {
			continue
		}
		pt := cs.of(p)
		if pt == nil {
			p.writing.behind = time.Time{}
			continue
		}
		if p.writing.behind.IsZero() {
			p.writing.behind = time.Now()
		}
		if cs.cfg.Guarantee != AtLeastOnce {
			p.Begin()
		}
		out = append(out, pt)
	}
	return out
}

// of is the checkpoint of a partition that is to be written; nil: the group has it.
func (cs *checkpoints) of(p *partition) *part {
	if pt := p.prepareCommit(); pt != nil || !cs.unanswered.mayArrive() {
		return pt
	}
	return &part{p: p, Part: &pending.Part{To: p.Marks().Committed}}
}

// slowestCommits is how far apart checkpoints are tried when they are refused again and again.
const slowestCommits = 2 * time.Second

// interval is how often checkpoints are written.
func (cs *checkpoints) interval() time.Duration {
	return max(cs.cfg.CommitInterval, min(cs.cfg.CommitInterval<<min(cs.refusals, 5), slowestCommits))
}

// conclude notes what became of the checkpoints that were written beside turns. It reports whether the
// coordinator has not answered for a session.
func (cs *checkpoints) conclude(t *turn) (silent bool) {
	cs.commit = nil
	cs.counters.turn(t)
	cs.unanswered.note(t)
	if t.outcome == outcomeDone {
		cs.wrote(t)
	} else {
		t.outcome = outcomeAborted // it has no say in what is delivered
	}
	return cs.unanswered.lasts() > cs.cfg.SessionTimeout
}

// wrote takes in that checkpoints were written, but for those that were refused each for itself.
func (cs *checkpoints) wrote(t *turn) {
	now := time.Now()
	for _, pt := range t.tried {
		if t.refused[pt] != nil {
			continue
		}
		if pt.p.Undecided() == 0 {
			pt.p.answeredAt = now
		}
		pt.p.wasWritten(now)
		if len(pt.Items) > 0 { // nothing had to be written for them
			pt.p.err = nil
			pt.p.Settle(pt.Part)
			pt.p.Committed(pt.Part)
			cs.counters.effects(pt.p)
			continue
		}
		pt.p.Wrote(pt.Part)
	}
}

// refused takes in which checkpoints were not written, and returns the topics that brokers do not know any more.
// The others wait for their next time, which comes less often when all are refused.
func (cs *checkpoints) refused(t *turn) (gone map[string]error) {
	if t.outcome == outcomeUnknown {
		return nil
	}
	if t.outcome == outcomeAborted {
		cs.refusals++
	} else {
		cs.refusals = 0
	}
	gone = map[string]error{}
	for _, pt := range t.tried {
		err := t.err
		if t.outcome == outcomeDone {
			err = t.refused[pt]
		}
		if err == nil || pt.p.dropped {
			continue
		}
		pt.p.writing.tried, pt.p.writing.err = time.Now(), err
		if kafka.IsAny(err, kerr.UnknownTopicID, kerr.InconsistentTopicID) { // by name it is the coordinator that does not know it
			gone[pt.p.tp.Topic] = err
		}
	}
	cs.tellRefused(t)
	return gone
}

// tellRefused logs why checkpoints were not written, when that is news.
func (cs *checkpoints) tellRefused(t *turn) {
	said := codeOf(t.err)
	if t.err == nil {
		cs.refusedFor = ""
	}
	if t.err == nil || said == cs.refusedFor {
		return
	}
	cs.refusedFor = said
	level := slog.LevelWarn
	if kafka.VerdictOf(t.err) == kafka.Refused && len(t.refused) == 0 {
		level = slog.LevelInfo // every rebalance refuses some
	}
	cs.log.Log(context.Background(), level, "checkpoints were not written; they are tried again", "partitions", len(t.tried), "error", t.err)
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
func (cs *checkpoints) tellOverdue(ps []*partition) {
	var late []kafka.TopicPartition
	var why string
	for _, p := range ps {
		if w := &p.writing; p.live() && !w.logged && w.overdue() > cs.cfg.SessionTimeout {
			w.logged = true
			late, why = append(late, p.tp), w.why()
		}
	}
	if len(late) > 0 {
		cs.log.Error("checkpoints are overdue", "partitions", late, "error", why)
	}
}

// last writes the checkpoints of partitions that are about to be given up, so that
// their next owner has little or nothing to do again.
func (cs *checkpoints) last(ctx context.Context, ps []*partition, stay membership) {
	t := &turn{kit: cs.kit, plain: true, member: stay.Member()}
	for _, p := range ps {
		if !p.live() {
			continue
		}
		if pt := cs.of(p); pt != nil {
			t.parts = append(t.parts, pt)
		}
	}
	if len(t.parts) == 0 || !t.member.Valid() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, kafka.RequestTimeout/2)
	defer cancel()
	t.tried = t.parts
	cs.commitLast(ctx, t, stay)
	if t.outcome != outcomeDone {
		cs.log.Warn("the last checkpoints were not written; their next owner repeats some work", "error", t.err)
		return
	}
	cs.wrote(t)
}

// commitLast commits with no next time to wait for: a refusal that has changed nothing is met at once.
// In at_least_once what is not written comes again, so a rebalance is waited for that goes on for some
// ms. The partitions are ours until then: the member's callbacks, which would give them up, wait for
// the lane.
func (cs *checkpoints) commitLast(ctx context.Context, t *turn, stay membership) {
	for try := 0; ; try++ {
		cs.coordinator.Retry(ctx, func() error { return t.commitPlain(ctx) })
		rebalances := kafka.IsAny(t.err, kerr.RebalanceInProgress, kerr.IllegalGeneration, kerr.StaleMemberEpoch)
		if !rebalances || cs.cfg.Guarantee != AtLeastOnce || !wait.For(ctx, wait.Growing(try, 10*time.Millisecond, 200*time.Millisecond)) {
			return
		}
		t.member = stay.Member()
	}
}

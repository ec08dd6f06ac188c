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
	"github.com/duewheel/duewheel/processor/turn"
	"github.com/duewheel/duewheel/processor/wait"
)

// checkpoints says when those of a lane's partitions are written, beside the turns with records or by a turn of
// their own, and what came of it. It belongs to the lane.
type checkpoints struct {
	*kit
	commit     *turn.Turn // under way beside the turns (at_least_once)
	committed  chan *turn.Turn
	unanswered unanswered
	standstill standstill
	refusals   int       // commits in a row of which none was taken
	refusedFor string    // what the log says of them
	refusedAt  time.Time // when some were refused last
}

// begin writes, in at_least_once, the checkpoints that have moved on. It goes beside the turns,
// which may be full one after the other: no transaction is open that it could cross.
func (cs *checkpoints) begin(ps []*partition, stay membership) {
	if cs.cfg.Guarantee != AtLeastOnce || cs.commit != nil {
		return
	}
	t := &turn.Turn{Plain: true, Member: stay.Member(), Began: time.Now()}
	if !t.Member.Valid() {
		return
	}
	if t.Parts = cs.stale(ps); len(t.Parts) > 0 {
		t.Env, cs.commit = cs.turnEnv(), t
		t.Start(cs.until, cs.wg, cs.committed)
	}
}

// steps takes in that the lane takes a step, or is about to begin a turn without one.
func (cs *checkpoints) steps(now time.Time) {
	if cs.cfg.Guarantee != AtLeastOnce {
		return
	}
	if long := cs.standstill.step(now, now.Round(0), cs.cfg.SessionTimeout); long > 0 {
		cs.log.Warn("the process did not run, or waited for brokers, for a while; nothing is delivered before the coordinator says that partitions are still its own", "for", long.Round(time.Millisecond))
	}
}

// stale takes the checkpoints that have moved on and have not been written for some time.
// In exactly_once those of partitions that are in a turn go with it.
func (cs *checkpoints) stale(ps []*partition) []*turn.Part {
	var out []*turn.Part
	for _, p := range ps {
		if !p.live() || p.Undecided() > 0 && cs.cfg.Guarantee != AtLeastOnce || time.Since(p.writing.tried) < cs.interval(p.writing.refusals) {
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
func (cs *checkpoints) of(p *partition) *turn.Part {
	if pt := p.prepareCommit(); pt != nil || !cs.unanswered.mayArrive() && !cs.standstill.doubts() {
		return pt
	}
	return p.part(&pending.Part{To: p.Marks().Committed})
}

// slowestCommits is how far apart checkpoints are tried when they are refused again and again.
const slowestCommits = 2 * time.Second

// refusalsRest is for how long no checkpoint must have been refused for the next refusal to be news.
const refusalsRest = 5 * slowestCommits

// interval is how often the checkpoint of a partition is written that was refused so often in a row, while others were not.
func (cs *checkpoints) interval(refusals int) time.Duration {
	return max(cs.cfg.CommitInterval, min(cs.cfg.CommitInterval<<min(max(cs.refusals, refusals), 5), slowestCommits))
}

// conclude notes what became of the checkpoints that were written beside turns. It reports whether the
// coordinator has not answered for a session.
func (cs *checkpoints) conclude(t *turn.Turn) (silent bool) {
	cs.commit = nil
	cs.counters.turn(t)
	cs.unanswered.note(t)
	cs.standstill.heard(t)
	if t.Outcome == turn.Done {
		cs.wrote(t)
	} else {
		t.Outcome = turn.Aborted // it has no say in what is delivered
	}
	return cs.unanswered.lasts() > cs.cfg.SessionTimeout
}

// wrote takes in that checkpoints were written, but for those that were refused each for itself.
func (cs *checkpoints) wrote(t *turn.Turn) {
	now := time.Now()
	for _, pt := range t.Tried {
		if t.Refused[pt] != nil {
			continue
		}
		p := partitionOf(pt)
		if p.Undecided() == 0 {
			p.answeredAt = now
		}
		p.wasWritten(now)
		if len(pt.Items) > 0 { // nothing had to be written for them
			p.err = nil
			p.Settle(pt.Part)
			p.Committed(pt.Part)
			cs.counters.effects(p)
			continue
		}
		p.Wrote(pt.Part)
	}
}

// refused takes in which checkpoints were not written, and returns the topics that brokers do not know any more.
// The others wait for their next time, which comes less often for what is refused again and again.
func (cs *checkpoints) refused(t *turn.Turn) (gone map[string]error) {
	if t.Outcome == turn.Unknown {
		return nil
	}
	if t.Outcome == turn.Aborted {
		cs.refusals++
	} else {
		cs.refusals = 0
	}
	gone = map[string]error{}
	for _, pt := range t.Tried {
		p, err := partitionOf(pt), t.Err
		if t.Outcome == turn.Done {
			err = t.Refused[pt]
		}
		if err == nil || p.dropped {
			continue
		}
		p.writing.tried, p.writing.err = time.Now(), err
		if t.Outcome == turn.Done { // for what it is: others were taken, and go on as before
			p.writing.refusals++
		}
		if kafka.IsAny(err, kerr.UnknownTopicID, kerr.InconsistentTopicID) { // by name it is the coordinator that does not know it
			gone[pt.TP.Topic] = err
		}
	}
	cs.tellRefused(t)
	return gone
}

// tellRefused logs why checkpoints were not written, when that is news: it is none that others are written between.
func (cs *checkpoints) tellRefused(t *turn.Turn) {
	if t.Err == nil {
		return
	}
	said, rested := codeOf(t.Err), time.Since(cs.refusedAt) > refusalsRest
	if cs.refusedAt = time.Now(); said == cs.refusedFor && !rested {
		return
	}
	cs.refusedFor = said
	level := slog.LevelWarn
	if kafka.VerdictOf(t.Err) == kafka.Refused && len(t.Refused) == 0 {
		level = slog.LevelInfo // every rebalance refuses some
	}
	cs.log.Log(context.Background(), level, "checkpoints were not written; they are tried again", "partitions", len(t.Tried), "error", t.Err)
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
	t := &turn.Turn{Env: cs.turnEnv(), Plain: true, Member: stay.Member()}
	for _, p := range ps {
		if !p.live() {
			continue
		}
		if pt := cs.of(p); pt != nil {
			t.Parts = append(t.Parts, pt)
		}
	}
	if len(t.Parts) == 0 || !t.Member.Valid() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, kafka.RequestTimeout/2)
	defer cancel()
	t.Tried = t.Parts
	cs.commitLast(ctx, t, stay)
	if t.Outcome != turn.Done {
		cs.log.Warn("the last checkpoints were not written; their next owner repeats some work", "error", t.Err)
		return
	}
	cs.wrote(t)
}

// commitLast commits with no next time to wait for: a refusal that has changed nothing is met at once.
// In at_least_once what is not written comes again, so a rebalance is waited for that goes on for some
// ms. The partitions are ours until then: the member's callbacks, which would give them up, wait for
// the lane.
func (cs *checkpoints) commitLast(ctx context.Context, t *turn.Turn, stay membership) {
	for try := 0; ; try++ {
		cs.coordinator.Retry(ctx, func() error { return t.CommitPlain(ctx) })
		rebalances := kafka.IsAny(t.Err, kerr.RebalanceInProgress, kerr.IllegalGeneration, kerr.StaleMemberEpoch)
		if !rebalances || cs.cfg.Guarantee != AtLeastOnce || !wait.For(ctx, wait.Growing(try, 10*time.Millisecond, 200*time.Millisecond)) {
			return
		}
		t.Member = stay.Member()
	}
}

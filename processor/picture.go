package processor

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/duewheel/duewheel/processor/local"
)

// agendaWithin is what the agenda in Stats looks ahead.
var agendaWithin = []time.Duration{time.Minute, time.Hour, 24 * time.Hour}

// publish renews the picture that others may look at.
func (p *partition) publish(now int64, k *kit) {
	s := &PartitionStats{
		Topic: p.tp.Topic, TopicID: p.id, Partition: p.tp.Partition, Lane: k.n, Since: p.since, Phase: p.phase,
		LogStart: p.logStart, LogEnd: p.logEnd, CheckpointAt: p.writing.at,
	}
	if p.live() || p.phase == PhaseCatchUp {
		s.CarryBehind = p.stats.Behind.Of(p.tp.Partition)
	}
	s.Reason = p.reason(k.store)
	if s.Known = p.opened(); s.Known {
		m, f := p.Marks(), p.Figures(now, agendaWithin...)
		s.Offset, s.LowWater, s.WatermarkDue, s.Position = m.Committed.Offset, m.Committed.LowWater, m.Committed.Watermark.Due, m.Position
		s.Pending, s.PendingBytes, s.Near, s.Overdue, s.NextDue, s.Needs = f.Pending, f.Bytes, f.Near, f.Overdue, f.NextDue, f.Needs
		s.Remembered = f.Remembered
		for i, st := range f.Agenda {
			s.Agenda = append(s.Agenda, AgendaEntry{Within: agendaWithin[i], Records: int64(st.Records), Bytes: int64(st.Bytes)})
		}
	}
	if p.phase != PhaseStopped { // of which it is not asked for any more
		s.Unstable, s.OpenFor = p.open.behind, p.open.lasts()
	}
	if p.live() && s.OpenFor > k.cfg.SessionTimeout {
		s.HeldBack = p.open.words(p.tp)
	}
	if p.phase == PhaseCatchUp {
		s.CaughtUp, s.CatchUpLeft = p.progress.done(p.logEnd), p.progress.left(p.logEnd)
	}
	if p.live() {
		s.CaughtUp = 1
		s.RestoreTime = p.liveAfter
		s.CheckpointOverdue = p.writing.overdue()
	}
	own, anywhere := troubleHere(p, k, s.Overdue > 0), troubleAnywhere(p, s, now)
	if err := errors.Join(own, anywhere); err != nil {
		s.Error, s.Anywhere = err.Error(), own == nil && (p.live() || p.phase == PhaseStopped)
	}
	p.picture.Store(s)
}

// troubleHere is what keeps a partition from its work, and may have to do with this replica: with its release, its configuration, its rights,
// its machine, or what it reaches of the brokers. due: it has records that are due.
func troubleHere(p *partition, k *kit, due bool) error {
	var all []error
	lasting := k.cfg.SessionTimeout
	if p.err != nil && !isAnywhere(p.err) {
		all = append(all, p.err)
	}
	if why := p.unread.Why(lasting); why != nil {
		all = append(all, fmt.Errorf("cannot be read: %w", why))
	}
	if why := p.stall.why(lasting); why != "" {
		all = append(all, errors.New(why))
	}
	if !p.live() {
		return errors.Join(all...)
	}
	waits := p.waits(due)
	if len(all) == 0 && p.writing.overdue() > lasting {
		all = append(all, errors.New(p.writing.why()))
	}
	if len(all) == 0 && waits > lasting {
		todo := "look at the brokers and at the log"
		if k.quota.Recently(lasting) {
			todo = "a quota of the brokers keeps them waiting, so raise that (producer_byte_rate, request_percentage)"
		}
		all = append(all, fmt.Errorf("records are due and no turn has been answered for %v: %s", waits.Round(time.Second), todo))
	}
	return errors.Join(all...)
}

// troubleAnywhere is what is wrong with a partition and would be on every replica: with its log, its checkpoint or the settings of its topic.
func troubleAnywhere(p *partition, s *PartitionStats, now int64) error {
	var all []error
	if isAnywhere(p.err) {
		all = append(all, p.err)
	}
	if p.loss != nil {
		all = append(all, p.loss)
	}
	for _, why := range []string{p.stats.Trouble.Get(), s.CarryBehind} {
		if why != "" {
			all = append(all, errors.New(why))
		}
	}
	if p.live() && p.Ahead() {
		all = append(all, p.errAhead(now))
	}
	return errors.Join(all...)
}

// isAnywhere tells the errors that stop a partition on whichever replica has it. What the log has lost the store of another replica may still hold,
// and a checkpoint that is not ours may be that of a group, or of a cluster, that a new configuration has named.
func isAnywhere(err error) bool { return errors.Is(err, ErrBeyondLog) }

// reason is what keeps a partition from being live, or what it does without.
func (p *partition) reason(store *local.Store) string {
	switch {
	case p.phase == PhaseCatchUp:
		without, position, held := "", p.Marks().Position, ""
		if p.Storeless() {
			without = " without the local store"
		}
		if position < p.logEnd && position >= p.open.at && p.open.lasts() >= freshEnd {
			held = "; " + p.open.words(p.tp)
		}
		return fmt.Sprintf("reading the log%s, at offset %d of %d: %s%s", without, position, p.logEnd, p.progress.words(p.logEnd), held)
	case p.live() && p.Storeless():
		return "without the local store: " + cmp.Or(store.Why(), "it works again and is taken up soon")
	}
	return ""
}

// waits is for how long a live partition has had something to do, and nothing has been answered.
func (p *partition) waits(due bool) time.Duration {
	now := time.Now()
	if !due && p.Undecided() == 0 && len(p.Repeated()) == 0 || p.answeredAt.After(p.waitsSince) || p.liveAt.After(p.waitsSince) {
		p.waitsSince = now
	}
	return now.Sub(p.waitsSince)
}

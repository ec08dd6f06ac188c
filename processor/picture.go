package processor

import (
	"cmp"
	"errors"
	"fmt"
	"time"
)

// agendaWithin is what the agenda in Stats looks ahead.
var agendaWithin = []time.Duration{time.Minute, time.Hour, 24 * time.Hour}

// publish renews the picture that others may look at.
func (p *partition) publish(now int64, k *kit) {
	s := &PartitionStats{
		Topic: p.tp.Topic, TopicID: p.id, Partition: p.tp.Partition, Lane: k.n, Phase: p.phase,
		LogStart: p.logStart, LogEnd: p.logEnd, CheckpointAt: p.writing.at,
	}
	err := errors.Join(p.err, p.loss)
	if why := p.unread.Why(k.cfg.SessionTimeout); why != nil {
		err = errors.Join(err, fmt.Errorf("cannot be read: %w", why))
	}
	if why := p.stall.why(k.cfg.SessionTimeout); why != "" {
		err = errors.Join(err, errors.New(why))
	}
	if why := p.stats.why(); why != "" {
		err = errors.Join(err, errors.New(why))
	}
	if p.live() {
		s.CarryBehind = p.stats.behind.of(p.tp.Partition)
	}
	if s.CarryBehind != "" {
		err = errors.Join(err, errors.New(s.CarryBehind))
	}
	if p.live() && p.Ahead() {
		err = errors.Join(err, p.errAhead(now))
	}
	if err != nil {
		s.Error = err.Error()
	}
	s.Reason = p.reason(k.store)
	if s.Known = p.known; p.opened() {
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
		if s.CheckpointOverdue > k.cfg.SessionTimeout && s.Error == "" {
			s.Error = p.writing.why()
		}
		if waits := p.waits(s.Overdue > 0); waits > k.cfg.SessionTimeout && s.Error == "" {
			s.Error = fmt.Sprintf("records are due and no turn has been answered for %v: look at the brokers and at the log", waits.Round(time.Second))
		}
	}
	p.picture.Store(s)
}

// reason is what keeps a partition from being live, or what it does without.
func (p *partition) reason(store *storage) string {
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
		return "without the local store: " + cmp.Or(store.why(), "it works again and is taken up soon")
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

package pending

import (
	"github.com/duewheel/duewheel/state"
)

// marks are where a partition stands. The checkpoint that it was given becomes, in this order: planned, when a part is made; done, when
// that has happened; committed, when that is written, which in exactly_once is the same moment.
//
// Invariants of an owner: committed <= done <= planned, in O and in W. A follower takes over what is committed, and has neither of the others.
type marks struct {
	live      bool             // it has caught up, and takes part in turns
	awaits    bool             // what is due waits, and only what is late goes
	leaving   bool             // it waits for its checkpoint, to be read again: nothing new is begun
	committed state.Checkpoint // as last committed
	done      state.Checkpoint // as last decided: committed, or acknowledged (at_least_once)
	planned   state.Checkpoint // as the last part that was made will leave it, or else done
	lateUpTo  state.Key        // W of planned, or of the checkpoint that is followed: what arrives with a key at or below it is late
	limit     int64            // ms: up to here W counts as time that has passed; as of the owner's last step
	accepted  int64            // O as found: below it arrivals are a replay
	start     int64            // where reading began
	position  int64            // the next offset to be read
	epoch     int32            // the newest leader epoch below it, or state.NoEpoch
	ownEnd    int64            // records of ours lie below this offset
	holds     holds            // of L, for copies that O has not passed
	carrying  *int64           // and for those of a part that is not decided: what they are copied from lies at or above
}

// Trust says up to what time W counts as time that has passed, in ms: a W beyond that was moved by a
// wrong clock.
func (m *marks) Trust(limit int64) { m.limit = limit }

// Pass moves the position to an offset below which nothing is left to be read, in a log of a leader epoch.
func (m *marks) Pass(offset int64, epoch int32) {
	if offset > m.position {
		m.position, m.epoch = offset, max(m.epoch, epoch)
	}
}

// Appended takes note of where records of ours have come to lie: below an offset.
func (m *marks) Appended(end int64) { m.ownEnd = max(m.ownEnd, end) }

// clock is what time it is for the partition: the later of the lane's clock and W (design rule 1).
// A W that is ahead of every clock that is right says nothing of the time.
func (m *marks) clock(now int64) int64 {
	if m.Ahead() {
		return now
	}
	return max(now, m.lateUpTo.Due)
}

// Ahead reports that a wrong clock has moved W. What is requested for times before it is late by
// the protocol and not by any clock: it waits on the late list until it is due, and until those
// before it in the log are, because that list is resolved by offset (design rule 3).
func (m *marks) Ahead() bool { return m.lateUpTo.Due > m.limit }

// Checkpoint makes a part without records: a checkpoint that has moved on. Beside a turn
// (at_least_once) it is what the last decision has left: what the turn holds lies above that W, or at
// or above that O, and not below that L.
func (p *Partition) Checkpoint() *Part {
	to := p.done
	if !p.again.any() && p.turns == 0 {
		to.Offset = p.order.offset()
		p.finish(&to)
	}
	// Otherwise the ledger has given up records that are undecided or to be tried again, so the low
	// water that it knows would leave them behind: that of the last decision stands.
	to.Appended = to.Appended || p.ownEnd > to.Offset
	if to.Offset == p.committed.Offset && to.Watermark == p.committed.Watermark && to.LowWater == p.committed.LowWater && !unsaid(p, to) {
		return nil
	}
	return &Part{of: p, To: to, frees: len(p.releases)}
}

// Wrote takes in that a part without records has been written. A turn may have been decided since
// that part was made: then that is the last decision.
func (p *Partition) Wrote(pt *Part) {
	p.written(pt.To, pt.frees)
	if pt.To.Offset >= p.done.Offset && !pt.To.Watermark.Less(p.done.Watermark) {
		p.done = pt.To
	}
	if p.turns == 0 && !p.again.any() {
		p.planned = p.done
	}
}

// Committed takes in that what was settled last is committed, too.
func (p *Partition) Committed(pt *Part) { p.written(pt.To, len(p.releases)) }

// finish fills in what follows from O.
func (p *Partition) finish(to *state.Checkpoint) {
	to.Epoch = p.epoch
	to.LowWater = p.order.low(to.Offset)
	to.Appended = p.ownEnd > to.Offset
	if to.Offset >= p.foundEnd {
		to.GivenUp = 0 // it has passed all that was there when it was given up
	}
	to.Parsers = append([]state.ParserEpoch(nil), to.Parsers...)
	to.DropParsersBelow(p.copied.below(to.LowWater))
}

// written notes that a checkpoint has been committed.
func (p *Partition) written(to state.Checkpoint, releasable int) {
	p.committed = to
	if p.holds.passed(to.Offset); len(p.holds) == 0 && p.carrying == nil {
		p.own = nil
	}
	p.ledger.Passed(to.Watermark)
	for _, r := range p.releases[:releasable] {
		r.giveUp(&p.window)
	}
	p.releases = append(p.releases[:0], p.releases[releasable:]...)
	p.uncountPassed()
}

// Settled reports whether the checkpoint says all that has been delivered.
func (p *Partition) Settled() bool {
	return p.turns == 0 && !p.again.any() && p.done.Offset == p.committed.Offset && p.done.Watermark == p.committed.Watermark && !unsaid(p, p.done)
}

// unsaid reports whether the log has records of ours above the O of a checkpoint, and the committed one does not say so: whoever reads by that
// delivers again what has overtaken.
func unsaid(p *Partition, c state.Checkpoint) bool {
	return (c.Appended || p.ownEnd > c.Offset) && !p.committed.Appended
}

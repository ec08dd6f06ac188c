package pending

import (
	"time"

	"github.com/duewheel/duewheel/state"
)

// Marks are where a partition stands: the checkpoints that it has written, decided and planned, and how
// far the log has been read.
type Marks struct {
	Committed state.Checkpoint // as last committed
	Done      state.Checkpoint // as last decided: committed, or acknowledged (at_least_once)
	Judge     state.Key        // late is decided against this W
	Start     int64            // where reading began
	Position  int64            // the next offset to be read
	OwnEnd    int64            // records of ours lie below this offset
}

// Marks returns where it stands.
func (p *Partition) Marks() Marks {
	return Marks{Committed: p.committed, Done: p.done, Judge: p.judge, Start: p.start, Position: p.position, OwnEnd: p.ownEnd}
}

// Figures are how much a partition holds, and when it is due.
type Figures struct {
	Pending int64           // records that are not resolved
	Bytes   int64           // of them
	Near    int64           // of them, held in memory
	Overdue int64           // due before now, approximately
	NextDue int64           // ms; 0 when nothing is pending, or nothing is known of when it is due
	Needs   time.Duration   // for how long the log must be kept, at least, for what is pending
	Agenda  []state.Stretch // how much is due within each of some times
}

// Figures counts what it holds. Within is what the agenda looks ahead.
func (p *Partition) Figures(now int64, within ...time.Duration) Figures {
	f := Figures{
		Pending: p.Pending(), Bytes: p.ledger.Bytes() + p.lateBytes, Near: int64(p.wheel.Len()),
		Overdue: p.lateDue(now), NextDue: p.firstDue(now), Needs: p.needs(now),
	}
	if p.queue != nil {
		f.Bytes, f.Near = p.queue.bytes, f.Pending
	}
	agenda := p.ledger.Agenda(now, append([]time.Duration{0}, within...)...)
	f.Overdue += int64(agenda[0].Records)
	f.Agenda = agenda[1:]
	return f
}

// Pending is how many records it holds that are not resolved.
func (p *Partition) Pending() int64 {
	if p.queue != nil {
		return int64(p.queue.len())
	}
	return int64(p.ledger.Len() + len(p.late))
}

// longestWait is the record that is due last, of those that were read.
type longestWait struct {
	due  int64         // ms
	wait time.Duration // from when it was written until then
}

// see takes in a record that becomes pending.
func (f *longestWait) see(due int64, written time.Time) {
	if due >= f.due {
		f.due, f.wait = due, time.UnixMilli(due).Sub(written)
	}
}

// needs is for how long the log must have kept the record that is due last when its time comes. What
// only the store has told of is known to need at least the time until then.
func (p *Partition) needs(now int64) time.Duration {
	if p.Pending() == 0 {
		return 0
	}
	if p.queue != nil {
		return p.Route.Delay
	}
	last := p.ledger.Last()
	need := time.Duration(max(last-now, 0)) * time.Millisecond
	if p.longest.due >= max(last, now) {
		need = max(need, p.longest.wait)
	}
	return need
}

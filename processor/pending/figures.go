package pending

import (
	"time"

	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
)

// Marks are where a partition stands: the checkpoints that it has written, decided and planned, and how
// far the log has been read.
type Marks struct {
	Committed state.Checkpoint // as last committed
	Done      state.Checkpoint // as last decided: committed, or acknowledged (at_least_once)
	LateUpTo  state.Key        // late is decided against this W
	Start     int64            // where reading began
	Position  int64            // the next offset to be read
	OwnEnd    int64            // records of ours lie below this offset
	Leaving   bool             // it waits for its checkpoint, to be read again
}

// End is up to where a catch-up must read: the later of the last stable offset and the end of what
// records of ours there may be (design rule 2).
func (m Marks) End(stable int64) int64 { return max(stable, m.OwnEnd) }

// Marks returns where it stands.
func (m *marks) Marks() Marks {
	return Marks{Committed: m.committed, Done: m.done, LateUpTo: m.lateUpTo, Start: m.start, Position: m.position, OwnEnd: m.ownEnd, Leaving: m.leaving}
}

// Figures are how much a partition holds, and when it is due.
type Figures struct {
	Pending int64 // records that are not resolved
	Bytes   int64 // of them
	Near    int64 // of them, held in memory; with stubs it may be less

	Remembered int64 // records that were delivered, and whose ids are remembered

	Overdue int64           // due before now, approximately
	NextDue int64           // ms; 0 when nothing is pending, or nothing is known of when it is due
	Needs   time.Duration   // for how long the log must be kept, at least, for what is pending and is not carried, and for what is remembered
	Agenda  []state.Stretch // how much is due within each of some times
}

// sooner says that something is due: now, if it is refused, or came at a time that is not known.
func (f *Figures) sooner(due, now int64) {
	if due <= topics.AtOnce {
		due = now
	}
	if f.NextDue == 0 || due < f.NextDue {
		f.NextDue = due
	}
}

// Figures counts what it holds. Within is what the agenda looks ahead.
func (p *Partition) Figures(now int64, within ...time.Duration) Figures {
	f := p.order.count(now)
	if f.Pending > 0 || f.Remembered > 0 {
		f.Needs = p.order.needs(now)
	}
	if p.again.any() && len(p.again.parts[0].Items) > 0 {
		f.sooner(p.again.parts[0].Items[0].due(), now)
	}
	agenda := p.ledger.Agenda(now, append([]time.Duration{0}, within...)...)
	f.Overdue += int64(agenda[0].Records)
	f.Agenda = agenda[1:]
	return f
}

// longestWait is the record that is due last, of those that were read.
type longestWait struct {
	due  int64         // ms
	wait time.Duration // from when it was written until then
}

// see takes in a record that becomes pending.
func (f *longestWait) see(due, written int64) {
	if due >= f.due {
		f.due, f.wait = due, millis(due-written)
	}
}

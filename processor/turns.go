package processor

import (
	"time"

	"github.com/duewheel/duewheel/processor/telling"
	"github.com/duewheel/duewheel/processor/turn"
)

// turns says when a lane's turns begin, one after the other, and what follows from what became of them for the
// partitions that were in them. It belongs to the lane.
type turns struct {
	*kit
	producers   *producers
	selection   *selection
	checkpoints *checkpoints
	decided     chan *turn.Turn
	inFlight    *turn.Turn
	ahead       *turn.Turn // rendered while that is in flight, because more was due than fitted into it
	copies      copies
	full        bool         // the last turn could not hold all that was due
	pace        pace         // how soon one follows another
	timeouts    int          // in a row that ran out of time
	aborts      int          // in a row that were given up
	gaveUp      telling.News // why one was, to the log
	stopping    bool         // none may begin any more
	draining    bool         // none may begin when the one in flight is decided
}

// begin starts the next turn if there is something to do. While a turn is in flight that
// could not hold all that was due, the next is rendered ahead.
func (ts *turns) begin(ps []*partition, now int64, stay membership) {
	ts.copies.giveBack(ps)
	if ts.producers.renewing || len(ps) == 0 {
		return
	}
	if ts.inFlight != nil {
		if ts.inFlight.Full && ts.ahead == nil && !ts.copies.excerpt.overdue() { // what is ahead leaves no room for copies
			ts.beginAhead(ps, now)
		}
		return
	}
	if ts.checkpoints.standstill.doubts() {
		return
	}
	m := stay.Member()
	if !m.Valid() || ts.pace.left(time.Now()) > 0 {
		return
	}
	t := &turn.Turn{Member: m, Began: time.Now()}
	ts.gather(t, ps, now)
	if ts.cfg.Guarantee == ExactlyOnce {
		// Checkpoints that are getting old go along; with nothing to deliver they go alone.
		t.Plain = len(t.Parts) == 0
		t.Parts = append(t.Parts, ts.checkpoints.stale(ps)...)
	}
	if len(t.Parts) > 0 {
		ts.inFlight = t
		ts.start(t)
	}
}

// isDecided reports whether a turn waits to be taken in.
func (ts *turns) isDecided() bool { return len(ts.decided) > 0 }

// gather takes what a turn delivers, and what it carries. Copies of which one may be refused go alone: nothing else is given up with them.
func (ts *turns) gather(t *turn.Turn, ps []*partition, now int64) {
	carries := ts.copies.part(ps, now, ts.full)
	if carries == nil || !excerptOf(carries.Copies).Suspect {
		t.Parts, t.Full = ts.selection.records(ps, now)
		t.Narrows = ts.selection.search.narrowing
	}
	if carries != nil {
		t.Parts = append(t.Parts, carries)
	}
}

// beginAhead takes the next batch out and has it rendered. It begins when the turn in flight is
// decided and has happened, and is put back otherwise.
func (ts *turns) beginAhead(ps []*partition, now int64) {
	t := &turn.Turn{Began: time.Now(), Begin: make(chan bool, 1)}
	if t.Parts, t.Full = ts.selection.ahead(ps, now); len(t.Parts) > 0 {
		if ts.cfg.Guarantee == ExactlyOnce {
			t.Parts = append(t.Parts, ts.checkpoints.stale(ps)...) // turns may go on being full
		}
		ts.ahead = t
		ts.start(t)
	}
}

// release lets the turn begin that was rendered ahead, or puts it back. What has become due meanwhile of partitions that are not in it joins it.
func (ts *turns) release(ps []*partition, begin bool, stay membership) {
	t := ts.ahead
	if t == nil {
		return
	}
	ts.ahead = nil
	t.Member, t.Began = stay.Member(), time.Now()
	ts.checkpoints.steps(t.Began) // it may be the first that the lane does when its process goes on
	begin = begin && !ts.checkpoints.standstill.doubts()
	if begin && !ts.producers.renewing && !ts.producers.owe() && !ts.draining && !ts.quota.Lasts() && t.Member.Valid() {
		for _, pt := range t.Parts {
			// The turn before may have appended above this one's O.
			pt.To.Appended = pt.To.Appended || partitionOf(pt).Marks().OwnEnd > pt.To.Offset
		}
		joining, full := ts.selection.join(ps, ts.clock.Now())
		t.Joining, t.Full = joining, t.Full || full
		ts.inFlight = t
		t.Begin <- true
		return
	}
	t.Begin <- false
	<-ts.decided
	t.EndTrials()
	for _, pt := range t.Parts {
		p := partitionOf(pt)
		if p.End(); len(pt.Items) > 0 {
			p.Repeat(pt.Part, 0)
		}
	}
}

// start hands a turn to its goroutine.
func (ts *turns) start(t *turn.Turn) {
	if !t.Plain {
		t.Producer, t.Renderer = ts.producers.take()
	}
	t.Env, t.Patience = ts.turnEnv(), ts.timeouts
	t.Start(ts.until, ts.wg, ts.decided)
}

// pause is how long nothing has to be done for partitions: until the next record is due, exactly, or the next
// look at whether a checkpoint is to be written.
func (ts *turns) pause(ps []*partition) time.Duration {
	pause := 100 * time.Millisecond
	if ts.inFlight != nil || ts.producers.renewing {
		return pause // its end wakes us
	}
	if throttled := ts.quota.Left(); throttled > 0 {
		return min(pause, throttled)
	}
	due := pause
	for _, p := range ps {
		if at, ok := p.nextDue(); ok {
			due = min(due, ts.clock.Until(at))
		}
	}
	return min(pause, max(due, ts.pace.left(time.Now()), leastPause))
}

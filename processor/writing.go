package processor

import (
	"fmt"
	"time"

	"github.com/duewheel/duewheel/processor/turn"
)

// writing is how far the writing of a partition's checkpoint has come. That it was tried and that it
// was written are two things: what counts after a crash is the second.
type writing struct {
	at     time.Time // when it was last written, or found
	tried  time.Time // when that was last tried
	behind time.Time // since when there has been something to write; zero: there is nothing
	err    error     // why the last try was in vain
	logged bool      // the log says that it is overdue
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

// prepareCommit makes a part without records: a checkpoint that has moved on.
func (p *partition) prepareCommit() *turn.Part { return p.part(p.Checkpoint()) }

// stoppedRetry is how often a stopped partition looks whether a person has decided.
const stoppedRetry = 30 * time.Second

// stop makes a partition wait that its coordinator refuses, so that the others go on without it. It
// starts over now and then, to see whether that has been mended.
func (p *partition) stop(why error, es events) {
	p.phase, p.err, p.since = PhaseStopped, why, time.Now()
	p.log.Error("partition is stopped", "error", why, "looks_again_in", stoppedRetry)
	es.tell(Event{Kind: EventStopped, Error: why.Error()}, p.tp)
}

// wasWritten notes that a checkpoint has been committed.
func (p *partition) wasWritten(now time.Time) {
	if p.writing.logged {
		p.log.Info("the checkpoint is written again", "after", p.writing.overdue().Round(time.Second))
	}
	p.writing = writing{at: now, tried: now}
}

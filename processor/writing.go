package processor

import (
	"fmt"
	"time"
)

// writing is how far the writing of a partition's checkpoint has come. That it was tried and that it
// was written are two things: what counts after a crash is the second.
type writing struct {
	at     time.Time // when it was last written, or found
	tried  time.Time // when that was last tried
	behind time.Time // since when there has been something to write; zero: there is nothing
	err    error     // why the last try was in vain
	logged bool      // the log says that it is overdue

	refusals int // in a row, while others were written
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

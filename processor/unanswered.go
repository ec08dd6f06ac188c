package processor

import (
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/turn"
)

// unanswered is what a lane knows of commits that go beside turns (at_least_once) and got no answer. It
// has its partitions for as long as it is in the group, and a coordinator that is silent for some seconds
// has not thrown it out: to give them up would deliver again what was delivered meanwhile. So it tries the
// next checkpoints, until a session has passed without any answer.
//
// A commit that was not answered may be carried out late, after newer ones of the same generation, and set
// the checkpoint back. It says what was true once, so that costs no more than what a crash would deliver
// again. For a while the checkpoints are written again and again, therefore, although nothing has changed.
type unanswered struct {
	since time.Time // when the first one in a row was sent; zero: the last one was answered
	until time.Time // up to then a late one may have been carried out after those that were answered
}

// lateCommit is for how long after brokers answer again one that they were sent before may be carried out:
// it may wait in a connection for the network.
const lateCommit = time.Minute

// note takes in whether a commit got an answer.
func (u *unanswered) note(t *turn.Turn) {
	var answer *kerr.Error
	switch {
	case t.Err == nil || errors.As(t.Err, &answer):
		if !u.since.IsZero() {
			*u = unanswered{until: time.Now().Add(lateCommit)}
		}
	case u.since.IsZero() && errors.Is(t.Err, kafka.ErrUnanswered):
		u.since = t.Began
	}
}

// lasts is for how long no commit was answered.
func (u *unanswered) lasts() time.Duration {
	if u.since.IsZero() {
		return 0
	}
	return time.Since(u.since)
}

// mayArrive reports whether a late commit may have set checkpoints back, or still may.
func (u *unanswered) mayArrive() bool { return !u.since.IsZero() || time.Now().Before(u.until) }

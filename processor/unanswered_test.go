package processor

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/duewheel/duewheel/processor/group"
	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/pending"
	"github.com/duewheel/duewheel/processor/turn"
)

// Commits that get no answer cost no partition until a session has passed, by whatever protocol the
// member would find out for itself.
func TestUnansweredForASession(t *testing.T) {
	l := testLane(t, func(c *Config) { c.Guarantee = AtLeastOnce })
	p := livePartition(t, l)
	before, err := l.group.Join()
	if err != nil {
		t.Fatal(err)
	}
	l.membership = before
	l.read(t, p, testNow, control(0))
	began := time.Now().Add(-l.cfg.SessionTimeout)
	for i, c := range []struct {
		began time.Time
		err   error
		stays bool
	}{
		{began.Add(-time.Minute), fmt.Errorf("%w: it was not sent", kafka.ErrNoCoordinator), true}, // nothing says that it is silent
		{began.Add(-time.Second), fmt.Errorf("%w: silence", kafka.ErrUnanswered), false},
		{began.Add(time.Second), fmt.Errorf("%w: silence", kafka.ErrUnanswered), true},
		{began.Add(-time.Second), kerr.NotCoordinator, true},
		{began.Add(time.Second), fmt.Errorf("%w: silence", kafka.ErrUnanswered), true},
		{time.Now(), nil, true},
		{began.Add(2 * time.Second), fmt.Errorf("%w: silence", kafka.ErrUnanswered), true},
	} {
		if i == 2 { // a stay that has just begun
			p = livePartition(t, l)
			before = l.membership.(*group.Stay)
			l.read(t, p, testNow, control(0))
		}
		tn := &turn.Turn{Env: l.turnEnv(), Parts: []*turn.Part{p.part(&pending.Part{To: p.Marks().Committed})}, Plain: true, Cancel: func() {}, Began: c.began, Err: c.err}
		if tn.Tried = tn.Parts; c.err != nil {
			tn.Outcome = turn.Unknown
		}
		l.checkpoints.commit = tn
		l.commitDecided(t.Context(), tn)
		equal(t, fmt.Sprintf("%d: %v: a late one may arrive", i, c.err), l.checkpoints.unanswered.mayArrive(), c.stays && i > 0)
		equal(t, fmt.Sprintf("%d: %v: the stay goes on", i, c.err), l.membership == before && len(l.partitions) == 1, c.stays)
	}
	equal(t, "it is written again", l.checkpoints.of(p) != nil, true)
	l.membership.Leave()
	l.group.Wait()
}

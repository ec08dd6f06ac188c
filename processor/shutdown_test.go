package processor

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/duewheel/duewheel/processor/turn"
)

// leaver is a stay that has ended as soon as it is left.
type leaver struct{ outsider }

func (leaver) Left() <-chan struct{} {
	left := make(chan struct{})
	close(left)
	return left
}

// What the last turn has started over is given up when the process ends: nobody waits for it.
func TestShutdownEndsWhatItsTurnHasBegun(t *testing.T) {
	l := testLane(t)
	until, giveUp := context.WithCancel(t.Context())
	defer l.wg.Wait()
	defer giveUp()
	l.until, l.membership = until, leaver{}
	p := livePartition(t, l)
	l.read(t, p, testNow, control(0))
	parts := []*turn.Part{p.prepareCommit()}
	p.Begin()
	l.turns.inFlight = &turn.Turn{Env: l.turnEnv(), Parts: parts, Tried: parts, Plain: true, Cancel: func() {}, Outcome: turn.Aborted, Err: kerr.UnknownTopicID}
	l.turns.decided <- l.turns.inFlight
	l.shutdown()
	equal(t, "partitions", len(l.partitions), 0)
	ended := make(chan struct{})
	go func() {
		l.wg.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(5 * time.Second):
		t.Error("something goes on")
	}
}

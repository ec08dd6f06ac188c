package processor

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/duewheel/duewheel/processor/pending"
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

// What memory alone holds goes to the store at the end where a log may be cut before the next start, and only there: what would have to be waited for.
func TestWhereTheEndStoresWhatIsNear(t *testing.T) {
	for name, c := range map[string]struct {
		keeps   time.Duration
		trouble string
		loss    error
		stores  bool
	}{
		"the log is kept for ever":          {},
		"for a week":                        {keeps: 7 * 24 * time.Hour},
		"for two days":                      {keeps: 48 * time.Hour},
		"for less":                          {keeps: 48*time.Hour - time.Millisecond, stores: true},
		"it is compacted":                   {trouble: "it is compacted", stores: true},
		"it has lost what is pending there": {loss: ErrLogTruncated, stores: true},
	} {
		t.Run(name, func(t *testing.T) {
			l := testLane(t)
			p := livePartition(t, l)
			l.read(t, p, testNow, req(0, testNow, "orders"), req(1, ms(1000), "orders"))
			l.happened(p.take(testNow, nil, 10, anyBytes))
			p.stats.Keeps.Store(c.keeps.Milliseconds())
			p.stats.Trouble.Set(c.trouble)
			p.loss = c.loss
			l.storeAll(t.Context(), []*partition{p})
			reaches := int64(1) // the record at 1 is in memory alone
			if c.stores {
				reaches = 2
			}
			equal(t, "nothing below is in memory alone", pending.Saving{Partition: p.Partition}.Reaches(), reaches)
		})
	}
}

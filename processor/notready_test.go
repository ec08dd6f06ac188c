package processor

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/turn"
)

// What is carried on, or held up, for a target that brokers have not told of yet is told so.
func TestTroubleOfATargetNotLookedUp(t *testing.T) {
	p := testProcessor(t)
	p.targets.Of([]byte("orders"))
	equal(t, "trouble", p.Stats().Targets[0].Trouble, "unknown: not looked up yet")
}

// The same in what a fixed-delay route waits for.
func TestQueueHeldByATargetNotLookedUp(t *testing.T) {
	l := testLane(t, func(c *Config) { c.Routes[0].Delay, c.Routes[0].Target = time.Millisecond, "orders" })
	p := livePartition(t, l)
	l.read(t, p, testNow, &kgo.Record{Offset: 0, Timestamp: time.UnixMilli(testNow)})
	pt := p.take(testNow+1, nil, 1, anyBytes)
	_, err := (&turn.Renderer{Env: l.turnEnv()}).Part(t.Context(), pt, testNow+1)
	if err == nil {
		t.Fatal("a record was rendered for a target that is not known")
	}
	equal(t, "why", err.Error(), "target orders: not looked up yet")
}

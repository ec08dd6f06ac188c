package processor

import (
	"testing"
	"time"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/targets"
	"github.com/duewheel/duewheel/processor/turn"
)

// A record whose target is in trouble is tried again, however long the pause before that is: max_delay bounds what producers ask for.
func TestPauseAboveMaxDelay(t *testing.T) {
	l := testLane(t, func(cfg *Config) {
		cfg.Routes[0].MaxDelay = time.Second
		cfg.RetryBackoff, cfg.RetryBackoffMax = time.Minute, time.Minute
	})
	for name, status := range map[string]targets.Status{testTopic: targets.Ready, "orders": targets.Troubled} {
		l.targets.Of([]byte(name)).State.Store(&targets.State{Status: status, Why: "no leader", Partitions: 4, Takes: targets.Limits{MaxBytes: kafka.DefaultMaxBytes}})
	}
	p := livePartition(t, l)
	l.read(t, p, testNow, req(0, testNow, "orders"))
	re, pt := &turn.Renderer{Env: l.turnEnv()}, p.take(testNow, nil, 10, anyBytes)
	if _, err := re.Part(t.Context(), pt, testNow); err != nil || len(re.Outputs) != 1 || re.Outputs[0].Kind != turn.OutRetry {
		t.Fatalf("%+v, %v", re.Outputs, err)
	}
	again := *re.Outputs[0].Record
	again.Offset, again.Timestamp = 1, time.UnixMilli(testNow)
	l.read(t, p, testNow, &again)
	if pt := p.take(testNow, nil, 10, anyBytes); pt != nil {
		t.Errorf("it is not held for its pause, but refused: %v", pt.Items[0].Refusal)
	}
}

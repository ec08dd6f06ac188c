package processor

import (
	"testing"
	"time"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/targets"
	"github.com/duewheel/duewheel/processor/turn"
	"github.com/duewheel/duewheel/topics"
)

// What is carried on says by which names it asks, each time, so that another configuration reads it as it was meant.
func TestRetrySaysItsNames(t *testing.T) {
	l := testLane(t, func(cfg *Config) { cfg.Routes[0].Prefix = "x-wheel-" })
	for name, status := range map[string]targets.Status{testTopic: targets.Ready, "orders": targets.Troubled} {
		l.targets.Of([]byte(name)).State.Store(&targets.State{Status: status, Why: "no leader", Partitions: 4, Takes: targets.Limits{MaxBytes: kafka.DefaultMaxBytes}})
	}
	r := req(0, testNow, "orders")
	for i := range r.Headers {
		r.Headers[i].Key = "x-wheel-" + r.Headers[i].Key[len(topics.HeaderPrefix):]
	}
	again, now := r, int64(testNow)
	for attempt := 1; attempt < 4; attempt++ {
		p := livePartition(t, l)
		l.read(t, p, now, again)
		re, pt := &turn.Renderer{Env: l.turnEnv()}, p.take(now, nil, 10, anyBytes)
		if pt == nil {
			t.Fatalf("attempt %d: nothing is due", attempt)
		}
		if _, err := re.Part(t.Context(), pt, now); err != nil || len(re.Outputs) != 1 || re.Outputs[0].Kind != turn.OutRetry {
			t.Fatalf("attempt %d: %+v, %v", attempt, re.Outputs, err)
		}
		written, tried, is := p.Mark.Written(re.Outputs[0].Record.Headers, int64(attempt))
		if !is || tried.Names != "^x-wheel-" || tried.Attempt != attempt || len(written) != len(r.Headers) {
			t.Fatalf("attempt %d: %v, %+v, %v", attempt, is, tried, written)
		}
		copied := *re.Outputs[0].Record
		copied.Offset, copied.Timestamp = int64(attempt), time.UnixMilli(testNow)
		again, now = &copied, tried.Due
	}
}

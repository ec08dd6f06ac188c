package processor

import (
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/targets"
	"github.com/duewheel/duewheel/processor/turn"
	"github.com/duewheel/duewheel/topics"
)

// What a turn dead-letters has left nothing: its id is free, and a resolve record says so to the next reader of the log. If the turn is tried
// again and delivers it, it is remembered.
func TestDeadLetterLeavesNothing(t *testing.T) {
	for _, guarantee := range []Guarantee{ExactlyOnce, AtLeastOnce} {
		for _, dead := range []bool{true, false} {
			route := testRoute(true)
			route.Remember = time.Hour
			l, w := testCluster(t, func(c *Config) { c.Guarantee, c.Routes = guarantee, []topics.Route{route} })
			r := req(0, testNow, "orders")
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: topics.HeaderID, Value: []byte("a")})
			tn := readyTurn(t, l, w, r)
			pt := tn.Parts[0]
			equal(t, "remembered in flight", partitionOf(pt).Figures(testNow).Remembered, 1)
			want, left := []turn.Kind{turn.OutDelivered}, int64(1)
			if pt.Items[0].Dead = true; dead { // by the try before
				pt.Items[0].Extra().Blame = kerr.InvalidRecord
				want, left = []turn.Kind{turn.OutDeadLetter, turn.OutResolve}, 0
			}
			tn.Run(t.Context())
			equal(t, "outcome", tn.Outcome, turn.Done)
			var kinds []turn.Kind
			for _, o := range tn.Renderer.Outputs {
				kinds = append(kinds, o.Kind)
			}
			equals(t, "outputs", kinds, want)
			l.turnDecided(t.Context(), tn)
			equal(t, "remembered", partitionOf(pt).Figures(testNow).Remembered, left)
		}
	}
}

// At least once, a dead letter is not written again because its resolve record, which follows it, could not be: that is written alone.
func TestResolveFollowsAtLeastOnce(t *testing.T) {
	route := testRoute(false)
	route.Remember = time.Hour
	l, w := testCluster(t, auditing, func(c *Config) { c.Guarantee, c.Routes = AtLeastOnce, []topics.Route{route} })
	l.auditIs(targets.Ready)
	tn := readyTurn(t, l, w, withID(req(0, testNow, "orders"), "a"))
	p := partitionOf(tn.Parts[0])
	tn.Parts[0].Items[0].Extra().Blame = kerr.InvalidRecord
	for _, refuses := range []string{testAudit, testTopic, ""} {
		if w.Answer(kmsg.Produce, nil); refuses != "" {
			refuse(w, refuses, kerr.TopicAuthorizationFailed, nil)
		}
		tn.Run(t.Context())
		if refuses == "" {
			break
		}
		equal(t, "outcome where refuses "+refuses, tn.Outcome, turn.Aborted)
		l.turnDecided(t.Context(), tn)
		equal(t, "dead letters", slices.Contains(l.counters.deadLetters.Total(), DeadLetterStats{Topic: testTopic, Code: string(topics.CodeRejected), Records: 1}), true)
		for _, name := range []string{testAudit, testTopic} {
			l.targets.Of([]byte(name)).State.Store(&targets.State{Status: targets.Ready, Partitions: 4, Takes: targets.Limits{MaxBytes: kafka.DefaultMaxBytes}})
		}
		tn = &turn.Turn{Env: l.turnEnv(), Parts: []*turn.Part{p.take(testNow+1000, nil, 10, anyBytes)}, Member: someone, Cancel: func() {}, Producer: tn.Producer, Renderer: &turn.Renderer{Env: l.turnEnv()}}
	}
	equal(t, "outcome", tn.Outcome, turn.Done)
	equal(t, "outputs of the last turn", len(tn.Renderer.Outputs), 1)
	equal(t, "which is", tn.Renderer.Outputs[0].Kind, turn.OutResolve)
}

// A record that was carried on keeps its stub, and loses it when the copy is dead-lettered.
func TestDeadLetterOfARetryLeavesNothing(t *testing.T) {
	for _, remembers := range []bool{true, false} {
		route := testRoute(true)
		if remembers {
			route.Remember = time.Hour
		}
		l, w := testCluster(t, func(c *Config) { c.Routes = []topics.Route{route} })
		first := req(0, testNow-5000, "orders")
		copied := req(1, testNow-5000, "orders")
		copied.Headers, _ = topics.AppendRetry(nil, first.Headers, testMark, topics.Retry{Due: testNow, Attempt: 1, Origin: topics.Origin{Offset: 0, Timestamp: testNow - 9000, Due: testNow - 5000}}, nil)
		tn := readyTurn(t, l, w, copied)
		tn.Parts[0].Items[0].Extra().Blame = kerr.InvalidRecord
		tn.Run(t.Context())
		equal(t, "outcome", tn.Outcome, turn.Done)
		if n := len(tn.Renderer.Outputs); n != 1 && !remembers || n != 2 && remembers {
			t.Fatalf("%d records are written", n)
		}
		if remembers {
			want := topics.Resolve(testMark, 0, testNow-5000, 0)
			equal(t, "resolve record", string(tn.Renderer.Outputs[1].Record.Headers[0].Value), string(want[0].Value))
		}
	}
}

package processor

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/targets"
	"github.com/duewheel/duewheel/processor/turn"
	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
)

// What was appended again has expired when the request has, however often it was tried, and its dead letter names the request.
func TestAppendedExpiresAsItsRequest(t *testing.T) {
	l, w := testCluster(t, func(c *Config) {
		r := testRoute(false)
		r.ExpireAfter = time.Minute
		c.Routes = []topics.Route{r}
	})
	r := req(8, testNow, "orders")
	as := topics.Retry{Due: testNow, Origin: topics.Origin{Offset: 3, Timestamp: testNow - 90_000, Due: testNow - 60_001}}
	r.Headers, _ = topics.AppendRetry(nil, r.Headers, testMark, as, nil)
	tn := readyTurn(t, l, w, r)
	tn.RenderParts(t.Context(), tn.Parts)
	if len(tn.Renderer.Outputs) == 0 || tn.Renderer.Outputs[0].Kind != turn.OutDeadLetter {
		t.Fatalf("outputs are %+v", tn.Renderer.Outputs)
	}
	out := tn.Renderer.Outputs[0]
	equal(t, "code", out.Refusal.Code, topics.CodeExpired)
	equal(t, "offset", string(topics.Last(out.Record.Headers, topics.HeaderErrorOffset)), "3")
}

// How often a record of a retry route had been delivered was judged when it was accepted: one that may go to its target no more is dead-lettered for that, and not
// parked because fewer attempts are allowed by now.
func TestAttemptsAreJudgedOnce(t *testing.T) {
	route := testRoute(true)
	route.Retry = &topics.Retrying{Backoff: topics.Backoff{Initial: time.Second, Factor: 1, Max: time.Second}, MaxAttempts: 5, Parking: "bills"}
	route.Allow, route.Target = []string{"orders"}, "orders"
	l, w := testCluster(t, func(c *Config) { c.Routes = []topics.Route{route} })
	r := req(0, testNow, "orders")
	r.Timestamp, r.Headers = time.UnixMilli(testNow-1000), append(r.Headers, kgo.RecordHeader{Key: topics.HeaderAttempt, Value: []byte("3")})
	r.Attrs = kgo.NewRecordAttrs(kgo.RecordAttrsOpts{TimestampType: 1})
	tn := readyTurn(t, l, w, r)
	equal(t, "taken", len(tn.Parts[0].Items), 1)
	retry := *route.Retry
	retry.MaxAttempts = 2
	route.Retry, route.Allow, route.Target = &retry, []string{"payments"}, "payments"
	tn.Parts[0].Route = mustRoute(route)
	tn.RenderParts(t.Context(), tn.Parts)
	if len(tn.Renderer.Outputs) == 0 || tn.Renderer.Outputs[0].Kind != turn.OutDeadLetter {
		t.Fatalf("outputs are %+v", tn.Renderer.Outputs)
	}
	equal(t, "code", tn.Renderer.Outputs[0].Refusal.Code, topics.CodeTargetNotAllowed)
	equal(t, "dead-lettered in", tn.Renderer.Outputs[0].Record.Topic, route.DeadLetter)
}

// What was read while the prefix was another one loses the headers that it asks by.
func TestDeliveredWithoutHeadersOfAFormerPrefix(t *testing.T) {
	l, w := testCluster(t)
	tn := readyTurn(t, l, w, req(0, testNow, "orders"))
	r := testRoute(true)
	r.Prefix = "x-wheel-"
	tn.Parts[0].Route = mustRoute(r)
	tn.RenderParts(t.Context(), tn.Parts)
	var names []string
	for _, h := range tn.Renderer.Outputs[0].Record.Headers {
		names = append(names, h.Key)
	}
	equals(t, "headers", names, []string{"x-wheel-due", "x-wheel-source"})
}

// A copy of what was given up is read by the parser of today. Where that takes it for something else than a request it is dead-lettered when it is due, as what it
// was, and does nothing else.
func TestCarriedThatIsNoRequestAnyMore(t *testing.T) {
	l, w := testCluster(t)
	readyTurn(t, l, w) // for what is known of its targets
	p, err := l.assign(state.Checkpoint{Offset: 5, LowWater: 5, GivenUp: 5}, 5, 5, 5)
	if err == nil {
		err = p.goLive(l.memory.room(1))
	}
	if err != nil {
		t.Fatal(err)
	}
	r := req(5, testNow, "orders")
	r.Headers, _ = topics.AppendCopy(nil, []kgo.RecordHeader{{Key: topics.HeaderCancel, Value: []byte("some-id")}}, testMark, topics.Copy{Seq: 3, Due: testNow, Timestamp: testNow - 5, From: 3}, nil)
	tn := l.turnOf(t, w, p, r)
	tn.RenderParts(t.Context(), tn.Parts)
	if len(tn.Renderer.Outputs) == 0 || tn.Renderer.Outputs[0].Kind != turn.OutDeadLetter {
		t.Fatalf("outputs are %+v", tn.Renderer.Outputs)
	}
	for _, out := range tn.Renderer.Outputs {
		if out.Kind != turn.OutDeadLetter && out.Kind != turn.OutResolve {
			t.Errorf("there is an output %v", out.Kind)
		}
	}
	out := tn.Renderer.Outputs[0]
	equal(t, "code", out.Refusal.Code, topics.CodeUnsupportedHeader)
	equal(t, "offset", string(topics.Last(out.Record.Headers, topics.HeaderErrorOffset)), "3")
}

// What a compacted target needs is a key of the delivered record, whether or not the request has one.
func TestCompactedTargetNeedsAKey(t *testing.T) {
	l, w := testCluster(t)
	keyed, bare := req(0, testNow, "orders"), req(1, testNow, "orders")
	keyed.Key, bare.Key = nil, nil
	keyed.Headers = append(keyed.Headers, kgo.RecordHeader{Key: topics.HeaderTargetKey, Value: []byte("k")})
	tn := readyTurn(t, l, w, keyed, bare)
	l.targets.Of([]byte("orders")).State.Store(&targets.State{Status: targets.Ready, Partitions: 4, Takes: targets.Limits{MaxBytes: kafka.DefaultMaxBytes, Compacted: true}})
	tn.RenderParts(t.Context(), tn.Parts)
	if len(tn.Renderer.Outputs) < 2 {
		t.Fatalf("outputs are %+v", tn.Renderer.Outputs)
	}
	equal(t, "the first", tn.Renderer.Outputs[0].Kind, turn.OutDelivered)
	equal(t, "the second", tn.Renderer.Outputs[1].Kind, turn.OutDeadLetter)
}

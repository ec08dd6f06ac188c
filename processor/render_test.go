package processor

import (
	"testing"
	"time"
	"unsafe"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/targets"
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
	tn.renderParts(t.Context(), tn.parts)
	if len(tn.render.outputs) == 0 || tn.render.outputs[0].kind != outDeadLetter {
		t.Fatalf("outputs are %+v", tn.render.outputs)
	}
	out := tn.render.outputs[0]
	equal(t, "code", out.refusal.Code, topics.CodeExpired)
	equal(t, "offset", string(topics.Last(out.rec.Headers, topics.HeaderErrorOffset)), "3")
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
	equal(t, "taken", len(tn.parts[0].Items), 1)
	retry := *route.Retry
	retry.MaxAttempts = 2
	route.Retry, route.Allow, route.Target = &retry, []string{"payments"}, "payments"
	tn.parts[0].p.route = mustRoute(route)
	tn.renderParts(t.Context(), tn.parts)
	if len(tn.render.outputs) == 0 || tn.render.outputs[0].kind != outDeadLetter {
		t.Fatalf("outputs are %+v", tn.render.outputs)
	}
	equal(t, "code", tn.render.outputs[0].refusal.Code, topics.CodeTargetNotAllowed)
	equal(t, "dead-lettered in", tn.render.outputs[0].rec.Topic, route.DeadLetter)
}

// What was read while the prefix was another one loses the headers that it asks by.
func TestDeliveredWithoutHeadersOfAFormerPrefix(t *testing.T) {
	l, w := testCluster(t)
	tn := readyTurn(t, l, w, req(0, testNow, "orders"))
	r := testRoute(true)
	r.Prefix = "x-wheel-"
	tn.parts[0].p.route = mustRoute(r)
	tn.renderParts(t.Context(), tn.parts)
	var names []string
	for _, h := range tn.render.outputs[0].rec.Headers {
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
	tn.renderParts(t.Context(), tn.parts)
	if len(tn.render.outputs) == 0 || tn.render.outputs[0].kind != outDeadLetter {
		t.Fatalf("outputs are %+v", tn.render.outputs)
	}
	for _, out := range tn.render.outputs {
		if out.kind != outDeadLetter && out.kind != outResolve {
			t.Errorf("there is an output %v", out.kind)
		}
	}
	out := tn.render.outputs[0]
	equal(t, "code", out.refusal.Code, topics.CodeUnsupportedHeader)
	equal(t, "offset", string(topics.Last(out.rec.Headers, topics.HeaderErrorOffset)), "3")
}

// What a compacted target needs is a key of the delivered record, whether or not the request has one.
func TestCompactedTargetNeedsAKey(t *testing.T) {
	l, w := testCluster(t)
	keyed, bare := req(0, testNow, "orders"), req(1, testNow, "orders")
	keyed.Key, bare.Key = nil, nil
	keyed.Headers = append(keyed.Headers, kgo.RecordHeader{Key: topics.HeaderTargetKey, Value: []byte("k")})
	tn := readyTurn(t, l, w, keyed, bare)
	l.targets.Of([]byte("orders")).State.Store(&targets.State{Status: targets.Ready, Partitions: 4, Takes: targets.Limits{MaxBytes: kafka.DefaultMaxBytes, Compacted: true}})
	tn.renderParts(t.Context(), tn.parts)
	if len(tn.render.outputs) < 2 {
		t.Fatalf("outputs are %+v", tn.render.outputs)
	}
	equal(t, "the first", tn.render.outputs[0].kind, outDelivered)
	equal(t, "the second", tn.render.outputs[1].kind, outDeadLetter)
}

// Why a record is dead-lettered is told of when the memory of the record is used again.
func TestDeniedOutlivesItsRecord(t *testing.T) {
	name := []byte(topics.HeaderTargetTopic)
	req := &topics.Request{Target: []byte("orders"), TargetBy: unsafe.String(&name[0], len(name))}
	refusal := deniedBy(&targets.Target{Name: "orders"}, &targets.State{Status: targets.Missing}, req, &topics.Route{}, 0)
	clear(name)
	equal(t, "the header to blame", refusal.Header, topics.HeaderTargetTopic)
}

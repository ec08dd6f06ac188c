package processor

import (
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/pending"
	"github.com/duewheel/duewheel/processor/targets"
	"github.com/duewheel/duewheel/processor/turn"
	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
)

// leftByOthers is what another group has carried, or tried to deliver, of a request that has left the log, by names that are not those of today, and with a jitter of five seconds.
func leftByOthers(t *testing.T, carried bool, target string, due int64) *kgo.Record {
	t.Helper()
	p, err := topics.ParserFor("p1~5000^x-wheel-")
	if err != nil {
		t.Fatal(err)
	}
	r := req(11, due, target)
	r.Headers = []kgo.RecordHeader{{Key: "trace", Value: []byte("7")}, {Key: "x-wheel-until", Value: r.Headers[0].Value}, {Key: "x-wheel-target-topic", Value: []byte(target)}}
	first, theirs := topics.Origin{Offset: 4, Timestamp: testNow - 9000, Due: due + p.Jitter(testMark, 4)}, topics.NewMark(testID.Short(), "others", testTP.Partition)
	if carried {
		r.Headers, _ = topics.AppendCopy(nil, r.Headers, theirs, topics.Copy{Seq: 4, Due: first.Due, Timestamp: first.Timestamp, From: 8, Names: topics.NamesOf(p)}, nil)
		return r
	}
	r.Headers, _ = topics.AppendRetry(nil, r.Headers, theirs, topics.Retry{Due: testNow + 9000, Attempt: 3, Origin: first, Names: topics.NamesOf(p)}, nil)
	return r
}

// adopting is a partition of a group that is new where its log begins at 10.
func (l *lane) adopting(t *testing.T) *partition {
	t.Helper()
	c := state.Checkpoint{Offset: 10, LowWater: 10, GivenUp: 10, Parsers: pending.Adopting(l.cfg.Routes[0].Spec(), 10, 20)}
	p, err := l.assign(c, 10, 20, 20)
	if err == nil {
		p.Pass(10, 0)
		err = p.goLive(l.memory.room(1))
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// What is adopted is delivered and dead-lettered by the names that its request was written with, and as that was written.
func TestAdoptedByItsNames(t *testing.T) {
	for _, c := range []struct {
		target  string
		carried bool
		kind    turn.Kind
		headers []string
	}{
		{"orders", false, turn.OutDelivered, []string{"trace", "delay-due", "delay-source"}},
		{"orders", true, turn.OutDelivered, []string{"trace", "delay-due", "delay-source"}},
		{"elsewhere", false, turn.OutDeadLetter, []string{"trace", "x-wheel-until", "x-wheel-target-topic"}},
		{"elsewhere", true, turn.OutDeadLetter, []string{"trace", "x-wheel-until", "x-wheel-target-topic"}},
	} {
		l, w := testCluster(t)
		readyTurn(t, l, w) // for what is known of its targets
		tn := l.turnOf(t, w, l.adopting(t), leftByOthers(t, c.carried, c.target, testNow-5000))
		tn.RenderParts(t.Context(), tn.Parts)
		if len(tn.Renderer.Outputs) == 0 || tn.Renderer.Outputs[0].Kind != c.kind {
			t.Fatalf("%s: outputs are %+v", c.target, tn.Renderer.Outputs)
		}
		out := tn.Renderer.Outputs[0].Record
		var names []string
		for _, h := range out.Headers {
			if len(names) < len(c.headers) {
				names = append(names, h.Key)
			}
		}
		if more := len(out.Headers) - len(names); !slices.Equal(names, c.headers) || c.kind == turn.OutDelivered && more > 0 {
			t.Errorf("for %s: its headers are %v, and %d more, want %v", c.target, names, more, c.headers)
		}
		if c.kind == turn.OutDeadLetter {
			equal(t, "offset", string(topics.Last(out.Headers, topics.HeaderErrorOffset)), "4")
			equal(t, "for it to be asked for again", string(topics.Last(topics.AppendReplayed(nil, out.Headers, topics.CodeTargetNotAllowed, ""), topics.HeaderRetry)), "")
		}
	}
}

// What is adopted and cancelled is told of by the handle of its request, as its producer knows it.
func TestAdoptedIsToldOf(t *testing.T) {
	l, w := testCluster(t, auditing)
	l.auditIs(targets.Ready)
	readyTurn(t, l, w)
	p, far := l.adopting(t), leftByOthers(t, false, "orders", testNow+60_000)
	by, err := topics.ParserFor("p1~5000")
	if err != nil {
		t.Fatal(err)
	}
	l.read(t, p, testNow, far, cancelOf(12, testTP.Partition, 4, testNow+60_000+by.Jitter(testMark, 4)))
	if err := p.Load(testNow, pending.Room{}); err != nil {
		t.Fatal(err)
	}
	tn := &turn.Turn{Env: l.turnEnv(), Parts: []*turn.Part{p.take(testNow, nil, 1000, anyBytes)}, Renderer: &turn.Renderer{Env: l.turnEnv()}}
	tn.RenderParts(t.Context(), tn.Parts)
	tn.Renderer.Outputs = tn.Renderer.Audits()
	equals(t, "audited", audits(tn), []string{`3-4-1000000060000 {"event":"cancelled","due":1000000060000,"by":"3-12"}`})
}

package processor

import (
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/targets"
	"github.com/duewheel/duewheel/processor/turn"
	"github.com/duewheel/duewheel/topics"
)

// Whatever becomes of a record that has overtaken another one, one resolve record goes along. While the delay topic takes none, what is in order
// goes by itself.
func TestTurnOvertakes(t *testing.T) {
	ready := targets.State{Status: targets.Ready, Partitions: 4, Takes: targets.Limits{MaxBytes: kafka.DefaultMaxBytes}}
	for _, c := range []struct {
		name   string
		topic  string // is not ready
		is     targets.Status
		want   []turn.Kind
		before int
		held   bool
	}{
		{"it is delivered", "", targets.Ready, []turn.Kind{turn.OutDelivered, turn.OutDelivered, turn.OutResolve}, 0, false},
		{"it is carried on", "bills", targets.Troubled, []turn.Kind{turn.OutDelivered, turn.OutRetry, turn.OutResolve}, 0, false},
		{"it is dead-lettered", "", targets.Ready, []turn.Kind{turn.OutDelivered, turn.OutDeadLetter, turn.OutResolve}, 0, false},
		{"it can neither be delivered nor dead-lettered, and is old", testTopic + ".dead", targets.Troubled, []turn.Kind{turn.OutDelivered, turn.OutRetry, turn.OutResolve}, 0, false},
		{"the delay topic is in trouble", testTopic, targets.Troubled, nil, 1, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := testLane(t, func(c *Config) { c.Routes = []topics.Route{testRoute(true)} })
			for _, name := range []string{"orders", "bills", testTopic, testTopic + ".dead"} {
				l.targets.Of([]byte(name)).State.Store(&ready)
			}
			if c.topic != "" {
				st := ready
				st.Status, st.Why = c.is, "why"
				l.targets.Of([]byte(c.topic)).State.Store(&st)
			}
			p := livePartition(t, l)
			l.read(t, p, testNow, []*kgo.Record{req(0, testNow, "orders"), req(1, testNow, "orders"), req(2, testNow, "bills")}...)
			pt := p.take(testNow, nil, 2, anyBytes)
			if c.want != nil && c.want[1] != turn.OutDelivered && c.topic != "bills" {
				p.stats.Keeps.Store(1) // ms: all of it is old
				pt.Items[1].Extra().Blame = errors.New("refused")
			}
			r := &turn.Renderer{Env: l.turnEnv()}
			before, err := r.Part(t.Context(), pt, testNow)
			var held turn.StuckError
			equal(t, "held up", errors.As(err, &held), c.held)
			equal(t, "before what is held up", before, c.before)
			var kinds []turn.Kind
			for _, o := range r.Outputs {
				kinds = append(kinds, o.Kind)
			}
			equals(t, "outputs", kinds, c.want)
			if c.held {
				return
			}
			q, err := new(topics.Parser).Parse(r.Outputs[2].Record.Headers, topics.Stamp{}, 3, testMark)
			if err != nil || q.Kind != topics.KindResolve || q.ResolveSeq != 2 || q.ResolveDue != testNow {
				t.Errorf("the resolve record says %+v (%v)", q, err)
			}
		})
	}
}

package processor

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/targets"
	"github.com/duewheel/duewheel/processor/turn"
	"github.com/duewheel/duewheel/topics"
)

// What configuration has refused, and cannot be dead-lettered, waits where it is until its topic might delete it. Then it is carried on, and a resolve record
// says so of the place where it was, for another configuration.
func TestOutlastRefused(t *testing.T) {
	l := testLane(t)
	for name, status := range map[string]targets.Status{testTopic: targets.Ready, testTopic + ".dead": targets.Troubled} {
		l.targets.Of([]byte(name)).State.Store(&targets.State{Status: status, Why: "no leader", Partitions: 4, Takes: targets.Limits{MaxBytes: kafka.DefaultMaxBytes}})
	}
	p := livePartition(t, l)
	r := req(0, ms(farMs), "elsewhere")
	r.Timestamp = time.UnixMilli(testNow)
	l.read(t, p, testNow, r)
	pt := p.take(testNow, nil, 10, anyBytes)
	if pt == nil || len(pt.Items) != 1 || !pt.Items[0].Resolve {
		t.Fatalf("%+v", pt)
	}
	kinds := func(after time.Duration) (kinds []turn.Kind, err error) {
		re := &turn.Renderer{Env: l.turnEnv()}
		_, err = re.Part(t.Context(), pt, testNow+after.Milliseconds())
		for _, o := range re.Outputs {
			kinds = append(kinds, o.Kind)
		}
		return kinds, err
	}
	held := func(what string, after time.Duration) {
		t.Helper()
		if got, err := kinds(after); !errors.As(err, new(turn.StuckError)) || len(got) > 0 {
			t.Errorf("%s: %v, %v", what, got, err)
		}
	}
	held("where the topic keeps everything", 1000*time.Hour)
	p.stats.Keeps.Store(20 * time.Hour.Milliseconds())
	held("soon", time.Hour-time.Millisecond)
	got, err := kinds(time.Hour)
	if want := []turn.Kind{turn.OutRetry, turn.OutResolve}; err != nil || !slices.Equal(got, want) {
		t.Errorf("when it is old: %v, %v, want %v", got, err, want)
	}
	pt.Items[0].Refusal = &topics.Refusal{Code: topics.CodeNoDue}
	held("what is refused for its form, which is not judged anew", 1000*time.Hour)
}

// What is carried on because it cannot be dead-lettered is not delivered before it is due, should its target be allowed by then, and goes on having a due
// time: one that came at a time that is not known is due after its pause.
func TestOutlastKeepsDue(t *testing.T) {
	again := topics.Retrying{Backoff: topics.Backoff{Initial: time.Hour, Factor: 1, Max: time.Hour}, MaxAttempts: 2}
	const hour = int64(time.Hour / time.Millisecond)
	for _, c := range []struct {
		what  string
		retry *topics.Retrying
		keeps int64
		now   int64
		due   int64 // first
		next  int64 // at the earliest
	}{
		{"far ahead", nil, 1, testNow, ms(farMs), ms(farMs)},
		{"due before", nil, hour, testNow + hour, ms(5), testNow + hour},
		{"at a time that is not known", &again, hour, testNow + hour, testNow + 2*hour, testNow + 2*hour},
	} {
		l := testLane(t, func(cfg *Config) { cfg.Routes[0].Retry = c.retry })
		for name, status := range map[string]targets.Status{testTopic: targets.Ready, testTopic + ".dead": targets.Troubled} {
			l.targets.Of([]byte(name)).State.Store(&targets.State{Status: status, Why: "no leader", Partitions: 4, Takes: targets.Limits{MaxBytes: kafka.DefaultMaxBytes}})
		}
		p := livePartition(t, l)
		p.stats.Keeps.Store(c.keeps)
		r := req(0, c.due, "elsewhere")
		r.Timestamp = time.UnixMilli(testNow - 1)
		l.read(t, p, testNow, r)
		re, pt := &turn.Renderer{Env: l.turnEnv()}, p.take(testNow, nil, 10, anyBytes)
		if _, err := re.Part(t.Context(), pt, c.now); err != nil || len(re.Outputs) == 0 {
			t.Fatalf("%s: %v", c.what, err)
		}
		q, err := p.Route.Parser().Parse(re.Outputs[0].Record.Headers, topics.Stamp{}, 9, testMark)
		if err != nil || !q.Retry || q.Origin.Due != c.due || q.Due < c.next {
			t.Errorf("%s: first due at %d, again at %d (%v), want %d, and %d at the earliest", c.what, q.Origin.Due, q.Due, err, c.due, c.next)
		}
	}
}

// What was tried before goes on being counted when it is carried on because it cannot be dead-lettered: its pauses go on growing, and it stays the request that it was.
func TestOutlastKeepsAttempts(t *testing.T) {
	l := testLane(t)
	for name, status := range map[string]targets.Status{testTopic: targets.Ready, testTopic + ".dead": targets.Troubled} {
		l.targets.Of([]byte(name)).State.Store(&targets.State{Status: status, Why: "no leader", Partitions: 4, Takes: targets.Limits{MaxBytes: kafka.DefaultMaxBytes}})
	}
	p := livePartition(t, l)
	p.stats.Keeps.Store(1)
	r := req(1, ms(5), "elsewhere")
	r.Timestamp = time.UnixMilli(testNow - 1)
	tried := topics.Retry{Due: ms(7), Attempt: 5, Origin: topics.Origin{Offset: 0, Timestamp: testNow - 9, Due: ms(5)}, Names: topics.NamesOf(p.Route.Parser())}
	r.Headers, _ = topics.AppendRetry(nil, r.Headers, testMark, tried, nil)
	l.read(t, p, testNow, r)
	re, pt := &turn.Renderer{Env: l.turnEnv()}, p.take(ms(7), nil, 10, anyBytes)
	if _, err := re.Part(t.Context(), pt, ms(7)); err != nil || len(re.Outputs) == 0 {
		t.Fatal(len(re.Outputs), err)
	}
	_, again, retried := testMark.Written(re.Outputs[0].Record.Headers, 9)
	if tried.Due = again.Due; !retried || again != tried || again.Due <= ms(7) {
		t.Errorf("it is tried again as %+v (%v), want %+v", again, retried, tried)
	}
}

package pending

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
)

type epochs = []state.ParserEpoch

// parsing is what becomes of the parsers of a checkpoint, in a log that ends at 9.
type parsing struct {
	name   string
	is     epochs
	offset int64
	low    int64
	spec   string
	want   epochs
}

func (c parsing) run(t *testing.T, with func(state.Checkpoint, string, int64) []state.ParserEpoch) {
	t.Run(c.name, func(t *testing.T) {
		equals(t, "parsers", with(state.Checkpoint{Offset: c.offset, LowWater: c.low, Parsers: c.is}, c.spec, 9), c.want)
	})
}

// Another configuration holds for what has not been accepted yet. What waits in a queue has been
// written for the one before, up to the end of the log.
func TestParserOfToday(t *testing.T) {
	for _, c := range []parsing{
		{"none yet", nil, 5, 5, "p1", epochs{{From: 5, Spec: "p1"}}},
		{"none yet, of a queue", nil, 5, 5, "p1+3000", epochs{{From: 5, Spec: "p1+3000"}}},
		{"the same", epochs{{From: 0, Spec: "p1"}}, 5, 2, "p1", epochs{{From: 0, Spec: "p1"}}},
		{"a delay comes", epochs{{From: 0, Spec: "p1"}}, 5, 2, "p1+3000", epochs{{From: 0, Spec: "p1"}, {From: 5, Spec: "p1+3000"}}},
		{"it has never held", epochs{{From: 0, Spec: "p1"}, {From: 5, Spec: "p1+3000"}}, 5, 2, "p1", epochs{{From: 0, Spec: "p1"}}},
		{"a queue loses its delay", epochs{{From: 0, Spec: "p1+3000"}}, 5, 5, "p1", epochs{{From: 0, Spec: "p1+3000"}, {From: 9, Spec: "p1"}}},
		{"a queue gets another", epochs{{From: 0, Spec: "p1+3000"}}, 5, 5, "p1+1", epochs{{From: 0, Spec: "p1+3000"}, {From: 9, Spec: "p1+1"}}},
		{"and a third before the end is reached", epochs{{From: 0, Spec: "p1+3000"}, {From: 7, Spec: "p1+1"}}, 5, 5, "p1+2",
			epochs{{From: 0, Spec: "p1+3000"}, {From: 7, Spec: "p1+1"}, {From: 9, Spec: "p1+2"}}},
		{"and a third before anything was written", epochs{{From: 0, Spec: "p1+3000"}, {From: 9, Spec: "p1+1"}}, 5, 5, "p1+2",
			epochs{{From: 0, Spec: "p1+3000"}, {From: 9, Spec: "p1+2"}}},
		{"and the first again", epochs{{From: 0, Spec: "p1+3000"}, {From: 9, Spec: "p1"}}, 5, 5, "p1+3000", epochs{{From: 0, Spec: "p1+3000"}}},
		{"it was a queue, and is not through yet", epochs{{From: 0, Spec: "p1+3000"}, {From: 7, Spec: "p1"}}, 5, 4, "p1+1",
			epochs{{From: 0, Spec: "p1+3000"}, {From: 7, Spec: "p1+1"}}},
	} {
		c.run(t, WithParser)
	}
}

// At least once, what lies in the log takes the place of no other that it did not take by the configuration before.
func TestParserOfTodayAtLeastOnce(t *testing.T) {
	for _, c := range []parsing{
		{"none yet", nil, 5, 5, "p1/r", epochs{{From: 5, Spec: "p1/r"}}},
		{"the same", epochs{{From: 0, Spec: "p1/r"}}, 5, 2, "p1/r", epochs{{From: 0, Spec: "p1/r"}}},
		{"records begin to replace", epochs{{From: 0, Spec: "p1"}}, 5, 2, "p1/r", epochs{{From: 0, Spec: "p1"}, {From: 9, Spec: "p1/r"}}},
		{"and all was read", epochs{{From: 0, Spec: "p1"}}, 9, 2, "p1/r", epochs{{From: 0, Spec: "p1"}, {From: 9, Spec: "p1/r"}}},
		{"and do so no more", epochs{{From: 0, Spec: "p1"}, {From: 7, Spec: "p1/r"}}, 5, 2, "p1", epochs{{From: 0, Spec: "p1"}, {From: 7, Spec: "p1/r"}, {From: 9, Spec: "p1"}}},
		{"and do so no more before anything was written", epochs{{From: 0, Spec: "p1"}, {From: 9, Spec: "p1/r"}}, 5, 2, "p1", epochs{{From: 0, Spec: "p1"}}},
		{"and a jitter comes with that", epochs{{From: 0, Spec: "p1"}}, 5, 2, "p1~7/r", epochs{{From: 0, Spec: "p1"}, {From: 5, Spec: "p1~7"}, {From: 9, Spec: "p1~7/r"}}},
		{"keys become ids", epochs{{From: 0, Spec: "p1/i!p"}}, 5, 2, "p1/km3000!e", epochs{{From: 0, Spec: "p1/i!p"}, {From: 5, Spec: "p1/im3000!e"}, {From: 9, Spec: "p1/km3000!e"}}},
		{"ids are remembered that were replaced", epochs{{From: 0, Spec: "p1/r"}}, 5, 2, "p1/m3000", epochs{{From: 0, Spec: "p1/r"}, {From: 9, Spec: "p1/m3000"}}},
		{"another prefix", epochs{{From: 0, Spec: "p1"}}, 5, 2, "p1^x-", epochs{{From: 0, Spec: "p1"}, {From: 5, Spec: "p1^x-"}}},
		{"a retry route gets ids", epochs{{From: 0, Spec: "r1+10000+2000+3600000+200"}}, 5, 2, "p1/r", epochs{{From: 0, Spec: "r1+10000+2000+3600000+200"}, {From: 5, Spec: "p1/r"}}},
		{"another prefix comes before they have begun to replace", epochs{{From: 0, Spec: "p1"}, {From: 8, Spec: "p1/r"}}, 5, 2, "p1/r^x-",
			epochs{{From: 0, Spec: "p1"}, {From: 5, Spec: "p1^x-"}, {From: 8, Spec: "p1/r^x-"}}},
		{"and they do so no more with that", epochs{{From: 0, Spec: "p1"}, {From: 8, Spec: "p1/r"}}, 5, 2, "p1/i^x-",
			epochs{{From: 0, Spec: "p1"}, {From: 5, Spec: "p1^x-"}, {From: 8, Spec: "p1/r^x-"}, {From: 9, Spec: "p1/i^x-"}}},
		{"what was written for a queue waits in it", epochs{{From: 0, Spec: "p1+3000"}, {From: 7, Spec: "p1"}}, 5, 4, "p1/r", epochs{{From: 0, Spec: "p1+3000"}, {From: 7, Spec: "p1"}, {From: 9, Spec: "p1/r"}}},
	} {
		c.run(t, WithParserAtLeastOnce)
	}
}

// Which headers of other systems name the target is a matter of today's configuration, so what they say refuses nothing that was accepted before. A replay
// would take it for resolved.
func TestReplayUnderOtherSources(t *testing.T) {
	l := testOwner(t)
	r := testRoute(true)
	r.Retry = &topics.Retrying{Backoff: topics.Backoff{Initial: time.Minute, Factor: 2, Max: time.Hour}, MaxAttempts: 3}
	r.Target = "orders"
	l.route = mustRoute(r)
	rec := &kgo.Record{Timestamp: time.UnixMilli(testNow), Attrs: kgo.NewRecordAttrs(kgo.RecordAttrsOpts{TimestampType: 1}),
		Headers: []kgo.RecordHeader{{Key: topics.SourceHeaders[0], Value: []byte("no topic")}}}
	p := l.live(t)
	l.read(t, p, testNow, rec)
	l.happened(p.Checkpoint())
	equal(t, "pending", p.Pending(), 1)

	spec := l.route.Spec()
	r.Target, r.Retry.FromHeaders = "", true
	l.route, l.store = mustRoute(r), nil
	equal(t, "spec", l.route.Spec(), spec)
	p, err := l.assign(p.Marks().Committed, 0, 1, 1)
	must(t, err)
	l.read(t, p, testNow, rec)
	must(t, p.goLive(l.room))
	equal(t, "pending after a replay", p.Pending(), 1)
	rec.Offset = 1
	l.read(t, p, testNow, rec)
	equal(t, "what comes now is dead-lettered", p.late.len() == 1 && p.late.head().refusal.Code == topics.CodeInvalidTarget && p.late.head().resolve, true)
}

package pending

import (
	"testing"

	"github.com/duewheel/duewheel/state"
)

// Another configuration holds for what has not been accepted yet. What waits in a queue has been
// written for the one before, up to the end of the log.
func TestParserOfToday(t *testing.T) {
	type epochs = []state.ParserEpoch
	for _, c := range []struct {
		name   string
		is     epochs
		offset int64
		low    int64
		spec   string
		want   epochs
	}{
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
		t.Run(c.name, func(t *testing.T) {
			found := state.Checkpoint{Offset: c.offset, LowWater: c.low, Parsers: c.is}
			equals(t, "parsers", WithParser(found, c.spec, 9), c.want)
		})
	}
}

package verify

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Compaction takes requests from the midst of a log. Nothing is left that tells of most of them; but the low water of a checkpoint names one that is pending, and so
// is one that is gone if no record is there. An aborted record stands for it here: it is not read, either.
func TestLogLacksTheLowWater(t *testing.T) {
	const says = "delays/0@1: the log has nothing at 1, and what is pending began there; it goes on at 2: pending records are gone, as compaction takes them"
	for name, tt := range map[string]struct {
		low, offset int64
		givenUp     bool
		from        float64 // minute; below 0: all
		want        map[string]int64
		says        string
	}{
		"it is gone":                  {low: 1, offset: 4, from: -1, want: map[string]int64{"cut": 1}, says: says},
		"it is there":                 {low: 3, offset: 4, from: -1, says: "all is well"},
		"nothing is pending":          {low: 1, offset: 1, from: -1, says: "all is well"},
		"it was given up":             {low: 1, offset: 4, givenUp: true, from: -1, says: "has given up"},
		"it lies before what is read": {low: 1, offset: 4, from: 2, says: "all is well"},
		"what is read begins there":   {low: 1, offset: 4, from: .5, want: map[string]int64{"cut": 1}, says: says},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFakeGroup(t)
			s.write(s.delivered(s.ask(0, 10), 10))
			s.abort(&kgo.Record{Topic: "delays", Timestamp: s.at(1)}) // at 1, and its end at 2
			s.ask(3, 71)
			s.resolve("delays", 0, tt.offset, 30, tt.low)
			if tt.givenUp {
				s.restate("delays", 0, func(metadata string) string { return metadata + " g=1" })
			}
			if tt.from >= 0 {
				s.config.From = s.at(tt.from)
			}
			v := s.verifier()
			s.expect(s.pass(v), tt.want, tt.says)
			s.ask(4, 72)
			s.expect(s.pass(v), tt.want, tt.says) // what was found stays, and is found once
		})
	}
}

// A delay topic that is compacted is named, and what it has lost cannot be told.
func TestDelayTopicIsCompacted(t *testing.T) {
	s := newFakeGroup(t)
	s.ask(0, 70)
	s.resolve("delays", 0, 1, 30, 0)
	v := s.verifier()
	s.expect(s.pass(v), nil, "\nall is well\n")
	set := func(policy string) {
		t.Helper()
		if _, err := s.adm.AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "cleanup.policy", Value: &policy}}, "delays"); err != nil {
			t.Fatal(err)
		}
		<-time.After(2 * metadataAge)
	}
	set("compact,delete")
	const note = "note: delays is compacted, which removes requests before they are delivered: what it has removed cannot be told; set its cleanup.policy to delete"
	s.expect(s.pass(v), nil, note)
	s.expect(s.pass(v), nil, "\nall is well, as far as it can be told")
	set("delete")
	s.expect(s.pass(v), nil, "\nall is well\n")
}

package processor

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/topics"
)

// Nothing is deleted but what lies below a low water that was committed a while ago, in the same topic, of a partition that is live and
// well; and nothing before it is a fifth of the log.
func TestUnneeded(t *testing.T) {
	yes, no := true, false
	id, anew := kafka.TopicID{1}, kafka.TopicID{2}
	p := func(topic string, low, end int64) PartitionStats {
		return PartitionStats{Topic: topic, TopicID: id, Partition: 3, Phase: PhaseLive, LowWater: low, LogStart: 100, LogEnd: end}
	}
	with := func(p PartitionStats, change func(*PartitionStats)) PartitionStats {
		change(&p)
		return p
	}
	for _, c := range []struct {
		name      string
		guarantee Guarantee
		pictures  []PartitionStats // a minute apart
		to        int64            // 0: nothing
	}{
		{"seen once", ExactlyOnce, []PartitionStats{p("auto", 200, 300)}, 0},
		{"seen a minute ago", ExactlyOnce, []PartitionStats{p("auto", 200, 300), p("auto", 250, 300)}, 200},
		{"at once where it is asked for", ExactlyOnce, []PartitionStats{p("on", 200, 300), p("on", 250, 300)}, 200},
		{"not where it is not to be", ExactlyOnce, []PartitionStats{p("off", 200, 300), p("off", 250, 300)}, 0},
		{"nor what is less than a fifth", ExactlyOnce, []PartitionStats{p("auto", 139, 300), p("auto", 250, 300)}, 0},
		{"a fifth is enough", ExactlyOnce, []PartitionStats{p("auto", 140, 300), p("auto", 250, 300)}, 140},
		{"all that is resolved", ExactlyOnce, []PartitionStats{p("auto", 300, 300), p("auto", 300, 300)}, 300},
		{"not what is gone", ExactlyOnce, []PartitionStats{p("auto", 100, 300), p("auto", 300, 300)}, 0},
		{"the newest that is old enough", ExactlyOnce, []PartitionStats{p("auto", 200, 300), p("auto", 210, 300), p("auto", 220, 300)}, 210},
		{"a topic made anew", ExactlyOnce, []PartitionStats{p("auto", 200, 300), with(p("auto", 250, 300), func(p *PartitionStats) { p.TopicID = anew })}, 0},
		{"catching up", ExactlyOnce, []PartitionStats{p("auto", 200, 300), with(p("auto", 250, 300), func(p *PartitionStats) { p.Phase = PhaseCatchUp })}, 0},
		{"held up", ExactlyOnce, []PartitionStats{p("auto", 200, 300), with(p("auto", 250, 300), func(p *PartitionStats) { p.Error = "the log has lost" })}, 0},
		{"it was held up meanwhile", ExactlyOnce, []PartitionStats{p("auto", 200, 300), with(p("auto", 210, 300), func(p *PartitionStats) { p.Error = "no answer" }), p("auto", 250, 300)}, 0},
		{"L has gone back", ExactlyOnce, []PartitionStats{p("auto", 280, 300), p("auto", 200, 300)}, 0},
		{"and was lower before that", ExactlyOnce, []PartitionStats{p("auto", 180, 300), p("auto", 280, 300), p("auto", 200, 300), p("auto", 210, 300)}, 200},
		{"a late commit may take it back", AtLeastOnce, []PartitionStats{p("often", 200, 300), p("often", 210, 300)}, 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			trimming := newTrimming(&shared{cfg: Config{Guarantee: c.guarantee, TrimInterval: time.Minute}, counters: newCounters([]string{"auto", "on", "off", "often"}, nil), routes: map[string]*topics.Route{
				"auto": {}, "on": {Trim: &yes}, "off": {Trim: &no}, "often": {},
			}})
			var got cuts
			for i, picture := range c.pictures {
				got = trimming.unneeded([]PartitionStats{picture}, time.Unix(int64(60*i), 0))
			}
			var to int64
			for _, cut := range got {
				to = cut[3].to
			}
			if to != c.to {
				t.Errorf("the log is cut at %d, and not at %d", to, c.to)
			}
		})
	}
}

// A topic that is said not to be trimmed is tried again with what there is, be it nothing: else it would be said for as long as a fifth of the log cannot go, and
// what holds that up is not carried meanwhile.
func TestUntrimmedIsTriedWithWhatThereIs(t *testing.T) {
	counters := newCounters([]string{"delays"}, slog.New(slog.DiscardHandler))
	trimming := newTrimming(&shared{cfg: Config{Logger: slog.New(slog.DiscardHandler), TrimInterval: time.Minute}, counters: counters, routes: map[string]*topics.Route{"delays": {}}})
	p := PartitionStats{Topic: "delays", Phase: PhaseLive, LowWater: 110, LogStart: 100, LogEnd: 300}
	look := func(minute int64) string {
		return fmt.Sprint(trimming.unneeded([]PartitionStats{p}, time.Unix(60*minute, 0))["delays"][0].to)
	}
	equal(t, "what is little", look(0)+" "+look(1), "0 0")
	trimming.note("delays", "no right")
	equal(t, "what is little, of a topic that is not trimmed", look(2), "110")
	p.LogStart = 110
	equal(t, "nothing", look(3), "110")
	trimming.note("delays", "")
	equal(t, "nothing, of a topic that is trimmed", look(4), "0")
}

// That nothing of a partition is deleted for what else is wrong with it is said when it has lasted while some of its log could go, of a topic that is to be trimmed.
func TestTrimmingHeldUpIsSaid(t *testing.T) {
	counters := newCounters([]string{"delays"}, nil)
	trimming := newTrimming(&shared{cfg: Config{Logger: slog.New(slog.DiscardHandler), TrimInterval: time.Minute}, counters: counters, routes: map[string]*topics.Route{"delays": {}}})
	at := func(after time.Duration, low int64, wrong string, left bool) string {
		ps := []PartitionStats{{Topic: "delays", Partition: 3, Phase: PhaseLive, LowWater: low, LogStart: 100, LogEnd: 300, Error: wrong}}
		unneeded := trimming.unneeded(ps, time.Unix(0, 0).Add(after))
		if left {
			unneeded = cuts{}
		}
		trimming.tellHeldUp(ps, unneeded, time.Unix(0, 0).Add(after))
		return counters.topics["delays"].heldUp.any()
	}
	const said = "nothing of partition 3 is deleted, so its log grows, while something else is wrong with it: no answer"
	equal(t, "little could go", at(0, 139, "no answer", false), "")
	equal(t, "a fifth could", at(time.Minute, 140, "no answer", false), "")
	equal(t, "at first", at(vainUnsaid, 200, "no answer", false), "")
	equal(t, "when it lasts", at(time.Minute+vainUnsaid, 200, "no answer", false), said)
	equal(t, "of a topic that is not to be trimmed", at(time.Minute+vainUnsaid, 200, "no answer", true), "")
	equal(t, "when it is over", at(2*time.Minute+vainUnsaid, 200, "", false), "")
	equal(t, "when it has begun anew", at(3*time.Minute+vainUnsaid, 200, "no answer", false), "")
	equal(t, "and lasts", at(3*time.Minute+2*vainUnsaid, 200, "no answer", false), said)
	catchesUp := func(after time.Duration) string {
		ps := []PartitionStats{{Topic: "delays", Partition: 3, Phase: PhaseCatchUp, LowWater: 200, LogStart: 100, LogEnd: 300, Reason: "a transaction has been open"}}
		trimming.tellHeldUp(ps, trimming.unneeded(ps, time.Unix(0, 0).Add(after)), time.Unix(0, 0).Add(after))
		return counters.topics["delays"].heldUp.any()
	}
	equal(t, "when it is live", at(4*time.Minute+2*vainUnsaid, 200, "", false), "")
	equal(t, "catching up", catchesUp(5*time.Minute+2*vainUnsaid), "")
	equal(t, "for long", catchesUp(5*time.Minute+3*vainUnsaid), strings.Replace(said, "no answer", "a transaction has been open", 1))
	equal(t, "when it is held up again", at(5*time.Minute+3*vainUnsaid, 200, "no answer", false), said)
	trimming.vain.failed("delays", kerr.NotLeaderForPartition)
	equal(t, "while that is not known", at(4*time.Minute+2*vainUnsaid, 200, "no answer", true), said)
	trimming.forget(nil)
	equal(t, "of what is elsewhere", counters.topics["delays"].heldUp.any(), "")
}

// In at_least_once an answer that never came may take the checkpoint back, so what it needs is kept however often is looked.
func TestUnneededAtLeastOnce(t *testing.T) {
	for guarantee, want := range map[Guarantee]int64{ExactlyOnce: 259, AtLeastOnce: 200} {
		trimming := newTrimming(&shared{cfg: Config{Guarantee: guarantee, TrimInterval: time.Second}, counters: newCounters([]string{"delays"}, nil), routes: map[string]*topics.Route{"delays": {}}})
		var cuts []int64
		for i := range int64(61) {
			p := PartitionStats{Topic: "delays", Phase: PhaseLive, LowWater: 200 + i, LogEnd: 300}
			for _, c := range trimming.unneeded([]PartitionStats{p}, time.Unix(i, 0)) {
				cuts = append(cuts, c[0].to)
			}
		}
		if len(cuts) == 0 || cuts[len(cuts)-1] != want {
			t.Errorf("%s: cut at %v, and at %d last", guarantee, cuts, want)
		}
		if n := len(slices.Collect(maps.Values(trimming.seen))[0]); n > 62 {
			t.Errorf("%d low waters are kept", n)
		}
	}
}

// A topic that is not trimmed is so until a broker has deleted something of it: an answer that does not come, or asks to try again, says nothing.
func TestNotTrimmedUntilSomethingIs(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	counters := newCounters([]string{"delays"}, log)
	trimming := newTrimming(&shared{cfg: Config{Logger: log}, counters: counters})
	said := func() string { return *counters.topics["delays"].untrimmed.Load() }
	all := cut{0: {from: 1, to: 5}}
	trimming.trimmed("delays", all, map[int32]kadm.DeleteRecordsResponse{0: {Err: kerr.TopicAuthorizationFailed}}, nil)
	if !strings.Contains(said(), "the right to Delete") {
		t.Fatalf("refused, and says %q", said())
	}
	for _, answers := range []map[int32]kadm.DeleteRecordsResponse{nil, {0: {Err: kerr.NotLeaderForPartition}}} {
		if err := trimming.trimmed("delays", all, answers, nil); said() == "" || err == nil {
			t.Errorf("nothing was deleted, and it says %q, %v", said(), err)
		}
	}
	trimming.trimmed("delays", all, map[int32]kadm.DeleteRecordsResponse{0: {LowWatermark: 5}}, nil)
	if said() != "" {
		t.Errorf("trimmed, and says %q", said())
	}
}

// Why a topic is not trimmed is not said any more when none of its partitions is here.
func TestUntrimmedElsewhere(t *testing.T) {
	p := testProcessor(t)
	tr := newTrimming(&p.shared)
	untrimmed := func() string { return p.Stats().Topics[0].Untrimmed }
	tr.note(testTopic, "no right")
	if untrimmed() == "" {
		t.Fatal("a topic that is not trimmed is not named")
	}
	tr.trim(t.Context(), nil, time.Now())
	equal(t, "untrimmed, without partitions here", untrimmed(), "")
}

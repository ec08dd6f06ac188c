package retention

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/picture"
	"github.com/duewheel/duewheel/topics"
)

// Nothing is deleted but what lies below a low water that was committed a while ago, in the same topic, of a partition that is live and
// well; and nothing before it is a fifth of the log.
func TestUnneeded(t *testing.T) {
	yes, no := true, false
	id, anew := kafka.TopicID{1}, kafka.TopicID{2}
	p := func(topic string, low, end int64) picture.Partition {
		return picture.Partition{Topic: topic, TopicID: id, Partition: 3, Phase: picture.Live, LowWater: low, LogStart: 100, LogEnd: end}
	}
	with := func(p picture.Partition, change func(*picture.Partition)) picture.Partition {
		change(&p)
		return p
	}
	for _, c := range []struct {
		name        string
		atLeastOnce bool
		pictures    []picture.Partition // a minute apart
		to          int64               // 0: nothing
	}{
		{"seen once", false, []picture.Partition{p("auto", 200, 300)}, 0},
		{"seen a minute ago", false, []picture.Partition{p("auto", 200, 300), p("auto", 250, 300)}, 200},
		{"at once where it is asked for", false, []picture.Partition{p("on", 200, 300), p("on", 250, 300)}, 200},
		{"not where it is not to be", false, []picture.Partition{p("off", 200, 300), p("off", 250, 300)}, 0},
		{"nor what is less than a fifth", false, []picture.Partition{p("auto", 139, 300), p("auto", 250, 300)}, 0},
		{"a fifth is enough", false, []picture.Partition{p("auto", 140, 300), p("auto", 250, 300)}, 140},
		{"all that is resolved", false, []picture.Partition{p("auto", 300, 300), p("auto", 300, 300)}, 300},
		{"not what is gone", false, []picture.Partition{p("auto", 100, 300), p("auto", 300, 300)}, 0},
		{"the newest that is old enough", false, []picture.Partition{p("auto", 200, 300), p("auto", 210, 300), p("auto", 220, 300)}, 210},
		{"a topic made anew", false, []picture.Partition{p("auto", 200, 300), with(p("auto", 250, 300), func(p *picture.Partition) { p.TopicID = anew })}, 0},
		{"catching up", false, []picture.Partition{p("auto", 200, 300), with(p("auto", 250, 300), func(p *picture.Partition) { p.Phase = picture.CatchUp })}, 0},
		{"held up", false, []picture.Partition{p("auto", 200, 300), with(p("auto", 250, 300), func(p *picture.Partition) { p.Error = "the log has lost" })}, 0},
		{"it was held up meanwhile", false, []picture.Partition{p("auto", 200, 300), with(p("auto", 210, 300), func(p *picture.Partition) { p.Error = "no answer" }), p("auto", 250, 300)}, 0},
		{"L has gone back", false, []picture.Partition{p("auto", 280, 300), p("auto", 200, 300)}, 0},
		{"and was lower before that", false, []picture.Partition{p("auto", 180, 300), p("auto", 280, 300), p("auto", 200, 300), p("auto", 210, 300)}, 200},
		{"a late commit may take it back", true, []picture.Partition{p("often", 200, 300), p("often", 210, 300)}, 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			env := testEnv(map[string]*topics.Route{"auto": {}, "on": {Trim: &yes}, "off": {Trim: &no}, "often": {}})
			env.AtLeastOnce = c.atLeastOnce
			trimming := NewTrimming(env)
			var got cuts
			for i, p := range c.pictures {
				got = trimming.unneeded([]picture.Partition{p}, time.Unix(int64(60*i), 0))
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
	trimming := NewTrimming(testEnv(map[string]*topics.Route{"delays": {}}))
	p := picture.Partition{Topic: "delays", Phase: picture.Live, LowWater: 110, LogStart: 100, LogEnd: 300}
	look := func(minute int64) string {
		return fmt.Sprint(trimming.unneeded([]picture.Partition{p}, time.Unix(60*minute, 0))["delays"][0].to)
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
	trimming := NewTrimming(testEnv(map[string]*topics.Route{"delays": {}}))
	at := func(after time.Duration, low int64, wrong string, left bool) string {
		ps := []picture.Partition{{Topic: "delays", Partition: 3, Phase: picture.Live, LowWater: low, LogStart: 100, LogEnd: 300, Error: wrong}}
		unneeded := trimming.unneeded(ps, time.Unix(0, 0).Add(after))
		if left {
			unneeded = cuts{}
		}
		trimming.tellHeldUp(ps, unneeded, time.Unix(0, 0).Add(after))
		return trimming.Topics["delays"].HeldUp.Any()
	}
	const said = "nothing of partition 3 is deleted, so its log grows, while something else is wrong with it: no answer"
	equal(t, "little could go", at(0, 139, "no answer", false), "")
	equal(t, "a fifth could", at(time.Minute, 140, "no answer", false), "")
	equal(t, "at first", at(Unsaid, 200, "no answer", false), "")
	equal(t, "when it lasts", at(time.Minute+Unsaid, 200, "no answer", false), said)
	equal(t, "of a topic that is not to be trimmed", at(time.Minute+Unsaid, 200, "no answer", true), "")
	equal(t, "when it is over", at(2*time.Minute+Unsaid, 200, "", false), "")
	equal(t, "when it has begun anew", at(3*time.Minute+Unsaid, 200, "no answer", false), "")
	equal(t, "and lasts", at(3*time.Minute+2*Unsaid, 200, "no answer", false), said)
	catchesUp := func(after time.Duration) string {
		ps := []picture.Partition{{Topic: "delays", Partition: 3, Phase: picture.CatchUp, LowWater: 200, LogStart: 100, LogEnd: 300, Reason: "a transaction has been open"}}
		trimming.tellHeldUp(ps, trimming.unneeded(ps, time.Unix(0, 0).Add(after)), time.Unix(0, 0).Add(after))
		return trimming.Topics["delays"].HeldUp.Any()
	}
	equal(t, "when it is live", at(4*time.Minute+2*Unsaid, 200, "", false), "")
	equal(t, "catching up", catchesUp(5*time.Minute+2*Unsaid), "")
	equal(t, "for long", catchesUp(5*time.Minute+3*Unsaid), strings.Replace(said, "no answer", "a transaction has been open", 1))
	equal(t, "when it is held up again", at(5*time.Minute+3*Unsaid, 200, "no answer", false), said)
	trimming.vain.failed("delays", kerr.NotLeaderForPartition)
	equal(t, "while that is not known", at(4*time.Minute+2*Unsaid, 200, "no answer", true), said)
	trimming.forget(nil)
	equal(t, "of what is elsewhere", trimming.Topics["delays"].HeldUp.Any(), "")
}

// In at_least_once an answer that never came may take the checkpoint back, so what it needs is kept however often is looked.
func TestUnneededAtLeastOnce(t *testing.T) {
	for atLeastOnce, want := range map[bool]int64{false: 259, true: 200} {
		env := testEnv(map[string]*topics.Route{"delays": {}})
		env.AtLeastOnce, env.TrimInterval = atLeastOnce, time.Second
		trimming := NewTrimming(env)
		var cuts []int64
		for i := range int64(61) {
			p := picture.Partition{Topic: "delays", Phase: picture.Live, LowWater: 200 + i, LogEnd: 300}
			for _, c := range trimming.unneeded([]picture.Partition{p}, time.Unix(i, 0)) {
				cuts = append(cuts, c[0].to)
			}
		}
		if len(cuts) == 0 || cuts[len(cuts)-1] != want {
			t.Errorf("at least once: %v: cut at %v, and at %d last", atLeastOnce, cuts, want)
		}
		if n := len(slices.Collect(maps.Values(trimming.seen))[0]); n > 62 {
			t.Errorf("%d low waters are kept", n)
		}
	}
}

// A topic that is not trimmed is so until a broker has deleted something of it: an answer that does not come, or asks to try again, says nothing.
func TestNotTrimmedUntilSomethingIs(t *testing.T) {
	trimming := NewTrimming(testEnv(map[string]*topics.Route{"delays": {}}))
	said := func() string { return trimming.Topics["delays"].Untrimmed.Get() }
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
	tr := NewTrimming(testEnv(map[string]*topics.Route{"delays": {}}))
	untrimmed := tr.Topics["delays"].Untrimmed.Get
	tr.note("delays", "no right")
	if untrimmed() == "" {
		t.Fatal("a topic that is not trimmed is not named")
	}
	tr.trim(t.Context(), nil, time.Now())
	equal(t, "untrimmed, without partitions here", untrimmed(), "")
}

// What is to be done where brokers delete nothing follows from why.
func TestRefusalSaysWhatToDo(t *testing.T) {
	for err, todo := range map[error]string{
		kerr.TopicAuthorizationFailed: "give this user the right to Delete the topic, or set trim: false on the route and give the topic a retention.ms",
		kerr.PolicyViolation:          "give the topic the cleanup.policy delete: this one may delete what is pending",
	} {
		if got := refusal(err); !strings.HasSuffix(got, "): "+todo) {
			t.Errorf("of %v: %s", err, got)
		}
	}
}

package assignor

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/duewheel/duewheel/processor/kafka"
)

// what is partitions as a test writes them: "t0 t1 u5".
func what(names string) (tps []kafka.TopicPartition) {
	for _, name := range strings.Fields(names) {
		tp := kafka.TopicPartition{Topic: name[:1]}
		fmt.Sscan(name[1:], &tp.Partition)
		tps = append(tps, tp)
	}
	return tps
}

// of is a member of a plan.
type of struct {
	replica   string // "": one of its own
	plan, has string // partitions
	warm      string // of which its store knows all
	nearly    string // of which it knows nearly all
	reads     string // topics; "": t
	alone     string // of which its replica alone holds what is pending
	idle      bool   // it keeps no standbys
	want      string // "": what is planned
}

// Each case is a plan, and what becomes of it. Where nothing is said a partition was that of a member that is dead, and nobody knows it.
func TestPlanIsMadeWarm(t *testing.T) {
	for name, members := range map[string]map[string]of{
		"exchanged for what is as warm":        {"a": {plan: "t2", warm: "t5", want: "t5"}, "b": {plan: "t5", warm: "t2", want: "t2"}},
		"nobody knows either":                  {"a": {plan: "t2"}, "b": {plan: "t5"}},
		"for what is cold with both":           {"a": {plan: "t2", want: "t5"}, "b": {plan: "t5", warm: "t2", want: "t2"}, "c": {plan: "t7", has: "t7", warm: "t5"}},
		"not for what gets cold":               {"a": {plan: "t2"}, "b": {plan: "t5", warm: "t2 t5"}},
		"not with who does not read it":        {"a": {plan: "t2", reads: "tu"}, "b": {plan: "u5", reads: "u", warm: "t2"}},
		"not for what it does not read":        {"a": {plan: "t2"}, "b": {plan: "u5", reads: "tu", warm: "t2"}},
		"not for what stays where it is":       {"a": {plan: "t2", warm: "t5"}, "b": {plan: "t5", has: "t5", warm: "t2"}},
		"its owner lets another one go":        {"a": {plan: "t2", warm: "t5", want: "t5"}, "b": {plan: "t5", has: "t2 t5", warm: "t2 t5", want: "t2"}},
		"a lane of the process that had it":    {"a": {replica: "A", plan: "t2"}, "a2": {replica: "A", has: "t2"}, "b": {plan: "t5", warm: "t2"}},
		"some records behind the best":         {"a": {plan: "t2", nearly: "t2", want: "t5"}, "b": {plan: "t5", warm: "t2", want: "t2"}},
		"moved, although one has more then":    {"a": {plan: "t0 t1 t2", has: "t0 t1", want: "t0 t1"}, "b": {plan: "t3 t4 t5", has: "t3 t4 t5", warm: "t2", want: "t3 t4 t5 t2"}},
		"not where another one has it still":   {"a": {plan: "t0 t1 t2", has: "t0 t1"}, "b": {plan: "t3 t4 t5", has: "t3 t4 t5", warm: "t2"}, "c": {plan: "t6 t7 t8", has: "t2 t6 t7 t8", warm: "t6 t7 t8"}},
		"not from who is nearly as warm":       {"a": {plan: "t0 t1 t2", has: "t0 t1", nearly: "t2"}, "b": {plan: "t3 t4 t5", has: "t3 t4 t5", warm: "t2"}},
		"not without standbys":                 {"a": {plan: "t0 t1 t2", has: "t0 t1", idle: true}, "b": {plan: "t3 t4 t5", has: "t3 t4 t5", warm: "t2", idle: true}},
		"not the last one":                     {"a": {plan: "t0"}, "b": {plan: "t1", has: "t1", warm: "t0"}},
		"not to who has more":                  {"a": {plan: "t0 t1 t2", has: "t0 t1"}, "b": {plan: "t3 t4 t5 t6", has: "t3 t4 t5 t6", warm: "t2"}},
		"not to who does not read it":          {"a": {plan: "t0 t1 t2", has: "t0 t1"}, "b": {plan: "u3 u4 u5", has: "u3 u4 u5", reads: "u", warm: "t2"}},
		"to the one with less":                 {"a": {plan: "t0 t1 t2", has: "t0 t1", want: "t0 t1"}, "b": {plan: "t3 t4 t5", has: "t3 t4 t5", warm: "t2"}, "c": {plan: "t6 t7", has: "t6 t7", warm: "t2", want: "t6 t7 t2"}},
		"to one with its share of uneven":      {"a": {plan: "t0 t1 t2", has: "t0 t1", want: "t0 t1"}, "b": {plan: "t3 t4 t5", has: "t3 t4 t5", warm: "t2", want: "t3 t4 t5 t2"}, "c": {plan: "t6", has: "t6"}},
		"kept by who holds it alone":           {"a": {plan: "t1", has: "t0 t1", alone: "t0 t1", want: "t1 t0"}, "b": {plan: "t0", want: " "}},
		"another one in its place":             {"a": {plan: "t1", has: "t0 t1", alone: "t0", want: "t0"}, "b": {plan: "t0", want: "t1"}},
		"one that the other reads":             {"a": {plan: "u1 t2", has: "t0 u1 t2", alone: "t0", want: "u1 t0", reads: "tu"}, "b": {plan: "t0", want: "t2"}},
		"however warm the other is":            {"a": {plan: "t1", has: "t0 t1", alone: "t0", want: "t0"}, "b": {plan: "t0", warm: "t0", want: "t1"}},
		"not by who has it no more":            {"a": {plan: "t1", has: "t1", alone: "t0"}, "b": {plan: "t0"}, "c": {plan: "t2", has: "t0 t2"}},
		"not by who does not read it any more": {"a": {plan: "u1", has: "t0 u1", alone: "t0", reads: "u"}, "b": {plan: "t0"}},
		"not by who has nothing alone":         {"a": {plan: "t1", has: "t0 t1"}, "b": {plan: "t0"}},
		"of several each to who is warm then":  {"a": {plan: "t0 t1 t2", want: "t0 t1"}, "b": {plan: "t3 t4", has: "t3 t4", warm: "t2", want: "t3 t4 t2"}, "c": {plan: "t5 t6 t7", has: "t5 t6 t7", warm: "t0"}},
	} {
		h := &warmPlan{says: map[string]warmth{}, reads: map[string][]string{}, owner: map[kafka.TopicPartition]string{}, gaveUp: map[kafka.TopicPartition]bool{},
			planned: map[string][]kafka.TopicPartition{}, holds: map[string]map[kafka.TopicPartition]int64{}, best: map[kafka.TopicPartition]int64{}}
		for id, m := range members {
			h.members = append(h.members, id)
			w := warmth{Replica: m.replica, Standbys: 1}
			if w.Replica == "" {
				w.Replica = "of " + id
			}
			if m.idle {
				w.Standbys = 0
			}
			w.Alone = map[string][]int32{}
			for _, tp := range what(m.alone) {
				w.Alone[tp.Topic] = append(w.Alone[tp.Topic], tp.Partition)
			}
			h.says[id], h.planned[id], h.holds[id] = w, what(m.plan), map[kafka.TopicPartition]int64{}
			if h.reads[id] = strings.Split(m.reads, ""); m.reads == "" {
				h.reads[id] = []string{"t"}
			}
			for _, tp := range what(m.has) {
				h.owner[tp] = id
			}
			for _, tp := range what(m.nearly) {
				h.holds[id][tp] = 1e6 - NearlyAsWarm
			}
			for _, tp := range what(m.warm) {
				h.holds[id][tp], h.best[tp] = 1e6, 1e6
			}
		}
		slices.Sort(h.members)
		h.warm()
		h.keep()
		for _, id := range h.members {
			want := members[id].want
			if want == "" {
				want = members[id].plan
			}
			if !slices.Equal(h.planned[id], what(want)) {
				t.Errorf("%s: %s gets %v, want %s", name, id, h.planned[id], want)
			}
		}
	}
}

// A store that is a little behind the best one counts as good as it, and no more than a little. What nobody knows is as good anywhere.
func TestIsWarm(t *testing.T) {
	tp := what("t0")[0]
	for _, c := range []struct {
		holds, best int64 // holds -1: nothing
		want        bool
	}{{-1, 0, true}, {-1, 1, false}, {5000, 5000, true}, {5000, 5000 + asWarm, true}, {5000, 5000 + asWarm + 1, false}} {
		h := warmPlan{holds: map[string]map[kafka.TopicPartition]int64{"a": {}}, best: map[kafka.TopicPartition]int64{tp: c.best}}
		if c.holds >= 0 {
			h.holds["a"][tp] = c.holds
		}
		if got := h.isWarm("a", tp, asWarm); got != c.want {
			t.Errorf("%d of %d: %v", c.holds, c.best, got)
		}
	}
}

// Of two members that say they have a partition the one counts that was in the group later, and what the best of all knows counts, whoever says it.
func TestPlanOfWhatMembersSay(t *testing.T) {
	for _, generations := range [][2]int32{{3, 7}, {7, 3}} {
		var joined []kmsg.JoinGroupResponseMember
		for i, id := range []string{"a", "b"} {
			holds := know(int64(generations[i])*1000, 0)
			b := New(Says{id, nowhere, 1, func() map[Stored]int64 { return ofTestTopic(holds) }, nothing})
			m := kmsg.NewJoinGroupResponseMember()
			m.MemberID, m.ProtocolMetadata = id, b.JoinGroupMetadata([]string{testTopic}, map[string][]int32{testTopic: {0}}, generations[i])
			joined = append(joined, m)
		}
		c, err := kgo.NewConsumerBalancer(New(Says{Replica: "x"}), joined)
		if err != nil {
			t.Fatal(err)
		}
		h := newWarmPlan(c, nil)
		tp := kafka.TopicPartition{Topic: testTopic}
		if want := []string{"a", "b"}[max(0, min(1, generations[1]-generations[0]))]; h.owner[tp] != want || h.best[tp] != 7000 {
			t.Errorf("generations %d: it is %s's, and known up to %d", generations, h.owner[tp], h.best[tp])
		}
	}
}

// A member that says nothing that can be read, be it in part, is a replica of its own and holds nothing.
func TestWhatAMemberSays(t *testing.T) {
	const holds = `"holds":{"t/00":{"0":5}}`
	for said, want := range map[string]string{
		"":       "member m",
		`sticky`: "member m",
		`sticky dw1{"replica":"A",` + holds + `}`:                      "A",
		`sticky dw1{"replica":"A",` + holds + `,"standbys":"x"}`:       "member m",
		`sticky dw1{"replica":"A",` + holds:                            "member m",
		`sticky dw1{` + holds + `}`:                                    "member m",
		`sticky dw1{"replica":"dw1{\"replica\":\"B\"}",` + holds + `}`: `dw1{"replica":"B"}`,
	} {
		w := parseWarmth("m", []byte(said))
		if w.Replica != want || (len(w.Holds) > 0) != strings.Contains(said, "dw1{") && strings.HasSuffix(said, holds+"}") {
			t.Errorf("%s: replica %q holds %v", said, w.Replica, w.Holds)
		}
	}
	if parseWarmth("m", nil).Replica == parseWarmth("n", nil).Replica {
		t.Error("two members that say nothing are one replica")
	}
}

// What a member has let go since its last join it says once, and of what it has it says nothing. A member that has too much to say says who it is, and where, and what it alone holds.
func TestWhatAMemberLetsGo(t *testing.T) {
	b := New(Says{"A", nowhere, 1, func() map[Stored]int64 { return ofTestTopic(know(5, 0)) }, nothing})
	for _, join := range []struct {
		has  []int32
		want []int32
	}{{[]int32{0, 1, 2}, nil}, {[]int32{0, 2}, []int32{1}}, {[]int32{0, 2}, nil}, {nil, []int32{0, 2}}, {nil, nil}} {
		if got := said(t, b, map[string][]int32{testTopic: join.has}).GaveUp[testTopic]; !slices.Equal(got, join.want) {
			t.Errorf("with %v it has let %v go, want %v", join.has, got, join.want)
		}
	}
	much := map[Stored]int64{}
	for i := range 2000 {
		much[Stored{kafka.TopicPartition{Topic: fmt.Sprintf("%s-%d", testTopic, i)}, testID}] = 1e6
	}
	b = New(Says{"A", func() string { return "10.0.0.1:9464" }, 1, func() map[Stored]int64 { return much }, func() []kafka.TopicPartition { return what("t1 t2 u0") }})
	w := said(t, b, nil)
	if w.Replica != "A" || w.Address != "10.0.0.1:9464" || len(w.Holds) > 0 || w.Standbys > 0 {
		t.Errorf("it says that it is %s at %q, with %d standbys, and what it holds of %d topics", w.Replica, w.Address, w.Standbys, len(w.Holds))
	}
	if alone := fmt.Sprint(w.Alone); alone != "map[t:[1 2] u:[0]]" {
		t.Errorf("it says that it alone holds %s", alone)
	}
}

// said is what a member says at a join.
func said(t *testing.T, b *Assignor, current map[string][]int32) warmth {
	t.Helper()
	meta := kmsg.NewConsumerMemberMetadata()
	if err := meta.ReadFrom(b.JoinGroupMetadata([]string{testTopic}, current, 3)); err != nil {
		t.Fatal(err)
	}
	return parseWarmth("m", meta.UserData)
}

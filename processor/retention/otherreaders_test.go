package retention

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
)

// trimmer is a trimming of the test topic with ten records in its log, as a user of a cluster with an authorizer, whose super user is root.
type trimmer struct {
	*Trimming
	t    *testing.T
	c    *kfake.Cluster
	cl   *kgo.Client // the user's
	root *kadm.Client
}

func newTrimmer(t *testing.T, trim *bool, rights ...kfake.ACL) *trimmer {
	t.Helper()
	rights = append(rights, // as documented
		kfake.ACL{Resource: kmsg.ACLResourceTypeTopic, Name: testTopic, Pattern: kmsg.ACLResourcePatternTypeLiteral, Operation: kmsg.ACLOperationAll, Allow: true},
		kfake.ACL{Resource: kmsg.ACLResourceTypeGroup, Name: "g", Pattern: kmsg.ACLResourcePatternTypeLiteral, Operation: kmsg.ACLOperationRead, Allow: true})
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, testTopic), kfake.EnableSASL(), kfake.EnableACLs(),
		kfake.Superuser("PLAIN", "root", "root"), kfake.User("PLAIN", "wheel", "wheel", rights...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	login := func(user string) []kgo.Opt {
		return []kgo.Opt{kgo.SeedBrokers(c.ListenAddrs()...), kgo.RequestRetries(1), kgo.SASL(plain.Auth{User: user, Pass: user}.AsMechanism())}
	}
	x := &trimmer{Trimming: NewTrimming(testEnv(map[string]*topics.Route{testTopic: {Topic: testTopic, Trim: trim}})), t: t, c: c}
	clients := map[string]*kgo.Client{}
	for _, user := range []string{"wheel", "root"} {
		if clients[user], err = kgo.NewClient(kafka.Options(login(user))...); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(clients[user].Close)
	}
	x.cl, x.root = clients["wheel"], kadm.NewClient(clients["root"])
	for range 10 {
		if err := clients["root"].ProduceSync(t.Context(), &kgo.Record{Topic: testTopic}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	keep := "-1"
	for _, name := range []string{"retention.ms", "retention.bytes"} {
		if _, err := x.root.AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: name, Value: &keep}}, testTopic); err != nil {
			t.Fatal(err)
		}
	}
	x.commits(state.Checkpoint{Offset: 10, LowWater: 10})
	return x
}

// topicID is the id of the test topic.
func (x *trimmer) topicID() kafka.TopicID {
	x.t.Helper()
	tp := kafka.TopicPartition{Topic: testTopic, Partition: 0}
	ids, err := kafka.TopicIDs(x.t.Context(), x.cl, []kafka.TopicPartition{tp})
	if err != nil {
		x.t.Fatal(err)
	}
	return ids[tp]
}

// commits has the group commit a checkpoint of the topic.
func (x *trimmer) commits(c state.Checkpoint) {
	x.t.Helper()
	c.TopicID, c.Parsers = x.topicID().Short(), []state.ParserEpoch{{Spec: "p1"}}
	text, err := c.Metadata()
	if err != nil {
		x.t.Fatal(err)
	}
	x.commit("g", c.Offset, text)
}

func (x *trimmer) commit(group string, offset int64, metadata string) {
	x.t.Helper()
	var o kadm.Offsets
	o.Add(kadm.Offset{Topic: testTopic, At: offset, LeaderEpoch: -1, Metadata: metadata})
	if err := x.root.CommitAllOffsets(x.t.Context(), group, o); err != nil {
		x.t.Fatal(err)
	}
}

// reads has a group commit an offset of the topic.
func (x *trimmer) reads(group string) {
	x.t.Helper()
	x.commit(group, 0, "")
}

// cuts tries to cut the log at an offset, and says where it begins then and why the topic is not trimmed.
func (x *trimmer) cuts(to int64) (start int64, why string) {
	x.t.Helper()
	x.cut(x.t.Context(), x.cl, cuts{testTopic: {0: {id: x.topicID(), to: to}}})
	return x.c.PartitionInfo(testTopic, 0).LogStartOffset, x.Topics[testTopic].Untrimmed.Get()
}

func describe(of kmsg.ACLResourceType, name string) kfake.ACL {
	return kfake.ACL{Resource: of, Name: name, Pattern: kmsg.ACLResourcePatternTypeLiteral, Operation: kmsg.ACLOperationDescribe, Allow: true}
}

// A topic that another group may read is not trimmed, whether that can be seen or not: without the right to see all groups it takes a route that says trim: true. A
// group that can be seen to read it counts more than that.
func TestTrimWhereOthersMayRead(t *testing.T) {
	yes := true
	cluster, groups := describe(kmsg.ACLResourceTypeCluster, "kafka-cluster"), describe(kmsg.ACLResourceTypeGroup, "*")
	const missing = "--operation Describe --cluster --group '*'"
	for _, test := range []struct {
		name   string
		trim   *bool
		rights []kfake.ACL
		other  string
		why    string // "": it is trimmed
	}{
		{"the documented rights, another group", nil, nil, "other", missing},
		{"the documented rights, no other group", nil, nil, "", missing},
		{"it is said to, and no other group is seen", &yes, nil, "other", ""},
		{"all rights, another group", nil, []kfake.ACL{cluster, groups}, "other", "other groups have committed offsets of it (other)"},
		{"all rights, no other group", nil, []kfake.ACL{cluster, groups}, "", ""},
		{"it is said to, but another group is seen", &yes, []kfake.ACL{groups}, "other", "other groups have committed offsets of it (other)"},
	} {
		t.Run(test.name, func(t *testing.T) {
			x := newTrimmer(t, test.trim, test.rights...)
			if test.other != "" {
				x.reads(test.other)
			}
			start, why := x.cuts(5)
			if !strings.Contains(why, test.why) || (why == "") != (test.why == "") {
				t.Errorf("it says %q, and not %q", why, test.why)
			}
			if (start == 5) != (test.why == "") {
				t.Errorf("the log begins at %d", start)
			}
		})
	}
}

// A group that has given its checkpoints away, as to this one, reads the topic no more. It does where another partition is still its own.
func TestTrimWhereAnotherHasGivenAway(t *testing.T) {
	yes := true
	x := newTrimmer(t, &yes, describe(kmsg.ACLResourceTypeGroup, "*"))
	given, err := state.Checkpoint{TopicID: x.topicID().Short(), Offset: 4}.GivenTo("g")
	if err != nil {
		t.Fatal(err)
	}
	x.commit("other", 4, given)
	if start, why := x.cuts(5); start != 5 || why != "" {
		t.Errorf("the log begins at %d: %q", start, why)
	}
	if Reads(map[int32]kadm.OffsetResponse{0: {Offset: kadm.Offset{At: 4, Metadata: given}}, 1: {Offset: kadm.Offset{At: 4}}}) != true {
		t.Error("a group reads nothing that has a partition still")
	}
}

// A group that was seen to read the topic counts until it says itself that it does not: brokers that list none of it may not know it.
func TestOtherReadersAreRemembered(t *testing.T) {
	yes := true
	x := newTrimmer(t, &yes, describe(kmsg.ACLResourceTypeCluster, "kafka-cluster"), describe(kmsg.ACLResourceTypeGroup, "*"))
	x.reads("other")
	if start, why := x.cuts(5); start != 0 || !strings.Contains(why, "(other)") {
		t.Fatalf("another group reads it, and the log begins at %d: %q", start, why)
	}
	var unlisted, lost atomic.Bool
	x.c.ControlKey(int16(kmsg.ListGroups), func(req kmsg.Request) (kmsg.Response, error, bool) {
		x.c.KeepControl()
		return req.ResponseKind(), nil, unlisted.Load()
	})
	x.c.ControlKey(int16(kmsg.OffsetFetch), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		x.c.KeepControl()
		req := kreq.(*kmsg.OffsetFetchRequest)
		resp := req.ResponseKind().(*kmsg.OffsetFetchResponse)
		for _, g := range req.Groups {
			rg := kmsg.NewOffsetFetchResponseGroup()
			rg.Group, rg.ErrorCode = g.Group, kerr.CoordinatorNotAvailable.Code
			resp.Groups = append(resp.Groups, rg)
		}
		return resp, nil, lost.Load()
	})
	unlisted.Store(true)
	for _, l := range []bool{false, true, false} {
		lost.Store(l)
		if start, why := x.cuts(5); start != 0 || !strings.Contains(why, "(other)") {
			t.Errorf("no broker lists the group, whose coordinator is lost: %v, and the log begins at %d: %q", l, start, why)
		}
	}
	if _, err := x.root.DeleteGroup(t.Context(), "other"); err != nil {
		t.Fatal(err)
	}
	if start, why := x.cuts(5); start != 5 || why != "" {
		t.Errorf("the group is gone, and the log begins at %d: %q", start, why)
	}
}

// A group that does not tell what it has committed keeps the topic from being trimmed for as long as it does not, also where the route says trim: true.
func TestTrimWaitsForAnswersOfGroups(t *testing.T) {
	yes := true
	for _, code := range []*kerr.Error{kerr.CoordinatorNotAvailable, kerr.CoordinatorLoadInProgress} {
		x := newTrimmer(t, &yes, describe(kmsg.ACLResourceTypeCluster, "kafka-cluster"), describe(kmsg.ACLResourceTypeGroup, "*"))
		x.reads("other")
		var ends atomic.Bool
		x.c.ControlKey(int16(kmsg.OffsetFetch), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
			x.c.KeepControl()
			req := kreq.(*kmsg.OffsetFetchRequest)
			resp := req.ResponseKind().(*kmsg.OffsetFetchResponse)
			for _, g := range req.Groups {
				rg := kmsg.NewOffsetFetchResponseGroup()
				rg.Group, rg.ErrorCode = g.Group, code.Code
				resp.Groups = append(resp.Groups, rg)
			}
			ours := slices.ContainsFunc(req.Groups, func(g kmsg.OffsetFetchRequestGroup) bool { return g.Group == "g" }) // it is asked for its L, and answers
			return resp, nil, !ends.Load() && !ours
		})
		if start, why := x.cuts(5); start != 0 || why != "" || x.vain.since[testTopic].IsZero() {
			t.Errorf("%v: the log begins at %d, and it says at once %q", code, start, why)
		}
		ends.Store(true)
		if start, why := x.cuts(5); start != 0 || !strings.Contains(why, "(other)") {
			t.Errorf("another group reads it, and the log begins at %d: %q", start, why)
		}
	}
}

// Nothing is deleted above the L that the group has committed when it is deleted: a process that was away for long, or offsets that were set back, know of a higher
// one that counts no more.
func TestTrimUpToTheCommittedLowWater(t *testing.T) {
	yes := true
	groups := []kfake.ACL{describe(kmsg.ACLResourceTypeCluster, "kafka-cluster"), describe(kmsg.ACLResourceTypeGroup, "*")}
	for name, test := range map[string]struct {
		make  func(x *trimmer)
		start int64
		vain  bool
	}{
		"as it was":            {func(x *trimmer) {}, 5, false},
		"L has gone back":      {func(x *trimmer) { x.commits(state.Checkpoint{Offset: 8, LowWater: 3}) }, 3, false},
		"offsets were reset":   {func(x *trimmer) { x.commit("g", 2, "") }, 0, true},
		"offsets were deleted": {func(x *trimmer) { x.root.DeleteGroup(x.t.Context(), "g") }, 0, true},
		"it is of another topic of that name": {func(x *trimmer) {
			text, err := state.Checkpoint{Offset: 8, LowWater: 8, TopicID: [4]byte{1}, Parsers: []state.ParserEpoch{{Spec: "p1"}}}.Metadata()
			if err != nil {
				x.t.Fatal(err)
			}
			x.commit("g", 8, text)
		}, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			x := newTrimmer(t, &yes, groups...)
			test.make(x)
			start, why := x.cuts(5)
			equal(t, "the log begins at", start, test.start)
			equal(t, "it says at once", why, "")
			equal(t, "in vain", !x.vain.since[testTopic].IsZero(), test.vain)
		})
	}
}

// What fails of one topic says nothing of the others.
func TestApart(t *testing.T) {
	var asked []string
	ask := func(_ context.Context, names []string) (map[string]int, error) {
		asked = append(asked, strings.Join(names, "+"))
		if slices.Contains(names, "bad") {
			return nil, kerr.UnknownTopicOrPartition
		}
		all := map[string]int{}
		for _, name := range names {
			all[name] = len(name)
		}
		return all, nil
	}
	all, why := apart(t.Context(), kafka.RequestTimeout, []string{"bad", "good", "fine"}, ask)
	equal(t, "told", fmt.Sprint(all), "map[fine:4 good:4]")
	equal(t, "why not", fmt.Sprint(len(why), why["bad"] != nil), "1 true")
	equal(t, "asked", strings.Join(asked, " "), "bad+good+fine bad good fine")
	asked = nil
	all, why = apart(t.Context(), kafka.RequestTimeout, []string{"good", "fine"}, ask)
	equal(t, "well", fmt.Sprint(all, len(why), asked), "map[fine:4 good:4] 0 [good+fine]")
	all, why = apart(t.Context(), -1, []string{"good", "fine"}, func(ctx context.Context, _ []string) (map[string]int, error) { return nil, ctx.Err() })
	equal(t, "in time", fmt.Sprint(len(all), len(why)), "0 2")
}

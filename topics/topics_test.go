package topics

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// admin starts a fake cluster and returns a client of it.
func admin(t *testing.T, brokers int, opts ...kfake.Opt) (*kadm.Client, *kfake.Cluster) {
	t.Helper()
	c, err := kfake.NewCluster(append(opts, kfake.NumBrokers(brokers))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return client(t, c), c
}

func client(t *testing.T, c *kfake.Cluster, opts ...kgo.Opt) *kadm.Client {
	t.Helper()
	adm, err := kadm.NewOptClient(append(opts, kgo.SeedBrokers(c.ListenAddrs()...))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(adm.Close)
	return adm
}

func expect(t *testing.T, routes ...Route) Expect {
	t.Helper()
	var want Expect
	for _, r := range routes {
		want.Routes = append(want.Routes, route(t, r))
	}
	return want
}

// lines prints problems for comparison: severity, topic and what.
func lines(problems []Problem) (s []string) {
	for _, p := range problems {
		s = append(s, fmt.Sprintf("%s %s: %s", p.Severity, p.Topic, p.What))
	}
	return s
}

func check(t *testing.T, adm *kadm.Client, want Expect, problems ...string) []Problem {
	t.Helper()
	got, err := Check(t.Context(), adm, want)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, lines(got), problems)
	for _, p := range got {
		if p.Why == "" || p.Mend == "" || !strings.Contains(p.String(), p.Mend) {
			t.Errorf("says too little: %s", p)
		}
	}
	return got
}

func TestWhatCreateMakesIsWhatCheckWants(t *testing.T) {
	for brokers, replication := range map[int]int16{1: 1, 2: 2, 3: 3, 4: 3} {
		adm, _ := admin(t, brokers)
		want := expect(t, Route{Topic: "d1", DeadLetter: "dead", Target: "d1.out"}, Route{Topic: "d2", DeadLetter: "dead", Delay: time.Minute})
		check(t, adm, want,
			"error d1: it does not exist", "error d2: it does not exist", "error dead: it does not exist",
			"warning d1.out: it does not exist")
		made, err := Create(t.Context(), adm, want)
		if err != nil {
			t.Fatal(err)
		}
		for i, topic := range []string{"d1", "d2", "dead"} {
			if got := made[i]; got.Topic != topic || got.Existed || got.Replication != replication || got.Partitions != []int32{12, 12, 1}[i] {
				t.Errorf("%d brokers: got %+v", brokers, got)
			}
		}
		insync := map[int16]string{1: "1", 2: "1", 3: "2"}[replication]
		both := map[string]string{"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1", "min.insync.replicas": insync, "unclean.leader.election.enable": "false"}
		equal(t, made[0].Configs, both)
		both["max.message.bytes"] = "1114124" // 1048588, which is Kafka's default, and 64 KiB
		equal(t, made[2].Configs, both)
		check(t, adm, want, "warning d1.out: it does not exist")

		again, err := Create(t.Context(), adm, want)
		if err != nil {
			t.Fatal(err)
		}
		for i, c := range again {
			if !c.Existed || c.Partitions != made[i].Partitions || c.Replication != made[i].Replication {
				t.Errorf("the second time: %+v", c)
			}
		}
	}
}

// A dead letter topic of several delay topics takes what any of them takes, in whichever order they are looked at.
func TestDeadLetterTopicOfSeveral(t *testing.T) {
	for _, largest := range []string{"a", "b", "c"} {
		adm, _ := admin(t, 1)
		var routes []Route
		for _, topic := range []string{"a", "b", "c"} {
			bytes := "2000000"
			if topic == largest {
				bytes = "3000000"
			}
			if _, err := adm.CreateTopic(t.Context(), 1, 1, map[string]*string{"retention.ms": kadm.StringPtr("-1"), "max.message.bytes": &bytes}, topic); err != nil {
				t.Fatal(err)
			}
			routes = append(routes, Route{Topic: topic, DeadLetter: "dead"})
		}
		want := expect(t, routes...)
		made, err := Create(t.Context(), adm, want)
		if err != nil {
			t.Fatal(err)
		}
		equal(t, made[len(made)-1].Configs["max.message.bytes"], "3065536")
		less := "2065536"
		if _, err := adm.AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Name: "max.message.bytes", Value: &less}}, "dead"); err != nil {
			t.Fatal(err)
		}
		problems, err := Check(t.Context(), adm, want)
		if err != nil || !slices.Contains(lines(problems), "error dead: max.message.bytes is 2065536") {
			t.Errorf("%s takes more than the dead letter topic: %v, %v", largest, lines(problems), err)
		}
	}
}

func TestCreateTakesWhatItIsTold(t *testing.T) {
	adm, _ := admin(t, 3)
	want := expect(t, Route{Topic: "d", DeadLetter: "dead"})
	want.Partitions, want.Replication, want.MaxMessageBytes = 5, 2, 2_000_000
	made, err := Create(t.Context(), adm, want)
	if err != nil {
		t.Fatal(err)
	}
	if d, dead := made[0], made[1]; d.Partitions != 5 || d.Replication != 2 || d.Configs["max.message.bytes"] != "2000000" ||
		dead.Replication != 2 || dead.Configs["max.message.bytes"] != "2065536" {
		t.Errorf("got %+v", made)
	}
}

// The audit topic is shared as widely as a delay topic, and kept for 30 days.
func TestCreateAuditTopic(t *testing.T) {
	adm, c := admin(t, 3)
	want := expect(t, Route{Topic: "d", DeadLetter: "dead"})
	want.Audit, want.Partitions = "audit", 5
	check(t, adm, want, "error d: it does not exist", "error dead: it does not exist", "error audit: it does not exist")
	made, err := Create(t.Context(), adm, want)
	if err != nil {
		t.Fatal(err)
	}
	if a := made[len(made)-1]; len(made) != 3 || a.Topic != "audit" || a.Partitions != 5 || a.Replication != 3 ||
		a.Configs["retention.ms"] != "2592000000" || a.Configs["compression.type"] != "zstd" || a.Configs["cleanup.policy"] != "delete" {
		t.Errorf("got %+v", made)
	}
	check(t, client(t, c), want)
}

// What is told of a request fits into the least that its topic is to take.
func TestLargestAuditRecord(t *testing.T) {
	worst := strings.Repeat("\x01", 1000)
	name := strings.Repeat("t", 249)
	a := Audit{
		Event: AuditDeadLettered, Of: Handle{1<<31 - 1, 1<<63 - 1, maxDueMillis}, ID: []byte(worst[:MostID]), In: AppendAuditIn(nil, name, worst[:249], maxDueMillis),
		By: Place{1<<31 - 1, 1<<63 - 1}, HasBy: true, Refusal: &Refusal{Code: CodeUnsupportedHeader, Message: worst}, Target: name,
	}
	value, key := a.Append(nil)
	if n := RecordSize(key, AppendPlace(value, Place{1<<31 - 1, 1<<63 - 1}), nil); n > auditMost {
		t.Errorf("it takes %d bytes", n)
	}
}

func TestCreateTellsWhatItCouldNotMake(t *testing.T) {
	adm, c := admin(t, 1)
	c.ControlKey(int16(kmsg.DescribeConfigs), func(kmsg.Request) (kmsg.Response, error, bool) {
		t.Error("asked about a topic that was not made")
		return nil, nil, false
	})
	want := expect(t, Route{Topic: "d", DeadLetter: "dead"})
	want.Replication = 3
	made, err := Create(t.Context(), adm, want)
	if err == nil || !strings.Contains(err.Error(), "create topic d: INVALID_REPLICATION_FACTOR") || len(made) != 0 {
		t.Errorf("got %v, %v", made, err)
	}
}

func TestCreateAtTheSameTimeAsAnother(t *testing.T) {
	adm, c := admin(t, 1)
	if _, err := adm.CreateTopic(t.Context(), 3, 1, nil, "d"); err != nil {
		t.Fatal(err)
	}
	looked := false
	c.ControlKey(int16(kmsg.Metadata), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		for i, topic := range kreq.(*kmsg.MetadataRequest).Topics {
			if topic.Topic != nil && *topic.Topic == "d" && !looked { // not made yet when we look first
				other := "not-made-yet"
				kreq.(*kmsg.MetadataRequest).Topics[i].Topic = &other
				looked = true
			}
		}
		return nil, nil, false
	})
	made, err := Create(t.Context(), adm, expect(t, Route{Topic: "d", DeadLetter: "dead"}))
	if err != nil || len(made) != 2 || !made[0].Existed || made[1].Existed {
		t.Fatalf("got %+v, %v", made, err)
	}
	if d := made[0]; d.Partitions != 3 || d.Replication != 1 || d.Configs != nil {
		t.Errorf("it has 3 partitions, and Create says %+v", d)
	}
}

// Brokers may make another topic than they were asked for, as those do that choose replicas and settings themselves: what is there is told.
func TestCreateTellsWhatWasMade(t *testing.T) {
	adm, c := admin(t, 3)
	c.ControlKey(int16(kmsg.CreateTopics), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		for i := range kreq.(*kmsg.CreateTopicsRequest).Topics {
			topic := &kreq.(*kmsg.CreateTopicsRequest).Topics[i]
			topic.NumPartitions, topic.ReplicationFactor = 7, 2
			for j := range topic.Configs {
				if topic.Configs[j].Name == "retention.ms" {
					topic.Configs[j].Value = kadm.StringPtr("86400000")
				}
			}
		}
		return nil, nil, false
	})
	made, err := Create(t.Context(), adm, expect(t, Route{Topic: "d", DeadLetter: "dead"}))
	if err != nil || len(made) != 2 {
		t.Fatalf("got %+v, %v", made, err)
	}
	for _, topic := range made {
		if topic.Partitions != 7 || topic.Replication != 2 || topic.Configs["retention.ms"] != "86400000" || topic.Configs["cleanup.policy"] != "delete" {
			t.Errorf("it has 7 partitions of 2 replicas, and retention.ms is a day; Create says %+v", topic)
		}
	}
}

// Brokers that have not heard of a new topic yet, as real ones have not for some
// milliseconds, are asked again.
func TestCreateWaitsUntilTopicsCanBeUsed(t *testing.T) {
	adm, c := admin(t, 1)
	described, listed := 0, 0
	c.ControlKey(int16(kmsg.DescribeConfigs), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		if described++; described > 2 {
			return nil, nil, false
		}
		resp := kreq.ResponseKind().(*kmsg.DescribeConfigsResponse)
		for _, r := range kreq.(*kmsg.DescribeConfigsRequest).Resources {
			resp.Resources = append(resp.Resources, kmsg.DescribeConfigsResponseResource{
				ErrorCode: kerr.UnknownTopicOrPartition.Code, ResourceName: r.ResourceName, ResourceType: r.ResourceType})
		}
		return resp, nil, true
	})
	c.ControlKey(int16(kmsg.Metadata), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		req := kreq.(*kmsg.MetadataRequest)
		if described == 0 || len(req.Topics) == 0 { // to look for what is there, or for brokers
			return nil, nil, false
		}
		listed++
		resp := req.ResponseKind().(*kmsg.MetadataResponse)
		for _, topic := range req.Topics {
			mt := kmsg.NewMetadataResponseTopic()
			mt.Topic = topic.Topic
			mp := kmsg.NewMetadataResponseTopicPartition()
			switch listed {
			case 1:
				mt.ErrorCode = kerr.UnknownTopicOrPartition.Code
			case 2:
				mp.Leader, mp.ErrorCode = -1, kerr.LeaderNotAvailable.Code
				mt.Partitions = append(mt.Partitions, mp)
			default:
				return nil, nil, false
			}
			resp.Topics = append(resp.Topics, mt)
		}
		return resp, nil, true
	})
	made, err := Create(t.Context(), adm, expect(t, Route{Topic: "d", DeadLetter: "dead"}))
	if err != nil || len(made) != 2 || described != 4 || listed != 3 {
		t.Errorf("got %v, %v; asked %d and %d times", made, err, described, listed)
	}
}

// refuseConfigs has brokers answer with a code whenever they are asked for the configuration of a topic.
func refuseConfigs(c *kfake.Cluster, code *int16) {
	c.ControlKey(int16(kmsg.DescribeConfigs), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		resp := kreq.ResponseKind().(*kmsg.DescribeConfigsResponse)
		for _, r := range kreq.(*kmsg.DescribeConfigsRequest).Resources {
			resp.Resources = append(resp.Resources, kmsg.DescribeConfigsResponseResource{ErrorCode: *code, ResourceName: r.ResourceName, ResourceType: r.ResourceType})
		}
		return resp, nil, true
	})
}

// What brokers have not heard of yet takes no right.
func TestUnknownTopicIsNoMissingRight(t *testing.T) {
	adm, c := admin(t, 1)
	code := kerr.UnknownTopicOrPartition.Code
	refuseConfigs(c, &code)
	for _, want := range []string{"topic d was made and cannot be used yet", "right to DescribeConfigs"} {
		if _, err := askLargest(t.Context(), adm, []string{"d"}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
		code = kerr.TopicAuthorizationFailed.Code
	}
}

// Nor does Check ask for a right to what a broker has not heard of yet, and only where one is missing.
func TestCheckTellsUnknownTopicFromMissingRight(t *testing.T) {
	adm, c := admin(t, 1)
	want := expect(t, Route{Topic: "d", DeadLetter: "dead"})
	if _, err := Create(t.Context(), adm, want); err != nil {
		t.Fatal(err)
	}
	code := kerr.UnknownTopicOrPartition.Code
	refuseConfigs(c, &code)
	for _, mend := range []string{"duewheel topics check", "kafka-acls.sh"} {
		found, err := Check(t.Context(), adm, want)
		if err != nil {
			t.Fatal(err)
		}
		unreadable := slices.DeleteFunc(found, func(p Problem) bool { return !strings.Contains(p.What, "its configuration cannot be read") })
		if len(unreadable) != 2 {
			t.Errorf("not both topics: %v", lines(found))
		}
		for _, p := range unreadable {
			if !strings.HasPrefix(p.Mend, mend) {
				t.Errorf("%s: %s: mended by %q, want %q", p.Topic, p.What, p.Mend, mend)
			}
		}
		code = kerr.TopicAuthorizationFailed.Code
	}
}

func TestCreateEndsWithItsContext(t *testing.T) {
	adm, c := admin(t, 1)
	ctx, cancel := context.WithCancel(t.Context())
	c.ControlKey(int16(kmsg.DescribeConfigs), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		cancel()
		resp := kreq.ResponseKind().(*kmsg.DescribeConfigsResponse)
		resp.Resources = append(resp.Resources, kmsg.DescribeConfigsResponseResource{
			ErrorCode: kerr.UnknownTopicOrPartition.Code, ResourceName: "d", ResourceType: kmsg.ConfigResourceTypeTopic})
		return resp, nil, true
	})
	made, err := Create(ctx, adm, expect(t, Route{Topic: "d", DeadLetter: "dead"}))
	if err == nil || len(made) != 1 {
		t.Errorf("got %v, %v", made, err)
	}
}

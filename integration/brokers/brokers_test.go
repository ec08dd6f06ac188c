package brokers_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/duewheel/duewheel/integration/brokers"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func connect(t *testing.T, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func createTopic(t *testing.T, client *kgo.Client, topic string, replicas int16) {
	t.Helper()
	if _, err := kadm.NewClient(client).CreateTopic(t.Context(), 1, replicas, nil, topic); err != nil {
		t.Fatal(err)
	}
}

func produce(t *testing.T, client *kgo.Client, topic, value string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r := &kgo.Record{Topic: topic, Value: []byte(value)}
	if err := client.ProduceSync(ctx, r).FirstErr(); err != nil {
		t.Fatalf("produce %q: %v", value, err)
	}
}

// expect reads the topic from its start and wants exactly these values.
func expect(t *testing.T, topic string, want []string, opts ...kgo.Opt) {
	t.Helper()
	client := connect(t, append(opts, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))...)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var got []string
	for len(got) < len(want) {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			t.Fatalf("after %q: %v", got, err)
		}
		fetches.EachRecord(func(r *kgo.Record) { got = append(got, string(r.Value)) })
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("read %q, want %q", got, want)
	}
}

// must runs each step of a scenario and fails at the first that fails.
func must(t *testing.T, steps ...func(context.Context) error) {
	t.Helper()
	for _, step := range steps {
		if err := step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// eventually waits until ok.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(30 * time.Second); !ok(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("not after 30 s: %s", what)
		}
	}
}

// What was acknowledged outlives an orderly restart and a kill -9, on the same address, with both versions.
func TestDataSurvivesRestartAndKill(t *testing.T) {
	for _, version := range []string{brokers.Latest, brokers.Old} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			c := brokers.Start(t, brokers.Options{Version: version, Faults: true})
			n := c.Node(1)
			client := connect(t, kgo.SeedBrokers(c.Addrs()...))
			createTopic(t, client, "t", 1)
			produce(t, client, "t", "first")
			must(t, n.Restart)
			produce(t, client, "t", "restarted")
			must(t, n.Kill, n.Start)
			produce(t, client, "t", "killed")
			expect(t, "t", []string{"first", "restarted", "killed"}, kgo.SeedBrokers(c.Addrs()...))
		})
	}
}

// A paused broker keeps its connections and answers nothing; resumed, it answers what was asked meanwhile.
func TestPauseHoldsAnswersBack(t *testing.T) {
	c := brokers.Start(t, brokers.Options{Faults: true})
	n := c.Node(1)
	client := connect(t, kgo.SeedBrokers(c.Addrs()...))
	createTopic(t, client, "t", 1)
	produce(t, client, "t", "before")

	must(t, n.Pause)
	answered := make(chan error, 1)
	client.Produce(t.Context(), &kgo.Record{Topic: "t", Value: []byte("during")}, func(_ *kgo.Record, err error) { answered <- err })
	select {
	case err := <-answered:
		t.Errorf("a paused broker answered: %v", err)
	case <-time.After(500 * time.Millisecond):
	}
	must(t, n.Resume)
	if err := <-answered; err != nil {
		t.Fatal(err)
	}
	expect(t, "t", []string{"before", "during"}, kgo.SeedBrokers(c.Addrs()...))
}

// With three nodes a topic of three replicas goes on while one node, the leader, is dead, and the node comes back.
func TestThreeNodesSurviveOne(t *testing.T) {
	for _, version := range []string{brokers.Latest, brokers.Old} {
		t.Run(version, func(t *testing.T) {
			c := brokers.Start(t, brokers.Options{Version: version, Nodes: 3, Faults: true})
			client := connect(t, kgo.SeedBrokers(c.Addrs()...))
			createTopic(t, client, "t", 3)
			produce(t, client, "t", "all")

			leader := c.Node(int(leaderOf(t, client, "t")))
			must(t, leader.Kill)
			produce(t, client, "t", "two")
			if now := leaderOf(t, client, "t"); now == leader.ID() {
				t.Errorf("the dead node %d still leads", now)
			}
			must(t, leader.Start)
			expect(t, "t", []string{"all", "two"}, kgo.SeedBrokers(leader.Addr(brokers.Plain)))
		})
	}
}

func leaderOf(t *testing.T, client *kgo.Client, topic string) int32 {
	t.Helper()
	request := kmsg.NewPtrMetadataRequest()
	request.Topics = []kmsg.MetadataRequestTopic{{Topic: &topic}}
	answer, err := request.RequestWith(t.Context(), client)
	if err != nil {
		t.Fatal(err)
	}
	return answer.Topics[0].Partitions[0].Leader
}

// The two versions differ in what they are there for: the kind of transactions.
func TestTransactionVersions(t *testing.T) {
	for version, want := range map[string]int16{brokers.Latest: 2, brokers.Old: 0} {
		c := brokers.Start(t, brokers.Options{Version: version})
		client := connect(t, kgo.SeedBrokers(c.Addrs()...))
		answer, err := kmsg.NewPtrApiVersionsRequest().RequestWith(t.Context(), client)
		if err != nil {
			t.Fatal(err)
		}
		got := int16(0)
		for _, f := range answer.FinalizedFeatures {
			if f.Name == "transaction.version" {
				got = f.MaxVersionLevel
			}
		}
		if got != want {
			t.Errorf("Kafka %s has transaction.version %d, want %d", version, got, want)
		}
	}
}

// A property that was overridden is what the broker runs with.
func TestConfigOverrides(t *testing.T) {
	c := brokers.Start(t, brokers.Options{Config: map[string]string{"message.max.bytes": "1234567"}})
	admin := kadm.NewClient(connect(t, kgo.SeedBrokers(c.Addrs()...)))
	configs, err := admin.DescribeBrokerConfigs(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, config := range configs[0].Configs {
		if config.Key == "message.max.bytes" {
			if got := config.MaybeValue(); got != "1234567" {
				t.Errorf("message.max.bytes is %s", got)
			}
			return
		}
	}
	t.Error("message.max.bytes is not among the broker's settings")
}

// What cannot work is said before anything is started, all of it at once.
func TestOptionsAreChecked(t *testing.T) {
	_, err := brokers.New(t.Context(), brokers.Options{Nodes: 2, Version: "1.0", Listeners: []brokers.Listener{"X"}})
	for _, want := range []string{"2 nodes", `"1.0"`, `"X"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not mention %s", err, want)
		}
	}
	_, err = brokers.New(t.Context(), brokers.Options{Provider: "podman"})
	if !errors.Is(err, brokers.ErrNoProvider) {
		t.Errorf("an unknown provider gives %v", err)
	}
}

// A step that does not fit the node's state is an error, not a hang.
func TestStepsOutOfOrder(t *testing.T) {
	c := brokers.Start(t, brokers.Options{Faults: true})
	n := c.Node(1)
	refuse := func(what string, err error) {
		if err == nil {
			t.Errorf("%s was accepted", what)
		}
	}
	refuse("start of a running node", n.Start(t.Context()))
	refuse("resume of a running node", n.Resume(t.Context()))
	must(t, n.Kill)
	refuse("kill of a dead node", n.Kill(t.Context()))
	refuse("pause of a dead node", n.Pause(t.Context()))
}

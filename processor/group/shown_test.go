package group

import (
	"context"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/duewheel/duewheel/processor/kafka"
)

// hide has a cluster do as one whose user may not describe a topic: it is not shown, and no member is taken that names it.
func hide(c *kfake.Cluster, hidden *atomic.Pointer[string]) {
	is := func(topic *string) bool { return topic != nil && hidden.Load() != nil && *topic == *hidden.Load() }
	c.ControlKey(int16(kmsg.ConsumerGroupHeartbeat), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		req := kreq.(*kmsg.ConsumerGroupHeartbeatRequest)
		if !slices.ContainsFunc(req.SubscribedTopicNames, func(t string) bool { return is(&t) }) {
			return nil, nil, false
		}
		resp := req.ResponseKind().(*kmsg.ConsumerGroupHeartbeatResponse)
		resp.ErrorCode = kerr.TopicAuthorizationFailed.Code
		return resp, nil, true
	})
	c.ControlKey(int16(kmsg.Metadata), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		req := kreq.(*kmsg.MetadataRequest)
		if !slices.ContainsFunc(req.Topics, func(t kmsg.MetadataRequestTopic) bool { return is(t.Topic) }) {
			return nil, nil, false
		}
		resp := req.ResponseKind().(*kmsg.MetadataResponse)
		for i, addr := range c.ListenAddrs() {
			host, port, _ := net.SplitHostPort(addr)
			n, _ := strconv.Atoi(port)
			b := kmsg.NewMetadataResponseBroker()
			b.NodeID, b.Host, b.Port = int32(i), host, int32(n)
			resp.Brokers = append(resp.Brokers, b)
		}
		for _, t := range req.Topics {
			rt := kmsg.NewMetadataResponseTopic()
			rt.Topic = t.Topic
			if is(t.Topic) {
				rt.ErrorCode = kerr.TopicAuthorizationFailed.Code
			} else if info := c.TopicInfo(*t.Topic); info != nil {
				rt.TopicID = info.TopicID
				for p := range int32(2) {
					rp := kmsg.NewMetadataResponseTopicPartition()
					rp.Partition, rp.Replicas, rp.ISR = p, []int32{0}, []int32{0}
					rt.Partitions = append(rt.Partitions, rp)
				}
			}
			resp.Topics = append(resp.Topics, rt)
		}
		return resp, nil, true
	})
}

// A topic that may not be described any more keeps a member of the consumer protocol from the partitions of no other one.
func TestTopicThatIsNotShown(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, testTopic, "hidden"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	var hidden atomic.Pointer[string]
	hidden.Store(kmsg.StringPtr("hidden"))
	hide(c, &hidden)
	until, ends := context.WithCancel(context.Background())
	g := New(Config{
		Client: []kgo.Opt{kgo.SeedBrokers(c.ListenAddrs()...)}, Group: "g", Topics: []string{testTopic, "hidden"}, Protocol: Consumer, ClientID: "me", SessionTimeout: 30 * time.Second, HeartbeatInterval: 50 * time.Millisecond,
		RebalanceTimeout: 30 * time.Second, Named: func(string) {}, Until: until, Log: slog.New(slog.DiscardHandler),
	}, &Standing{})
	s, err := g.Join()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ends(); s.Leave(); g.Wait() })
	has := map[kafka.TopicPartition]bool{}
	await := func(what string, want int, most time.Duration) {
		t.Helper()
		for late := time.After(most); len(has) != want; {
			select {
			case h := <-g.Handovers():
				for _, tp := range h.Assigned {
					has[tp] = true
				}
				for _, tp := range h.Revoked {
					delete(has, tp)
				}
				h.Done()
			case <-late:
				_, err := g.standing.Get()
				t.Fatalf("%s: it has %v, want %d: %v", what, has, want, err)
			}
		}
	}
	await("one of two topics is hidden", 2, 20*time.Second)
	hidden.Store(nil)
	await("it is shown again", 4, 20*time.Second)
}

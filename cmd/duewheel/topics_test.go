package main

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// What the flags of `topics create` say is what the brokers are asked for.
func TestTopicsCreateAsTold(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(3))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	var mu sync.Mutex
	asked := map[string]string{} // by topic
	c.ControlKey(int16(kmsg.CreateTopics), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		mu.Lock()
		defer mu.Unlock()
		for _, topic := range kreq.(*kmsg.CreateTopicsRequest).Topics {
			set := map[string]string{}
			for _, config := range topic.Configs {
				set[config.Name] = *config.Value
			}
			asked[topic.Topic] = fmt.Sprintf("%d partitions, %d replicas, %s in sync, records up to %s",
				topic.NumPartitions, topic.ReplicationFactor, set["min.insync.replicas"], set["max.message.bytes"])
		}
		return nil, nil, false
	})
	for _, test := range []struct {
		topic       string
		flags       []string
		delay, dead string
	}{
		{"plain", nil, "12 partitions, 3 replicas, 2 in sync, records up to ", "1 partitions, 3 replicas, 2 in sync, records up to 1114124"},
		{"two", []string{"--partitions", "5", "--replication", "2"},
			"5 partitions, 2 replicas, 1 in sync, records up to ", "1 partitions, 2 replicas, 1 in sync, records up to 1114124"},
		{"one", []string{"--replication", "1"}, "12 partitions, 1 replicas, 1 in sync, records up to ", "1 partitions, 1 replicas, 1 in sync, records up to 1114124"},
		{"large", []string{"--max-message-bytes", "2MiB"},
			"12 partitions, 3 replicas, 2 in sync, records up to 2097152", "1 partitions, 3 replicas, 2 in sync, records up to 2162688"},
	} {
		t.Run(test.topic, func(t *testing.T) {
			args := []string{"topics", "create", "-b", strings.Join(c.ListenAddrs(), ","), "-g", "g", "-X", "routes[0].topic=" + test.topic,
				"-X", "routes[0].target=orders", "-X", "routes[0].dead_letter=" + test.topic + ".dead"}
			if _, err := command(t, "", append(args, test.flags...)...); err != nil {
				t.Fatal(err)
			}
			mu.Lock()
			defer mu.Unlock()
			for topic, want := range map[string]string{test.topic: test.delay, test.topic + ".dead": test.dead} {
				if got := asked[topic]; got != want {
					t.Errorf("%s: asked for %s, want %s", topic, got, want)
				}
			}
		})
	}
}

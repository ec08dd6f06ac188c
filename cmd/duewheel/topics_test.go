package main

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
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

// What `run` would refuse is refused before a rollout, too; a group is not needed to look at topics.
func TestTopicsCheckJudgesSettings(t *testing.T) {
	_, addr := cluster(t, map[string]int32{"orders": 1})
	config := writeFile(t, "duewheel.yaml", "kafka: {brokers: '"+addr+"'}\nroutes: [{topic: delays, target: orders}]\n")
	if _, err := command(t, "", "topics", "create", "-c", config); err != nil {
		t.Fatal(err)
	}
	for set, want := range map[string]string{
		"commit_interval=500ms": "",
		"memory.budget=1":       "memory.budget is 1",
		"standbys=-1":           "standbys is -1",
	} {
		_, err := command(t, "", "topics", "check", "-c", config, "-X", set)
		if said := fmt.Sprint(err); (err == nil) != (want == "") || !strings.Contains(said, want) {
			t.Errorf("%s: %v", set, err)
		}
	}
}

// What was found before something could not be asked is shown all the same, and the exit code is that of what could not.
func TestTopicsCheckShowsWhatItHasFound(t *testing.T) {
	c, addr := cluster(t, map[string]int32{"orders": 1})
	config := writeFile(t, "duewheel.yaml", "kafka: {brokers: '"+addr+"'}\ngroup: {id: g}\nroutes: [{topic: delays, target: orders}]\n")
	c.ControlKey(int16(kmsg.ListGroups), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		resp := kreq.ResponseKind().(*kmsg.ListGroupsResponse)
		resp.ErrorCode = kerr.UnknownServerError.Code
		return resp, nil, true
	})
	out, err := command(t, "", "topics", "check", "-c", config)
	if exitCode(err) != 2 || !strings.Contains(fmt.Sprint(err), "look for other groups") || !strings.Contains(out, "error: delays: it does not exist") {
		t.Errorf("printed %q, %v", out, err)
	}
}

// What a setting comes to is a note: behind all that is wrong, and no reason to say that something is. `run` has it in its log, and not as a warning.
func TestTopicsCheckNotes(t *testing.T) {
	c, addr := cluster(t, map[string]int32{"orders": 1})
	config := writeFile(t, "duewheel.yaml", "kafka: {brokers: '"+addr+"'}\ngroup: {id: g}\nroutes: [{topic: delays, target: orders, max_delay: 30d}]\n")
	if _, err := command(t, "", "topics", "create", "-c", config); err != nil {
		t.Fatal(err)
	}
	week := "604800000"
	if _, err := kadm.NewClient(client(t, addr)).AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Name: "retention.ms", Value: &week}}, "delays"); err != nil {
		t.Fatal(err)
	}
	note := "note: delays: retention.ms is 604800000\n" +
		"    why:  what is pending is carried when it is 84h old, and lost if duewheel does not run for as long; one that waits 30d (max_delay) is written about 8 times more; each process carries up to 3024000000 records in 84h (carry_records); what producers give an old timestamp is lost sooner, maybe at once (message.timestamp.type is CreateTime)\n" +
		"    else: kafka-configs.sh --bootstrap-server " + addr + " --alter --entity-type topics --entity-name delays --add-config retention.ms=-1\n"
	check := func(args ...string) string {
		t.Helper()
		out, err := command(t, "", append([]string{"topics", "check", "-c", config}, args...)...)
		if err != nil {
			t.Error(err)
		}
		return out
	}
	if out, want := check(), "all topics are as they should be\n"+note; out != want {
		t.Errorf("got:\n%s\nwant:\n%s", out, want)
	}
	if out := check("-o", "json"); !strings.Contains(out, `"severity": "note"`) {
		t.Errorf("as JSON:\n%s", out)
	}

	var log bytes.Buffer
	s, err := (&flags{file: config}).load()
	opts, clientErr := s.clientOpts()
	if err != nil || clientErr != nil {
		t.Fatal(err, clientErr)
	}
	warnOfTopics(t.Context(), s, opts, s.logger(&log))
	if !strings.Contains(log.String(), "level=INFO") || !strings.Contains(log.String(), "retention.ms is 604800000") || strings.Contains(log.String(), "level=WARN") {
		t.Errorf("run says:\n%s", &log)
	}

	commit(t, addr, "delays", 1, 4, metadataOf(t, c, "delays", 0))
	config = writeFile(t, "other.yaml", "kafka: {brokers: '"+addr+"'}\ngroup: {id: other}\nroutes: [{topic: delays, target: orders, max_delay: 30d}]\n")
	if out := check(); !strings.HasPrefix(out, "warning: delays: group g ") || !strings.HasSuffix(out, note) {
		t.Errorf("beside a warning:\n%s", out)
	}
}

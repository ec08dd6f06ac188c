package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The exit code tells what was found from what could not be asked, in every command.
func TestExitCodes(t *testing.T) {
	_, addr := cluster(t, map[string]int32{"delays": 1})
	config := writeFile(t, "duewheel.yaml", "group: {id: g}\nroutes:\n  - topic: delays\n    targets: {allow: [orders]}\n")
	const nowhere = "127.0.0.1:1"
	for _, c := range []struct {
		args []string
		want int
	}{
		{[]string{"version"}, 0},
		{[]string{"ls", "-c", config, "-b", addr}, 0},
		{[]string{"topics", "check", "-c", config, "-b", addr}, 1}, // there is no dead letter topic
		{[]string{"get", "0-7-1", "-c", config, "-b", addr}, 1},
		{[]string{"get", "7-0-1", "-c", config, "-b", addr}, 1}, // of that partition, too, it is told that there is none
		{[]string{"get", "x", "-p", "7", "-c", config, "-b", addr}, 2},
		{[]string{"topics", "check", "-b", addr}, 2},
		{[]string{"topics", "check", "-c", config, "--nothing"}, 2},
		{[]string{"topics", "check", "-c", "nothing.yaml"}, 2},
		{[]string{"topics", "check", "-c", config, "-b", nowhere}, 2},
		{[]string{"explain", "-H", "delay-for=5 minutes"}, 1},
		{[]string{"explain", "--nothing"}, 2},
		{[]string{"nothing"}, 2},
		{[]string{"run", "-c", config, "-X", "lanes=-1"}, 2},
		{[]string{"cancel", "nothing", "-c", config}, 2},
		{[]string{"checkpoints", "reset", "-b", addr}, 2},
	} {
		out, stderr, err := both(t, c.args...)
		if exitCode(err) != c.want {
			t.Errorf("%v: exit code %d (%v), want %d; printed %q and %q", c.args, exitCode(err), err, c.want, out, stderr)
		}
		if slices.Contains(c.args, nowhere) && (err == nil || !strings.Contains(err.Error(), nowhere)) {
			t.Errorf("%v: it did not come to ask a broker: %v", c.args, err)
		}
	}
}

// What could not be asked may have what was not found elsewhere: then it cannot be told whether that is there.
func TestExitCodeOfBoth(t *testing.T) {
	unknown, trouble := findings{errors.New("unknown")}, errors.New("no leader")
	for name, test := range map[string]struct {
		err  error
		want int
	}{
		"found":                  {fmt.Errorf("delays: %w", unknown), 1},
		"found twice":            {joinLines(fmt.Errorf("delays: %w", unknown), unknown), 1},
		"shown":                  {errShown, 1},
		"not asked":              {joinLines(trouble, trouble), 2},
		"found, and not asked":   {joinLines(unknown, trouble), 2},
		"not asked, and found":   {joinLines(trouble, fmt.Errorf("delays: %w", unknown)), 2},
		"found for some reasons": {findings{fmt.Errorf("%w: %w", trouble, trouble)}, 1},
		"found, and its reason":  {fmt.Errorf("%w: %w", unknown, trouble), 1},
	} {
		if got := exitCode(test.err); got != test.want {
			t.Errorf("%s: %d, want %d", name, got, test.want)
		}
	}
}

// A handle does not say in which topic. It is unknown where no topic has it, and where one cannot be asked it is not known whether it is.
func TestExitCodeOfUnknownHandles(t *testing.T) {
	c, addr := cluster(t, map[string]int32{"delays": 1, "reminders": 1, "orders": 1})
	config := writeFile(t, "duewheel.yaml", "kafka: {brokers: '"+addr+"'}\ngroup: {id: g}\nroutes:\n  - {topic: delays, targets: {allow: [orders]}}\n  - {topic: reminders, targets: {allow: [orders]}}\n")
	get := func(want int, says ...string) {
		t.Helper()
		for _, command := range []string{"get", "deliver-now"} {
			_, _, err := both(t, command, "-c", config, "0-7-1790000000000")
			for _, text := range says {
				if exitCode(err) != want || !strings.Contains(fmt.Sprint(err), text) {
					t.Errorf("%s: exit code %d, want %d: %v, which does not say %q", command, exitCode(err), want, err, text)
				}
			}
			if err != nil && strings.Contains(err.Error(), "choose one of") {
				t.Errorf("of none it asks which: %v", err)
			}
		}
	}
	get(1, "delays: unknown: the log of delays/0 ends at offset 0", "reminders: unknown: the log of reminders/0 ends at offset 0")
	c.ControlKey(int16(kmsg.ListOffsets), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		asked := req.(*kmsg.ListOffsetsRequest)
		if asked.Topics[0].Topic != "reminders" {
			return nil, nil, false
		}
		resp := req.ResponseKind().(*kmsg.ListOffsetsResponse)
		for _, t := range asked.Topics {
			for _, p := range t.Partitions {
				resp.Topics = append(resp.Topics, kmsg.ListOffsetsResponseTopic{Topic: t.Topic, Partitions: []kmsg.ListOffsetsResponseTopicPartition{{Partition: p.Partition, ErrorCode: kerr.TopicAuthorizationFailed.Code}}})
			}
		}
		return resp, nil, true
	})
	get(2, "delays: unknown: the log of delays/0 ends at offset 0", "reminders: topic reminders: TOPIC_AUTHORIZATION_FAILED")
}

// Where some partitions cannot be read, what is counted of the others is not said of all.
func TestLookInPart(t *testing.T) {
	c, addr := cluster(t, map[string]int32{"delays": 2})
	fill(t, addr, "delays", 2, 6)
	c.ControlKey(int16(kmsg.Fetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		if req.(*kmsg.FetchRequest).Topics[0].Partitions[0].Partition == 0 {
			return nil, nil, false
		}
		return denyFetch(req), nil, true
	})
	for command, says := range map[string]string{"ls": "6 records are pending in what could be read", "agenda": "6 records pending in what could be read, "} {
		out, _, err := both(t, command, "-b", addr, "-g", "g", "-t", "delays")
		if exitCode(err) != 2 || !strings.Contains(out, says) {
			t.Errorf("%s: exit code %d, printed %q", command, exitCode(err), out)
		}
	}
}

// Ctrl-C ends a command at once, also while a broker is greeted that is frozen.
func TestEndsWhileBrokersAreFrozen(t *testing.T) {
	frozen, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer frozen.Close()
	config := writeFile(t, "duewheel.yaml", "kafka: {brokers: '"+frozen.Addr().String()+"'}\ngroup: {id: g}\nroutes:\n  - {topic: delays, targets: {allow: [orders]}}\n")
	for _, args := range []string{"ls", "agenda", "get x", "cancel x", "deliver-now x", "verify", "topics check", "checkpoints", "dlq ls", "produce --to orders --for 5m -v v"} {
		ctx, cancel := context.WithCancelCause(t.Context())
		var asked, ended time.Time
		go func() {
			if conn, err := frozen.Accept(); err == nil {
				defer conn.Close()
				asked = time.Now()
				cancel(errors.New("signal interrupt"))
				<-t.Context().Done()
			}
		}()
		err := run(ctx, append(strings.Fields(args), "-c", config), strings.NewReader(""), &strings.Builder{}, &strings.Builder{})
		ended = time.Now()
		cancel(nil)
		if took := ended.Sub(asked); took > 3*time.Second || exitCode(err) != 2 || told(ctx, err).Error() != "ended by signal interrupt" {
			t.Errorf("%s: %v, after %v", args, err, took)
		}
	}
}

// Where the first brokers of the configuration are frozen the last is asked, and goes on being asked.
func TestFirstBrokerIsFrozen(t *testing.T) {
	frozen, err := net.Listen("tcp", "127.0.0.1:0") // the system takes connections for it
	if err != nil {
		t.Fatal(err)
	}
	defer frozen.Close()
	_, addr := cluster(t, map[string]int32{"delays": 1})
	fill(t, addr, "delays", 1, 3)
	brokers := strings.Repeat(frozen.Addr().String()+",", 3) + addr
	for range 3 { // the client begins with any of them
		began := time.Now()
		out, _, err := both(t, "ls", "-b", brokers, "-g", "g", "-t", "delays", "-o", "json")
		if took := time.Since(began); err != nil || strings.Count(out, "\n") != 3 || took > 5*time.Second {
			t.Fatalf("printed %q, %v, after %v", out, err, took)
		}
	}
}

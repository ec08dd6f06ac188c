package processor

import (
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/topics"
)

// minMemory is the least that memory.budget may be: the store's smallest cache and memtables, one fetch, and room for a batch.
const minMemory = 32 << 20

// The smallest configuration is one.
func TestConfigDefaults(t *testing.T) {
	c := Config{Client: []kgo.Opt{kgo.SeedBrokers("127.0.0.1:1")}, Group: "g", Routes: []topics.Route{testRoute(true)}}
	if _, err := New(c); err != nil {
		t.Fatal(err)
	}
	d := c.withDefaults()
	equal(t, "guarantee", d.Guarantee, ExactlyOnce)
	equal(t, "commit interval", d.CommitInterval, time.Second)
	if d.Lanes < 1 || d.Lanes > 4 || d.Logger == nil || d.Now == nil || d.FS == nil {
		t.Errorf("got %+v", d)
	}
	c.Guarantee = AtLeastOnce
	equal(t, "commit interval of at_least_once", c.withDefaults().CommitInterval, 250*time.Millisecond)
	if a, b := c.withDefaults().Instance, c.withDefaults().Instance; a == "" || a == b {
		t.Errorf("two processes are called %q and %q", a, b)
	}
}

// Everything that is wrong is said at once.
func TestConfigProblems(t *testing.T) {
	_, err := New(Config{
		Group: "a b", Guarantee: "twice", Protocol: "none", Lanes: 65, MemoryBudget: 1,
		SessionTimeout: 10 * time.Millisecond, HeartbeatInterval: time.Millisecond, TransactionTimeout: time.Millisecond,
		NearWindow: 1, CommitInterval: 1, TurnTimeout: 1, ShutdownTimeout: 1, RetryBackoff: 1, UnknownTargetAfter: 1, BatchRecords: -1,
		Routes: []topics.Route{testRoute(true), testRoute(true), {Topic: "no topic", DeadLetter: ""}},
	})
	if err == nil {
		t.Fatal("nothing is wrong")
	}
	for _, want := range []string{
		"brokers are missing", `group.id is "a b"`, `guarantee is "twice"`, `group.protocol is "none"`, "lanes is 65", "memory.budget is 1 bytes",
		"group.session_timeout is 10ms: 100ms to 24d", "group.heartbeat_interval is 1ms: 10ms to 24d", "transaction_timeout is 1ms: 1s to 24d", "near_window is 1ns",
		"commit_interval is 1ns", "turn_timeout is 1ns", "shutdown_timeout is 1ns", "retry_backoff is 1ns", "unknown_target_after is 1ns", "batch.records is -1", `"requests" is given twice`, `"no topic"`, `dead_letter ""`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("not a word of %s in:\n%v", want, err)
		}
	}
	for _, c := range []struct {
		name string
		set  func(*Config)
		want string
	}{
		{"no group", func(c *Config) { c.Group = "" }, "group.id is empty"},
		{"no identity", func(c *Config) { c.Identity = "a b" }, `group.identity is "a b"`},
		{"no routes", func(c *Config) { c.Routes = nil }, "no routes"},
		{"heartbeats too seldom", func(c *Config) { c.HeartbeatInterval = 5 * time.Second }, "at most a third of group.session_timeout, 10s"},
		{"a turn that outlives its transaction", func(c *Config) { c.TurnTimeout = time.Minute }, "below transaction_timeout, 30s"},
		{"a target that is a delay topic", func(c *Config) { c.Routes[0].Target = testTopic }, "the delay topic of route"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := Config{Client: []kgo.Opt{kgo.SeedBrokers("127.0.0.1:1")}, Group: "g", Routes: []topics.Route{testRoute(true)}}
			c.set(&cfg)
			if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v, want one about: %s", err, c.want)
			}
		})
	}
}

package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Another group with a checkpoint on a delay topic delivers the same records: `topics check` says so,
// and so does `run`. Offsets of others, of the same group or of an earlier topic mean nothing.
func TestOtherGroups(t *testing.T) {
	c, addr := cluster(t, map[string]int32{"earlier": 1, "orders": 1})
	const warning = "group g (Empty) has checkpoints on 2 partitions of it, too"
	config := func(group string) string {
		return writeFile(t, "duewheel.yaml", "kafka: {brokers: '"+addr+"'}\ngroup: {id: "+group+"}\nroutes: [{topic: delays, target: orders}]\n")
	}
	check := func(group string) string {
		t.Helper()
		out, err := command(t, "", "topics", "check", "-c", config(group))
		if err != nil {
			t.Errorf("group %s: %v", group, err)
		}
		return out
	}
	if _, err := command(t, "", "topics", "create", "-c", config("mine"), "--partitions", "3"); err != nil {
		t.Fatal(err)
	}
	commit(t, addr, "delays", 0, 4, "")
	commit(t, addr, "delays", 1, 4, metadataOf(t, c, "earlier", 0))
	if out := check("mine"); strings.Contains(out, "has checkpoints") {
		t.Errorf("offsets that are no checkpoints of this topic:\n%s", out)
	}
	commit(t, addr, "delays", 1, 4, metadataOf(t, c, "delays", 0))
	commit(t, addr, "delays", 2, 4, metadataOf(t, c, "delays", 0))
	if out := check("mine"); !strings.Contains(out, "warning: delays: "+warning) || !strings.Contains(out, `mend: if it is not meant: stop it, and kafka-consumer-groups.sh --delete --group "g"`) {
		t.Errorf("check does not tell of the other group:\n%s", out)
	}
	if out := check("g"); strings.Contains(out, "has checkpoints") {
		t.Errorf("a group is warned of itself:\n%s", out)
	}

	var log bytes.Buffer
	s, err := (&flags{file: config("mine")}).load()
	opts, clientErr := s.clientOpts()
	if err != nil || clientErr != nil {
		t.Fatal(err, clientErr)
	}
	warnOfTopics(t.Context(), s, opts, s.logger(&log)) // as run does
	if !strings.Contains(log.String(), warning) {
		t.Errorf("run does not tell of the other group:\n%s", &log)
	}
}

// A topic that we may not describe is a finding of its own, and does not keep `topics check` from what else there is; other commands say which
// right to ask for.
func TestCommandsWithoutRights(t *testing.T) {
	all := kfake.ACL{Resource: kmsg.ACLResourceTypeTopic, Name: "seen", Pattern: kmsg.ACLResourcePatternTypePrefixed, Operation: kmsg.ACLOperationAll, Allow: true}
	group := kfake.ACL{Resource: kmsg.ACLResourceTypeGroup, Name: "g", Pattern: kmsg.ACLResourcePatternTypeLiteral, Operation: kmsg.ACLOperationAll, Allow: true}
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.EnableSASL(), kfake.EnableACLs(), kfake.Superuser("PLAIN", "root", "root"), kfake.User("PLAIN", "wheel", "wheel", all, group))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	config := writeFile(t, "duewheel.yaml", "kafka: {brokers: '"+c.ListenAddrs()[0]+"'}\ngroup: {id: g}\nroutes: [{topic: unseen, target: seen.orders}, {topic: seen, target: seen.orders}]\n")
	as := func(name string, args ...string) (string, error) {
		out, _, err := both(t, append(args, "-c", config, "-X", "security.protocol=SASL_PLAINTEXT", "-X", "sasl.mechanism=PLAIN", "-X", "sasl.username="+name, "-X", "sasl.password="+name)...)
		return out, err
	}
	if _, err := as("root", "topics", "create"); err != nil {
		t.Fatal(err)
	}
	out, err := as("wheel", "topics", "check")
	if err == nil || !strings.Contains(out, "error: unseen: TOPIC_AUTHORIZATION_FAILED") || !strings.Contains(out, "seen.orders: it does not exist") {
		t.Errorf("printed %q, %v", out, err)
	}
	for _, test := range []struct{ args, want string }{
		{"produce -t unseen --for 1h -v x --no-check", "ask for the right to Write it (kafka-acls.sh --add --operation Write "},
		{"cancel -t unseen a", "ask for the right to Write it (kafka-acls.sh --add --operation Write "},
		{"checkpoints -t unseen", "ask for the right to Describe unseen (kafka-acls.sh --add --operation Describe "},
		{"dlq ls -t unseen.dead", "ask for the right to Read unseen.dead (kafka-acls.sh --add --operation Read "},
		{"ls -t unseen", "ask for the right to Read that topic (kafka-acls.sh --add --operation Read "},
	} {
		if out, err := as("wheel", strings.Fields(test.args)...); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: printed %q, %v; want %s", test.args, out, err, test.want)
		}
	}
}

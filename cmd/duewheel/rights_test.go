package main

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/duewheel/duewheel/topics"
)

// What is to be asked for is a command that can be typed as it is, however many topics there are.
func TestAskForManyTopics(t *testing.T) {
	got := askFor("Read", kerr.TopicAuthorizationFailed, "orders", "bills").Error()
	if want := ": ask for the right to Read orders, bills (kafka-acls.sh --add --operation Read --topic orders --topic bills)"; !strings.HasSuffix(got, want) {
		t.Errorf("got %s", got)
	}
}

// allowed is a cluster with rights, at which the user wheel has some.
func allowed(t *testing.T, acls ...kfake.ACL) (c *kfake.Cluster, as func(name string) []string) {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.EnableSASL(), kfake.EnableACLs(), kfake.Superuser("PLAIN", "root", "root"), kfake.User("PLAIN", "wheel", "wheel", acls...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	config := writeFile(t, "duewheel.yaml", "kafka: {brokers: '"+c.ListenAddrs()[0]+"'}\ngroup: {id: g}\nroutes: [{topic: delays, target: orders}]\n")
	return c, func(name string) []string {
		return []string{"-c", config, "-X", "security.protocol=SASL_PLAINTEXT", "-X", "sasl.mechanism=PLAIN", "-X", "sasl.username=" + name, "-X", "sasl.password=" + name}
	}
}

func onTopic(name string, op kmsg.ACLOperation) kfake.ACL {
	return kfake.ACL{Resource: kmsg.ACLResourceTypeTopic, Name: name, Pattern: kmsg.ACLResourcePatternTypeLiteral, Operation: op, Allow: true}
}

// Who may read dead letters, and not write the delay topic that they are of, is told what to ask for before anything is replayed.
func TestReplayWithoutTheRightToWrite(t *testing.T) {
	c, as := allowed(t, onTopic("delays.dead", kmsg.ACLOperationRead))
	if out, _, err := both(t, append([]string{"topics", "create"}, as("root")...)...); err != nil {
		t.Fatal(out, err)
	}
	root, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.SASL(plain.Auth{User: "root", Pass: "root"}.AsMechanism()))
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if err := root.ProduceSync(t.Context(), dead{in: "delays.dead", of: "delays", at: noon, code: topics.CodeNoDue}.record()).FirstErr(); err != nil {
		t.Fatal(err)
	}
	const want = "ask for the right to Write delays (kafka-acls.sh --add --operation Write --topic delays)"
	if out, _, err := both(t, append([]string{"dlq", "replay", "--yes"}, as("wheel")...)...); err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("printed %q, %v", out, err)
	}
}

// What was made and may not be described is told as it was asked for.
func TestCreateWithoutTheRightToDescribe(t *testing.T) {
	_, as := allowed(t, onTopic("delays", kmsg.ACLOperationCreate))
	out, _, err := both(t, append([]string{"topics", "create", "--partitions", "3"}, as("wheel")...)...)
	if err == nil || !strings.HasPrefix(out, "delays created: 3 partitions, 1 replica, ") {
		t.Errorf("printed %q, %v", out, err)
	}
}

// Who may not look at a group, or not change it, is told what to ask for.
func TestGroupWithoutRights(t *testing.T) {
	describe := kfake.ACL{Resource: kmsg.ACLResourceTypeGroup, Name: "g", Pattern: kmsg.ACLResourcePatternTypeLiteral, Operation: kmsg.ACLOperationDescribe, Allow: true}
	for _, test := range []struct {
		args string
		acls []kfake.ACL
		want string
	}{
		{"leave host-1", nil, "ask for the right to Describe the group g (kafka-acls.sh --add --operation Describe --group g)"},
		{"checkpoints reset -t delays --to-beginning --force", nil, "ask for the right to Describe the group g (kafka-acls.sh --add --operation Describe --group g)"},
		{"checkpoints reset -t delays --to-beginning --force", []kfake.ACL{describe}, "ask for the right to Read the group g (kafka-acls.sh --add --operation Read --group g)"},
	} {
		_, as := allowed(t, append(test.acls, onTopic("delays", kmsg.ACLOperationRead))...)
		if out, _, err := both(t, append([]string{"topics", "create"}, as("root")...)...); err != nil {
			t.Fatal(out, err)
		}
		if out, _, err := both(t, append(strings.Fields(test.args), as("wheel")...)...); err == nil || !strings.HasSuffix(err.Error(), test.want) {
			t.Errorf("%s: printed %q, %v", test.args, out, err)
		}
	}
}

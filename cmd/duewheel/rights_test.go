package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/duewheel/duewheel/state"
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

// Who gives a group another name is told of every right that is missing before anything is moved, or may run it again. What brokers do not tell is not taken for nothing.
func TestMoveWithoutRights(t *testing.T) {
	on := func(of kmsg.ACLResourceType, name string, op kmsg.ACLOperation) kfake.ACL {
		return kfake.ACL{Resource: of, Name: name, Pattern: kmsg.ACLResourcePatternTypeLiteral, Operation: op, Allow: true}
	}
	describing := []kfake.ACL{on(kmsg.ACLResourceTypeGroup, "former", kmsg.ACLOperationDescribe), on(kmsg.ACLResourceTypeGroup, "g", kmsg.ACLOperationDescribe)}
	committing := append(describing[:2:2], on(kmsg.ACLResourceTypeGroup, "former", kmsg.ACLOperationRead), on(kmsg.ACLResourceTypeGroup, "g", kmsg.ACLOperationRead))
	seeing := append(committing[:4:4], onTopic("delays", kmsg.ACLOperationDescribe))
	for _, test := range []struct {
		name, want string
		acls       []kfake.ACL
	}{
		{"none", "ask for the right to Describe the group former (kafka-acls.sh --add --operation Describe --group former)", nil},
		{"to commit for the former group", "ask for the right to Read the group former (kafka-acls.sh --add --operation Read --group former)", describing},
		{"to commit for the group", "ask for the right to Read the group g (kafka-acls.sh --add --operation Read --group g)", append(describing[:2:2], committing[2], onTopic("delays", kmsg.ACLOperationRead))},
		{"to see the topic of a route", "ask for the right to Describe delays (kafka-acls.sh --add --operation Describe --topic delays)", committing},
		{"to commit for the topic", "ask for the right to Read delays (kafka-acls.sh --add --operation Read --topic delays)", seeing},
		{"to end what is open", "ask for the right to Write transactional ids that begin with former- (kafka-acls.sh --add --operation Write --resource-pattern-type prefixed --transactional-id former-)",
			append(seeing[:5:5], onTopic("delays", kmsg.ACLOperationRead))},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, as := allowed(t, test.acls...)
			root, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.SASL(plain.Auth{User: "root", Pass: "root"}.AsMechanism()))
			if err != nil {
				t.Fatal(err)
			}
			defer root.Close()
			adm, offsets := kadm.NewClient(root), kadm.Offsets{}
			if _, err := adm.CreateTopic(t.Context(), 1, 1, nil, "delays"); err != nil {
				t.Fatal(err)
			}
			id := c.TopicInfo("delays").TopicID
			metadata, err := state.Checkpoint{TopicID: [4]byte(id[:4]), Offset: 4, Writer: "former-0@abc"}.Metadata()
			if err != nil {
				t.Fatal(err)
			}
			offsets.Add(kadm.Offset{Topic: "delays", At: 4, LeaderEpoch: -1, Metadata: metadata})
			if err := adm.CommitAllOffsets(t.Context(), "former", offsets); err != nil {
				t.Fatal(err)
			}
			switch test.name {
			case "to end what is open":
				heldOpen(c, "former", 0, func() bool { return true })
			case "to commit for the topic": // the fake says that it does not know it
				refuseCommit(c, "g", kerr.TopicAuthorizationFailed)
			}
			began := time.Now()
			out, _, err := both(t, append([]string{"checkpoints", "move", "--from", "former"}, as("wheel")...)...)
			if err == nil || !strings.HasSuffix(err.Error(), test.want) || strings.Count(err.Error(), "ask for") != 1 || time.Since(began) > settlingPatience/2 {
				t.Errorf("printed %q, %v", out, err)
			}
			got, err := adm.FetchOffsets(t.Context(), "g")
			if n := len(got.Offsets()); n > 0 || err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
				t.Errorf("the group has %d, %v", n, err)
			}
		})
	}
}

// Who may describe transactional ids, and not write them, is told so by `topics check`: no transaction can begin.
func TestCheckOfIDsThatMayOnlyBeDescribed(t *testing.T) {
	for _, test := range []struct {
		may   kmsg.ACLOperation
		wants int
	}{{kmsg.ACLOperationDescribe, 1}, {kmsg.ACLOperationWrite, 0}} {
		ids := kfake.ACL{Resource: kmsg.ACLResourceTypeTransactionalId, Name: "g-", Pattern: kmsg.ACLResourcePatternTypePrefixed, Operation: test.may, Allow: true}
		group := kfake.ACL{Resource: kmsg.ACLResourceTypeGroup, Name: "g", Pattern: kmsg.ACLResourcePatternTypeLiteral, Operation: kmsg.ACLOperationRead, Allow: true}
		_, as := allowed(t, ids, group)
		out, _, err := both(t, append([]string{"topics", "check"}, as("wheel")...)...)
		if err == nil || strings.Count(out, "error: duewheel may not write transactional ids that begin with g-\n") != test.wants {
			t.Errorf("with the right to %v: printed %q, %v", test.may, out, err)
		}
	}
}

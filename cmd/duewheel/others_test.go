package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/duewheel/duewheel/state"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"
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
	const reads = "warning: delays: group g (Empty) has committed offsets of it\n"
	if out := check("mine"); !strings.Contains(out, reads) || !strings.Contains(out, `mend: where that is over: kafka-consumer-groups.sh --delete --group "g"; else set trim: false`) {
		t.Errorf("check does not tell what keeps the topic from being trimmed:\n%s", out)
	}
	untrimmed := writeFile(t, "untrimmed.yaml", "kafka: {brokers: '"+addr+"'}\ngroup: {id: mine}\nroutes: [{topic: delays, target: orders, trim: false}]\n")
	if out, err := command(t, "", "topics", "check", "-c", untrimmed); err != nil || strings.Contains(out, reads) {
		t.Errorf("check tells what keeps a topic from being trimmed that is not trimmed: %v\n%s", err, out)
	}
	commit(t, addr, "delays", 1, 4, metadataOf(t, c, "delays", 0))
	commit(t, addr, "delays", 2, 4, metadataOf(t, c, "delays", 0))
	if out := check("mine"); !strings.Contains(out, "warning: delays: "+warning) || !strings.Contains(out, `mend: if it is not meant: stop it, and kafka-consumer-groups.sh --delete --group "g"`) {
		t.Errorf("check does not tell of the other group:\n%s", out)
	}
	if out, err := command(t, "", "topics", "check", "-c", config("mine, identity: g")); err == nil || !strings.Contains(out, "error: delays: group g (Empty) has checkpoints on 2 partitions of it, and the same group.identity") ||
		!strings.Contains(out, `duewheel checkpoints move --from "g"`) {
		t.Errorf("check does not tell that the checkpoints were not moved: %v\n%s", err, out)
	}
	id := c.TopicInfo("delays").TopicID
	moved, err := state.Checkpoint{TopicID: [4]byte(id[:4]), Offset: 4, Identity: "mine"}.Metadata()
	if err != nil {
		t.Fatal(err)
	}
	commit(t, addr, "delays", 1, 4, moved) // mine was started again, and g is in its place
	if out, err := command(t, "", "topics", "check", "-c", config("mine")); err == nil || !strings.Contains(out, "error: delays: group g (Empty) has checkpoints on 1 partition of it, and the same group.identity") {
		t.Errorf("check does not tell that the checkpoints were moved: %v\n%s", err, out)
	}
	commit(t, addr, "delays", 1, 4, metadataOf(t, c, "delays", 0))
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

const noGroup = "ask for the right to Describe that group (kafka-acls.sh --add --operation Describe --group g)"

// A topic that we may not describe is a finding of its own, and does not keep `topics check` from what else there is; other commands say which
// right to ask for.
func TestCommandsWithoutRights(t *testing.T) {
	all := kfake.ACL{Resource: kmsg.ACLResourceTypeTopic, Name: "seen", Pattern: kmsg.ACLResourcePatternTypePrefixed, Operation: kmsg.ACLOperationAll, Allow: true}
	read := kfake.ACL{Resource: kmsg.ACLResourceTypeTopic, Name: "seen", Pattern: kmsg.ACLResourcePatternTypePrefixed, Operation: kmsg.ACLOperationRead, Allow: true}
	group := kfake.ACL{Resource: kmsg.ACLResourceTypeGroup, Name: "g", Pattern: kmsg.ACLResourcePatternTypeLiteral, Operation: kmsg.ACLOperationAll, Allow: true}
	ids := kfake.ACL{Resource: kmsg.ACLResourceTypeTransactionalId, Name: "g-", Pattern: kmsg.ACLResourcePatternTypePrefixed, Operation: kmsg.ACLOperationWrite, Allow: true}
	cluster := kfake.ACL{Resource: kmsg.ACLResourceTypeCluster, Name: "kafka-cluster", Pattern: kmsg.ACLResourcePatternTypeLiteral, Operation: kmsg.ACLOperationDescribe, Allow: true}
	groups := kfake.ACL{Resource: kmsg.ACLResourceTypeGroup, Name: "*", Pattern: kmsg.ACLResourcePatternTypeLiteral, Operation: kmsg.ACLOperationDescribe, Allow: true}
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.EnableSASL(), kfake.EnableACLs(), kfake.Superuser("PLAIN", "root", "root"), kfake.User("PLAIN", "wheel", "wheel", all, group, ids, cluster, groups),
		kfake.User("PLAIN", "tenant", "tenant", all, group, ids),
		kfake.User("PLAIN", "reader", "reader", read), kfake.User("PLAIN", "other", "other", read, group))
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
	if err == nil || !strings.Contains(out, "error: unseen: duewheel may not describe it") || !strings.Contains(out, "seen.orders: it does not exist") {
		t.Errorf("printed %q, %v", out, err)
	}
	if strings.Contains(out, "transactional") || strings.Contains(out, "group") {
		t.Errorf("printed %q with all rights to group and transactional ids", out)
	}
	// What other groups read may be hidden: a topic that would be trimmed is not.
	var o kadm.Offsets
	o.AddOffset("seen", 0, 0, -1)
	root, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.SASL(plain.Auth{User: "root", Pass: "root"}.AsMechanism()))
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if err := kadm.NewClient(root).CommitAllOffsets(t.Context(), "other", o); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		user, args string
		want       string
	}{
		{"tenant", "", "warning: duewheel may not see what all groups read: brokers list only those groups that this user may describe\n"},
		{"tenant", "", ", so seen is not, and grows, unless its route says trim: true\n    mend: kafka-acls.sh --bootstrap-server " + c.ListenAddrs()[0] + " --add --allow-principal User:<name> --operation Describe --cluster --group '*'\n"},
		{"tenant", "-X routes.1.trim=true", "note: duewheel may not see what all groups read: "},
		{"wheel", "-X routes.1.trim=true", "seen.orders: it does not exist"},
	} {
		out, err := as(test.user, append([]string{"topics", "check"}, strings.Fields(test.args)...)...)
		if err == nil || strings.Count(out, test.want) != 1 {
			t.Errorf("%s %s: printed %q, %v; want once %q", test.user, test.args, out, err, test.want)
		}
	}
	const noIDs = "duewheel may not write transactional ids that begin with g-\n    why:  "
	for _, test := range []struct {
		args []string
		want []string
	}{
		{nil, []string{
			"error: duewheel may not read the group g\n    why:  no replica can join it, so nothing is delivered\n    mend: kafka-acls.sh --bootstrap-server " + c.ListenAddrs()[0] + " --add --allow-principal User:<name> --operation Read --group g\n",
			"error: " + noIDs + "no transaction can begin, so nothing is delivered\n    mend: kafka-acls.sh --bootstrap-server " + c.ListenAddrs()[0] + " --add --allow-principal User:<name> --operation Write --resource-pattern-type prefixed --transactional-id g-\n",
		}},
		{[]string{"-X", "guarantee=at_least_once"}, []string{"warning: " + noIDs + "brokers do not tell what time it is"}},
	} {
		out, err := as("reader", append([]string{"topics", "check"}, test.args...)...)
		for _, want := range test.want {
			if err == nil || strings.Count(out, want) != 1 {
				t.Errorf("%v: printed %q, %v; want once %q", test.args, out, err, want)
			}
		}
	}
	for _, test := range []struct{ args, want string }{
		{"ls -t seen", noGroup}, {"agenda -t seen", noGroup}, {"get -t seen a", noGroup}, {"verify --route seen", noGroup}, {"checkpoints", noGroup},
	} {
		out, err := as("reader", strings.Fields(test.args)...)
		if err == nil || strings.Count(err.Error(), test.want) != 1 {
			t.Errorf("%s: printed %q, %v; want once %s", test.args, out, err, test.want)
		}
	}
	// Who may write nothing gets no id to produce with.
	for _, args := range []string{"cancel -t seen a", "produce -t seen --for 1h -v x --no-check"} {
		if out, err := as("other", strings.Fields(args)...); err == nil || !strings.Contains(err.Error(), "ask for the right to Write seen (kafka-acls.sh --add --operation Write --topic seen)") {
			t.Errorf("%s: printed %q, %v", args, out, err)
		}
	}
	for _, test := range []struct{ args, want string }{
		{"produce -t unseen --for 1h -v x --no-check", "ask for the right to Write unseen (kafka-acls.sh --add --operation Write --topic unseen)"},
		{"cancel -t unseen a", "ask for the right to Write unseen (kafka-acls.sh --add --operation Write --topic unseen)"},
		{"checkpoints -t unseen", "ask for the right to Describe unseen (kafka-acls.sh --add --operation Describe "},
		{"dlq ls -t unseen.dead", "ask for the right to Read unseen.dead (kafka-acls.sh --add --operation Read "},
		{"verify", "ask for the right to Read unseen, unseen.dead (kafka-acls.sh --add --operation Read --topic unseen --topic unseen.dead)"},
		{"verify --route unseen", "ask for the right to Read unseen (kafka-acls.sh --add --operation Read --topic unseen)"},
		{"ls -t unseen,seen", "ask for the right to Read unseen (kafka-acls.sh --add --operation Read --topic unseen)"},
		{"ls -t unseen", "topic unseen: TOPIC_AUTHORIZATION_FAILED: Not authorized to access topics: [Topic authorization failed.]: ask for the right to Read unseen (kafka-acls.sh --add --operation Read --topic unseen)"},
	} {
		if out, err := as("wheel", strings.Fields(test.args)...); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: printed %q, %v; want %s", test.args, out, err, test.want)
		}
	}
}

// A delay topic that may be described and not be read hides nothing of the others.
func TestVerifyWithADelayTopicThatMayNotBeRead(t *testing.T) {
	right := func(name string, resource kmsg.ACLResourceType, operation kmsg.ACLOperation) kfake.ACL {
		return kfake.ACL{Resource: resource, Name: name, Pattern: kmsg.ACLResourcePatternTypeLiteral, Operation: operation, Allow: true}
	}
	read := func(name string) kfake.ACL {
		return right(name, kmsg.ACLResourceTypeTopic, kmsg.ACLOperationRead)
	}
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.EnableSASL(), kfake.EnableACLs(), kfake.Superuser("PLAIN", "root", "root"),
		kfake.User("PLAIN", "some", "some", read("delays"), read("delays.dead"), read("orders"), read("later.dead"), right("later", kmsg.ACLResourceTypeTopic, kmsg.ACLOperationDescribe), right("g", kmsg.ACLResourceTypeGroup, kmsg.ACLOperationDescribe)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	for _, name := range []string{"delays", "delays.dead", "orders", "later", "later.dead"} {
		if err := c.CreateTopic(name, 1, nil); err != nil {
			t.Fatal(err)
		}
	}
	config := writeFile(t, "duewheel.yaml", "kafka: {brokers: '"+c.ListenAddrs()[0]+"'}\ngroup: {id: g}\nroutes: [{topic: delays, target: orders}, {topic: later, target: orders, delay: 1h}]\n")
	login := func(name string) []string {
		return []string{"-c", config, "-X", "security.protocol=SASL_PLAINTEXT", "-X", "sasl.mechanism=PLAIN", "-X", "sasl.username=" + name, "-X", "sasl.password=" + name}
	}
	for _, topic := range []string{"delays", "later"} {
		args := []string{"produce", "-t", topic, "-v", "x"}
		if topic == "delays" {
			args = append(args, "--for", "1h")
		}
		if out, _, err := both(t, append(args, login("root")...)...); err != nil {
			t.Fatal(out, err)
		}
	}
	const want = "ask for the right to Read later (kafka-acls.sh --add --operation Read --topic later)"
	out, _, err := both(t, append([]string{"verify"}, login("some")...)...)
	if exitCode(err) != 2 || !strings.Contains(err.Error(), want) || !strings.Contains(out, "1 requested\n") || !strings.Contains(out, "note: later may not be looked at") {
		t.Errorf("exit code %d, %v, printed\n%s", exitCode(err), err, out)
	}
	if out, _, err := both(t, append([]string{"verify", "--route", "later"}, login("some")...)...); exitCode(err) != 2 || !strings.Contains(err.Error(), want) || out != "" {
		t.Errorf("of it alone: exit code %d, %v, printed\n%s", exitCode(err), err, out)
	}
}

// What may not be described is not told apart from what does not exist by those who look for all: verify asks for each, and says that it cannot tell,
// and which right is missing, with what it has seen.
func TestVerifyWithoutSight(t *testing.T) {
	topic := func(name string) kfake.ACL {
		return kfake.ACL{Resource: kmsg.ACLResourceTypeTopic, Name: name, Pattern: kmsg.ACLResourcePatternTypeLiteral, Operation: kmsg.ACLOperationRead, Allow: true}
	}
	group := kfake.ACL{Resource: kmsg.ACLResourceTypeGroup, Name: "g", Pattern: kmsg.ACLResourcePatternTypeLiteral, Operation: kmsg.ACLOperationDescribe, Allow: true}
	missing := kfake.ACL{Resource: kmsg.ACLResourceTypeTopic, Name: "billing.none", Pattern: kmsg.ACLResourcePatternTypePrefixed, Operation: kmsg.ACLOperationDescribe, Allow: true}
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.EnableSASL(), kfake.EnableACLs(), kfake.Superuser("PLAIN", "root", "root"),
		kfake.User("PLAIN", "all", "all", topic("delays"), topic("delays.dead"), topic("orders"), topic("billing.eu"), missing, group),
		kfake.User("PLAIN", "target", "target", topic("delays"), topic("delays.dead"), topic("billing.eu"), missing, group),
		kfake.User("PLAIN", "letters", "letters", topic("delays"), topic("orders"), topic("billing.eu"), missing, group),
		kfake.User("PLAIN", "matched", "matched", topic("delays"), topic("delays.dead"), topic("orders"), missing, group))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	config := writeFile(t, "duewheel.yaml", "kafka: {brokers: '"+c.ListenAddrs()[0]+"'}\ngroup: {id: g}\nroutes: [{topic: delays, targets: {allow: [orders, 'billing.*']}}]\n")
	login := func(name string) []string {
		return []string{"-c", config, "-X", "security.protocol=SASL_PLAINTEXT", "-X", "sasl.mechanism=PLAIN", "-X", "sasl.username=" + name, "-X", "sasl.password=" + name}
	}
	for _, name := range []string{"delays", "delays.dead", "orders", "billing.eu"} {
		if err := c.CreateTopic(name, 1, nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, target := range []string{"orders", "billing.eu", "billing.none"} {
		if out, _, err := both(t, append([]string{"produce", "-t", "delays", "--to", target, "--for", "1h", "-v", "x", "--no-check"}, login("root")...)...); err != nil {
			t.Fatal(out, err)
		}
	}
	root, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.SASL(plain.Auth{User: "root", Pass: "root"}.AsMechanism()))
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	id := c.TopicInfo("delays").TopicID
	var offsets kadm.Offsets
	offsets.Add(kadm.Offset{Topic: "delays", LeaderEpoch: -1, Metadata: fmt.Sprintf("dw1 t=%x w=1:0 l=0 c=0:p1", id[:4])})
	if err := kadm.NewClient(root).CommitAllOffsets(t.Context(), "g", offsets); err != nil {
		t.Fatal(err)
	}
	if out, _, err := both(t, append([]string{"verify"}, login("all")...)...); err != nil || !strings.Contains(out, "all is well") {
		t.Errorf("with all rights: printed %q, %v", out, err)
	}
	for user, denied := range map[string]string{"target": "orders", "letters": "delays.dead", "matched": "billing.eu"} {
		out, _, err := both(t, append([]string{"verify"}, login(user)...)...)
		want := "ask for the right to Read " + denied + " (kafka-acls.sh --add --operation Read --topic " + denied + ")"
		if exitCode(err) != 2 || !strings.Contains(err.Error(), want) || strings.Contains(out, "all is well") || !strings.Contains(out, "3 requested") {
			t.Errorf("without %s: exit code %d, %v, printed\n%s", denied, exitCode(err), err, out)
		}
		out, _, err = both(t, append([]string{"verify", "-o", "json"}, login(user)...)...)
		if exitCode(err) != 2 || !strings.Contains(out, `"denied":["`+denied+`"]`) {
			t.Errorf("without %s: exit code %d, %v, printed\n%s", denied, exitCode(err), err, out)
		}
	}
}

// Who checks first on a new cluster waits until it has coordinators, of groups and of transactions.
func TestCheckWaitsForACoordinator(t *testing.T) {
	c, addr := cluster(t, map[string]int32{"orders": 1})
	config := writeFile(t, "duewheel.yaml", "kafka: {brokers: '"+addr+"'}\ngroup: {id: g}\nroutes: [{topic: delays, target: orders}]\n")
	if _, err := command(t, "", "topics", "create", "-c", config); err != nil {
		t.Fatal(err)
	}
	refused := map[int8]int{}
	c.ControlKey(int16(kmsg.FindCoordinator), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		req := kreq.(*kmsg.FindCoordinatorRequest)
		if refused[req.CoordinatorType] == 2 {
			return nil, nil, false
		}
		refused[req.CoordinatorType]++
		resp := req.ResponseKind().(*kmsg.FindCoordinatorResponse)
		resp.ErrorCode = kerr.CoordinatorNotAvailable.Code
		for _, key := range req.CoordinatorKeys {
			one := kmsg.NewFindCoordinatorResponseCoordinator()
			one.Key, one.ErrorCode = key, kerr.CoordinatorNotAvailable.Code
			resp.Coordinators = append(resp.Coordinators, one)
		}
		return resp, nil, true
	})
	if out, err := command(t, "", "topics", "check", "-c", config); err != nil || out != "all topics are as they should be\n" || refused[0] != 2 || refused[1] != 2 {
		t.Errorf("printed %q, %v, when so many were refused by kind: %v", out, err, refused)
	}
}

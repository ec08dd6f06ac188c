package integration

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/duewheel/duewheel/integration/brokers"
)

// lookWithoutRights: who may read the topic and describe the group is told, who may not is told, once, what to ask for.
func lookWithoutRights(t *testing.T, c *brokers.Cluster) {
	s := newTenant(t, c, setting{targets: 2, seed: newSeed(t)})
	user := "User:" + brokers.User
	for _, acl := range []*kadm.ACLBuilder{
		kadm.NewACLs().Topics(s.name).Operations(kadm.OpRead).Allow(user).AllowHosts(),
		kadm.NewACLs().Groups(s.name).Operations(kadm.OpDescribe).Allow(user).AllowHosts(),
		kadm.NewACLs().Groups(s.name + "-other").Operations(kadm.OpDescribe).Allow("User:other").AllowHosts(),
		kadm.NewACLs().Topics(s.targets...).Operations(kadm.OpRead).Allow("User:other").AllowHosts(),
	} {
		acl.ResourcePatternType(kadm.ACLPatternLiteral)
		if created, err := s.admin.CreateACLs(t.Context(), acl); err != nil || created[0].Err != nil || created[len(created)-1].Err != nil {
			t.Fatal(err, created)
		}
	}
	ids := kadm.NewACLs().TransactionalIDs(s.name + "-other-").ResourcePatternType(kadm.ACLPatternPrefixed).Operations(kadm.OpWrite).Allow("User:other").AllowHosts()
	if created, err := s.admin.CreateACLs(t.Context(), ids); err != nil || created[0].Err != nil {
		t.Fatal(err, created)
	}
	o := &lookout{tenant: s}
	r := o.request(1, time.Now().Add(time.Hour).UnixMilli())
	o.produce(r)
	how := s.scram()
	file := filepath.Join(t.TempDir(), "duewheel.yaml")
	if err := os.WriteFile(file, []byte(how.yaml), 0o644); err != nil {
		t.Fatal(err)
	}
	routes := func(file string, topics ...string) string {
		yaml := "routes:\n"
		for _, topic := range topics {
			yaml += fmt.Sprintf("  - topic: %s\n    targets: {allow: [\"%s.target-*\"]}\n", topic, s.name)
		}
		file = filepath.Join(t.TempDir(), file)
		if err := os.WriteFile(file, []byte(yaml), 0o644); err != nil {
			t.Fatal(err)
		}
		return file
	}
	hidden, both := routes("hidden.yaml", s.targets[0]), routes("both.yaml", s.name, s.targets[1])
	unseen := "ask for the right to Read " + s.targets[0] + " (kafka-acls.sh --add --operation Read --topic " + s.targets[0] + ")"
	unseenToo := strings.ReplaceAll(unseen, s.targets[0], s.targets[1])
	noGroup := "ask for the right to Describe that group (kafka-acls.sh --add --operation Describe --group " + s.name + "-other)"
	id := fmt.Sprintf("1-%d-1", r.Offset) // of another due time, so that it is told apart from what cannot be read
	for _, test := range []struct {
		file, group string
		args        []string
		code        int
		want        string
	}{
		{file, s.name, []string{"ls"}, 0, "1 record is pending"},
		{file, s.name, []string{"get", id}, 1, "is due at another time"},
		{file, s.name, []string{"verify"}, 2, unseen}, // the request names a target that may not be looked at
		{file, s.name, []string{"cancel", id}, 2, "ask for the right to Write " + s.name + " "},
		{file, s.name + "-other", []string{"ls"}, 2, noGroup},
		{file, s.name + "-other", []string{"agenda"}, 2, noGroup},
		{file, s.name + "-other", []string{"get", id}, 2, noGroup},
		{file, s.name + "-other", []string{"verify"}, 2, noGroup},
		{file, s.name + "-other", []string{"checkpoints"}, 2, noGroup},
		{hidden, s.name, []string{"ls"}, 2, unseen},
		{hidden, s.name, []string{"agenda"}, 2, unseen},
		{hidden, s.name, []string{"get", id}, 2, unseen},
		{hidden, s.name, []string{"verify"}, 2, unseen},
		{both, s.name, []string{"ls"}, 2, "1 record is pending"}, // and of the other topic is told
		{both, s.name, []string{"ls"}, 2, unseenToo},
		{both, s.name, []string{"agenda"}, 2, "1 record pending"},
		{both, s.name, []string{"get", id}, 2, unseenToo},
		{both, s.name, []string{"checkpoints"}, 2, s.targets[1] + ": TOPIC_AUTHORIZATION_FAILED"},
		{hidden, s.name, []string{"topics", "check"}, 1, s.targets[0] + ": duewheel may not describe it"},
		{file, s.name, []string{"topics", "check"}, 1, "error: duewheel may not read the group " + s.name + "\n"}, // Describe is not enough
		{file, s.name + "-other", []string{"topics", "check"}, 1, "error: duewheel may not read the group " + s.name + "-other\n"},
		{file, s.name + "-other", []string{"topics", "check"}, 1, "error: duewheel may not write transactional ids that begin with " + s.name + "-other-\n"},
	} {
		cmd := exec.CommandContext(t.Context(), buildBinary(t), append(append(test.args, "-c", test.file, "-g", test.group), how.args...)...)
		out, _ := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != test.code || strings.Count(string(out), test.want) != 1 {
			t.Errorf("%v as group %s: exit code %d, and want %d with once %q:\n%s", test.args, test.group, code, test.code, test.want, out)
		}
	}
}

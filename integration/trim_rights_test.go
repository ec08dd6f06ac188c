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
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/integration/brokers"
	"github.com/duewheel/duewheel/integration/load"
)

// trimBesideAnother: two users, each with the rights that the README names, have a group each on one delay topic. Neither sees the group of the other, so the topic is
// not trimmed, and it is said which right is missing. With that the other group is seen, and named; when it is gone, the topic is trimmed.
func trimBesideAnother(t *testing.T, c *brokers.Cluster) {
	s := newTenant(t, c, setting{seed: newSeed(t), deadConfig: map[string]string{"max.message.bytes": "1114124"}}) // as topics create makes it
	user, another, other := "User:"+brokers.User, "User:CN=client", s.name+"-other"
	literal := kadm.ACLPatternLiteral
	for _, principal := range []string{user, another} {
		group := s.name
		if principal == another {
			group = other
		}
		s.allowReplica(principal, group)
	}
	// Everything is allowed to everyone that no ACL names: the cluster has one, too.
	s.allow(kadm.NewACLs().Clusters().ResourcePatternType(kadm.ACLPatternLiteral).Operations(kadm.OpDescribe).Allow(another).AllowHosts())

	var waits kadm.Offsets // as a replica does that has stopped with everything pending
	waits.AddOffset(s.route.Topic, 0, 0, -1)
	tenant, err := kgo.NewClient(c.Opts(brokers.MTLS)...)
	if err != nil {
		t.Fatal(err)
	}
	defer tenant.Close()
	if err := kadm.NewClient(tenant).CommitAllOffsets(t.Context(), other, waits); err != nil {
		t.Fatal(err)
	}
	how, file := s.scram(), filepath.Join(t.TempDir(), "duewheel.yaml")
	if err := os.WriteFile(file, []byte(how.yaml), 0o644); err != nil {
		t.Fatal(err)
	}
	p := s.start(s.replica(func(r *replicaConfig) {
		r.TrimInterval, r.CommitInterval, r.As = time.Second, 100*time.Millisecond, c.Opts(brokers.SASL)
	}))
	s.awaitLive(p, 4)
	s.load(load.Config{Records: 2000, Due: []load.Due{{Weight: 1, To: time.Second}}})
	s.arrive()
	says := func(want string) {
		t.Helper()
		eventually(t, func() string {
			topic := p.Stats().Topics[0]
			if topic.Trimmed > 0 {
				t.Fatalf("%d offsets were deleted that another group may need: %q", topic.Trimmed, topic.Untrimmed)
			}
			if !strings.Contains(topic.Untrimmed, want) {
				return fmt.Sprintf("it says %q, and not %q", topic.Untrimmed, want)
			}
			return ""
		})
	}
	says("--operation Describe --cluster --group '*'")
	checks := func(want string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), buildBinary(t), append([]string{"topics", "check", "-c", file, "-g", s.name}, how.args...)...)
		if out, err := cmd.CombinedOutput(); err != nil || strings.Count(string(out), want) != 1 {
			t.Errorf("topics check: %v, and want once %q:\n%s", err, want, out)
		}
	}
	checks("warning: duewheel may not see what all groups read: brokers list only those groups that this user may describe\n")
	s.allow(kadm.NewACLs().Clusters().ResourcePatternType(literal).Operations(kadm.OpDescribe).Allow(user).AllowHosts())
	checks("warning: duewheel may not see what all groups read: what the groups " + other + " read is not told (GROUP_AUTHORIZATION_FAILED")
	says("what the groups " + other + " read is not told (GROUP_AUTHORIZATION_FAILED")
	s.allow(kadm.NewACLs().Groups("*").ResourcePatternType(literal).Operations(kadm.OpDescribe).Allow(user).AllowHosts())
	says("other groups have committed offsets of it (" + other + ")")
	if starts, err := s.admin.ListStartOffsets(t.Context(), s.route.Topic); err != nil || !startsAtZero(starts) {
		t.Errorf("the log has been cut: %v, %v", starts, err)
	}
	if _, err := s.admin.DeleteGroup(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() string {
		if topic := p.Stats().Topics[0]; topic.Trimmed < 2000 || topic.Untrimmed != "" {
			return fmt.Sprintf("%d offsets were deleted: %q", topic.Trimmed, topic.Untrimmed)
		}
		return ""
	})
	p.stop()
	s.judge()
	// What follows is allowed everything again that it was.
	if _, err := s.admin.DeleteACLs(t.Context(), kadm.NewACLs().Clusters().Groups("*").ResourcePatternType(literal).Operations(kadm.OpDescribe).Allow(user, another).AllowHosts()); err != nil {
		t.Fatal(err)
	}
}

func startsAtZero(starts kadm.ListedOffsets) bool {
	zero := true
	starts.Each(func(o kadm.ListedOffset) { zero = zero && o.Offset == 0 && o.Err == nil })
	return zero
}

// allow gives rights.
func (s *tenant) allow(acl *kadm.ACLBuilder) {
	s.t.Helper()
	created, err := s.admin.CreateACLs(s.t.Context(), acl)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, c := range created {
		if c.Err != nil {
			s.t.Fatal(c.Err)
		}
	}
}

// allowReplica gives a user what the README names for a replica of a group.
func (s *tenant) allowReplica(principal, group string) {
	s.t.Helper()
	literal, prefixed := kadm.ACLPatternLiteral, kadm.ACLPatternPrefixed
	for _, acl := range []*kadm.ACLBuilder{
		kadm.NewACLs().Topics(s.route.Topic).ResourcePatternType(literal).Operations(kadm.OpRead, kadm.OpWrite, kadm.OpDescribe, kadm.OpDescribeConfigs, kadm.OpDelete),
		kadm.NewACLs().Topics(s.route.DeadLetter, s.targets[0]).ResourcePatternType(literal).Operations(kadm.OpWrite, kadm.OpDescribe, kadm.OpDescribeConfigs),
		kadm.NewACLs().Groups(group).ResourcePatternType(literal).Operations(kadm.OpRead),
		kadm.NewACLs().TransactionalIDs(group+"-").ResourcePatternType(prefixed).Operations(kadm.OpWrite, kadm.OpDescribe),
	} {
		s.allow(acl.Allow(principal).AllowHosts())
	}
}

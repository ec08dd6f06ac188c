package integration

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/duewheel/duewheel/processor"
)

// longSession is one that nothing in a test may wait for.
const longSession = time.Minute

// Static members keep their partitions while they are restarted, do not share a name, and are taken out of the group by `duewheel
// leave`, without waiting for the session timeout.
func TestStaticMembers(t *testing.T) {
	t.Parallel()
	for _, protocol := range []processor.Protocol{processor.ProtocolClassic, processor.ProtocolConsumer} {
		t.Run(string(protocol), func(t *testing.T) {
			t.Parallel()
			staticMembers(t, protocol)
		})
	}
}

func staticMembers(t *testing.T, protocol processor.Protocol) {
	s := newTenant(t, shared(t), setting{partitions: 6, targets: 2, seed: newSeed(t)})
	buildBinary(t)
	s.setGroupSession(longSession)
	static := func(instance string, lanes int) *running {
		return s.start(s.replica(func(c *replicaConfig) {
			c.Protocol, c.InstanceID, c.Lanes = protocol, instance, lanes
			c.SessionTimeout, c.HeartbeatInterval, c.StateDir = longSession, 200*time.Millisecond, filepath.Join(s.dir, c.Instance)
		}))
	}
	one, two := static("one", 2), static("two", 1)
	s.awaitLive(one, 4)
	s.awaitLive(two, 2)
	stop := s.keepLoading(soon())
	s.awaitDelivered(500)

	rebalances := one.Stats().Rebalances
	two.stop()
	two = static("two", 1)
	s.awaitLive(two, 2)
	s.awaitDelivered(500)
	if now := one.Stats().Rebalances; now != rebalances {
		t.Errorf("%d rebalances, and %d before the restart of another static member", now, rebalances)
	}

	other := static("two", 1)
	in, out := other, two // the newer one takes the place of the other
	if protocol == processor.ProtocolConsumer {
		in, out = two, other // the replica that is there stays
	}
	s.awaitLive(in, 2)
	s.awaitOutside(out)
	s.awaitDelivered(500)
	in.stop()
	t.Log(s.leaveGroup("two"))
	s.awaitLive(out, 2) // by itself
	if n := s.log.count("not in the group; trying again"); n > 20 {
		t.Errorf("a member that the group did not take has said so %d times", n)
	} else {
		t.Logf("a member that the group did not take has said so %d times", n)
	}

	out.stop()
	s.leaveInVain("group "+s.name+" has no static member of three; it has one-0, one-1, two-0", s.name, "three")
	s.leaveInVain("group nobody's: there is no such group, or it has no members", "nobody's", "two")
	began := time.Now()
	t.Log(s.leaveGroup("two"))
	s.awaitLive(one, 6)
	t.Logf("all partitions live elsewhere %v after `duewheel leave`", time.Since(began).Round(time.Millisecond))
	if took := time.Since(began); took > longSession/2 {
		t.Errorf("that was not at once")
	}
	stop()
	s.arrive()
	one.stop()
	s.judge()
}

// awaitOutside waits until a processor says that it is not in the group, and what to do.
func (s *tenant) awaitOutside(r *running) {
	s.t.Helper()
	eventually(s.t, func() string {
		ready, _ := r.Ready()
		outside := r.Stats().Outside
		if ready || len(outside) != 1 || !strings.Contains(outside[0], processor.ErrInstanceInUse.Error()) {
			return fmt.Sprintf("ready=%v, outside the group: %v", ready, outside)
		}
		return ""
	})
	s.t.Log(r.Stats().Outside)
}

// setGroupSession sets the session timeout that the consumer protocol has for this group.
func (s *tenant) setGroupSession(d time.Duration) {
	s.t.Helper()
	value := fmt.Sprint(d.Milliseconds())
	config := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	config.Name, config.Value = "consumer.session.timeout.ms", &value
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeGroupConfig, s.name
	resource.Configs = append(resource.Configs, config)
	request := kmsg.NewPtrIncrementalAlterConfigsRequest()
	request.Resources = append(request.Resources, resource)
	response, err := request.RequestWith(s.t.Context(), s.client)
	if err != nil {
		s.t.Fatal(err)
	}
	if r := response.Resources[0]; r.ErrorCode != 0 {
		s.t.Fatalf("set the session timeout of the group: error %d %v", r.ErrorCode, r.ErrorMessage)
	}
}

// leaveGroup runs `duewheel leave` and returns what it prints.
func (s *tenant) leaveGroup(instances ...string) string {
	s.t.Helper()
	out, err := s.duewheel(append([]string{"leave", "-g", s.name}, instances...)...)
	if err != nil {
		s.t.Fatalf("duewheel leave: %v\n%s", err, out)
	}
	return out
}

// leaveInVain runs `duewheel leave` for a member that is not there.
func (s *tenant) leaveInVain(want, group, instance string) {
	s.t.Helper()
	if out, err := s.duewheel("leave", "-g", group, instance); err == nil || !strings.Contains(out, want) {
		s.t.Errorf("duewheel leave: %v\n%s\nwant %s", err, out, want)
	}
}

// duewheel runs a command of the program against the tenant's brokers and returns what it prints.
func (s *tenant) duewheel(args ...string) (string, error) {
	s.t.Helper()
	cmd := exec.Command(buildBinary(s.t), append(args, "-b", strings.Join(s.cluster.Addrs(), ","))...)
	cmd.Env = os.Environ()
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

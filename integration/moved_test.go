package integration

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/integration/load"
	"github.com/duewheel/duewheel/processor"
	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
)

// A group that gets the checkpoints of another one goes on where that was killed in the midst of its deliveries: nothing is lost and nothing doubled, of what was
// carried there and has left the topic, too. It does not begin without the name that this bears.
func TestGroupTakesThePlaceOfAnother(t *testing.T) {
	t.Parallel()
	s := newTenant(t, shared(t), setting{partitions: 2, groups: true, seed: newSeed(t)})
	detail, err := s.admin.ListTopics(t.Context(), s.route.Topic)
	if err != nil {
		t.Fatal(err)
	}
	id := detail[s.route.Topic].ID
	p := &predecessor{s.newForger(), topics.NewMark([4]byte(id[:4]), s.name, 0)}
	former := s.spawn(s.replica())

	const carried = 40
	due := time.Now().Add(15 * time.Second).UnixMilli()
	var requests []*kgo.Record
	for i := range int64(carried) {
		requests = append(requests, p.request(due+i))
	}
	for i, r := range requests {
		p.carry(r, due+int64(i))
	}
	low := requests[carried-1].Offset + 1
	eventually(t, func() string {
		got, err := s.admin.FetchOffsets(t.Context(), s.name)
		o, _ := got.Lookup(s.route.Topic, 0)
		if c, unread := state.ParseCheckpoint(o.At, o.LeaderEpoch, o.Metadata); err != nil || unread != nil || c.LowWater < low {
			return fmt.Sprintf("L is %d, and what was carried lies below %d: %v", c.LowWater, low, err)
		}
		return ""
	})
	gone := kadm.Offsets{}
	gone.AddOffset(s.route.Topic, 0, low, -1)
	if deleted, err := s.admin.DeleteRecords(t.Context(), gone); err != nil || deleted.Error() != nil {
		t.Fatal(err, deleted.Error())
	}
	const loaded = 6000
	s.load(load.Config{Records: loaded, Bad: 0.01, Due: []load.Due{{Weight: 1, From: time.Second, To: 8 * time.Second}}})
	s.awaitDelivered(loaded / 4)
	former.Kill()

	as := s.name + "-as"
	s.moveTo(as)
	if out, err := s.duewheel("checkpoints", "move", "--from", s.name, "-g", as); err != nil || !strings.Contains(out, "has given its checkpoints to group "+as+" before\ngroup.identity: "+s.name+"\n") {
		t.Errorf("moved a second time: %v: %s", err, out)
	}
	taking := func(c *replicaConfig) { c.Group = as }
	nameless := s.start(s.replica(taking))
	s.awaitStoppedBy(nameless, processor.ErrOtherIdentity)
	nameless.stop()
	successor := s.start(s.replica(taking, func(c *replicaConfig) { c.Identity = s.name }))
	s.awaitLive(successor, 2)
	s.arrive()
	successor.stop()
	if report := s.judge(); report.Requested != loaded+carried {
		t.Errorf("%d were requested, want %d", report.Requested, loaded+carried)
	}
}

// moveTo gives another group the two checkpoints of this one, as soon as brokers take the member that is gone for dead.
func (s *tenant) moveTo(group string) {
	s.t.Helper()
	eventually(s.t, func() string {
		out, err := s.duewheel("checkpoints", "move", "--from", s.name, "-g", group)
		if err != nil && !strings.Contains(out, "is active") {
			s.t.Fatalf("%v: %s", err, out)
		}
		if err == nil && (strings.Count(out, "goes on from") != 2 || !strings.Contains(out, "group.identity: "+s.name+"\n")) {
			s.t.Errorf("it says %s", out)
		}
		if err != nil {
			return out
		}
		return ""
	})
}

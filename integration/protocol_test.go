package integration

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/duewheel/duewheel/bench/check"
	"github.com/duewheel/duewheel/bench/child"
	"github.com/duewheel/duewheel/integration/load"
	"github.com/duewheel/duewheel/processor"
)

// The broker shares the partitions out (KIP-848): they move when a replica joins, leaves in order, is killed, or is frozen and wakes
// up. The session is the broker's: group.consumer.session.timeout.ms.
func TestConsumerProtocol(t *testing.T) {
	t.Parallel()
	s := newTenant(t, shared(t), setting{partitions: 6, targets: 2, seed: newSeed(t)})
	m := s.newMoves(processor.ProtocolConsumer, processor.ExactlyOnce)
	stop := s.keepLoading(soon())
	m.join()
	m.leave()
	for m.kills < 2 || m.open == 0 && m.kills < 12 {
		m.join()
		m.kill()
	}
	m.join()
	m.freeze()
	m.leave()
	stop()
	s.arrive()
	m.end()
}

// The same when nothing is committed in transactions: an offset commit bears the member's epoch all the same.
func TestConsumerProtocolAtLeastOnce(t *testing.T) {
	t.Parallel()
	s := newTenant(t, shared(t), setting{
		partitions: 6, targets: 2, seed: newSeed(t), check: func(c *check.Config) { c.AllowDoubles = true },
	})
	m := s.newMoves(processor.ProtocolConsumer, processor.AtLeastOnce)
	stop := s.keepLoading(soon())
	for m.kills == 0 || s.watch.Counts().Doubled == 0 && m.kills < 12 {
		m.join()
		m.kill()
	}
	m.join()
	m.freeze()
	stop()
	s.arrive()
	m.end()
}

// A group moves from one protocol to the other, and back, by a rolling restart: replicas of both share the partitions for its length.
func TestChangeProtocol(t *testing.T) {
	t.Parallel()
	s := newTenant(t, shared(t), setting{partitions: 6, targets: 2, seed: newSeed(t)})
	with := func(protocol processor.Protocol) *running {
		return s.start(s.replica(func(c *replicaConfig) {
			c.Protocol, c.Lanes, c.StateDir = protocol, 1, filepath.Join(s.dir, c.Instance)
		}))
	}
	stop := s.keepLoading(soon())
	replicas := []*running{with(processor.ProtocolClassic), with(processor.ProtocolClassic)}
	for _, protocol := range []processor.Protocol{processor.ProtocolConsumer, processor.ProtocolClassic} {
		for i := range replicas {
			replicas[i].stop()
			replicas[i] = with(protocol)
			for _, r := range replicas {
				s.awaitLive(r, 3)
			}
			s.awaitDelivered(300)
		}
		if g := s.group(); g.protocol != protocol {
			t.Errorf("all replicas are %s, and the group is %s", protocol, g.protocol)
		}
		t.Logf("all are %s: %s", protocol, s.watch.Counts().Summary())
	}
	stop()
	s.arrive()
	for _, r := range replicas {
		r.stop()
	}
	s.judge()
}

// moves is a replica of two lanes that stays, and a second one that comes and goes. The first one's Stats tell which partitions it
// has, and when they are live.
type moves struct {
	*tenant
	protocol processor.Protocol
	stays    *running
	comes    *child.Process // nil while it is gone
	number   int
	change   func(*replicaConfig)

	kills, open int
	report      *check.Report
}

// all and some are how many of the 6 partitions the replica of two lanes has, alone and beside another one of one lane.
const (
	all  = 6
	some = 4
)

func (s *tenant) newMoves(protocol processor.Protocol, guarantee processor.Guarantee) *moves {
	m := &moves{tenant: s, protocol: protocol, change: func(c *replicaConfig) { c.Protocol, c.Guarantee = protocol, guarantee }}
	m.stays = s.start(s.replica(m.change))
	s.awaitLive(m.stays, all)
	return m
}

// join starts the second replica and waits until it has its share.
func (m *moves) join() {
	m.t.Helper()
	m.number++
	m.timed("join", some, func() {
		m.comes = m.spawn(m.replica(m.change, func(c *replicaConfig) {
			c.Lanes, c.StateDir = 1, filepath.Join(m.dir, fmt.Sprint(m.number))
		}))
	})
	m.awaitDelivery(m.comes)
	m.awaitMembers(3)
}

// leave stops it in order.
func (m *moves) leave() {
	m.t.Helper()
	m.timed("leave", all, func() { m.tenant.terminate(m.comes) })
}

func (m *moves) kill() {
	m.t.Helper()
	passes(m.t, time.Duration(m.number*37%300)*time.Millisecond)
	m.timed("kill", all, m.comes.Kill)
	m.kills++
	if m.comes.Order.Guarantee != processor.AtLeastOnce && m.hadOpen() {
		m.open++
	}
}

// hadOpen tells whether the other one had to end the transactions of the one that was killed.
func (m *moves) hadOpen() bool {
	return slices.ContainsFunc(m.events.from(0, processor.EventFenced), func(e tale) bool { return strings.Contains(e.Writer, m.comes.Name()) })
}

// freeze stops it until the other one has its partitions, and lets it go on.
func (m *moves) freeze() {
	m.t.Helper()
	m.timed("freeze", all, func() { m.mustDo(m.comes.Freeze) })
	m.awaitDelivered(500)
	m.timed("wake up", some, func() { m.mustDo(m.comes.Thaw) })
	m.awaitMembers(3)
}

func (m *moves) mustDo(do func() error) {
	if err := do(); err != nil {
		m.t.Fatal(err)
	}
}

// timed does something and tells how long it took until so many partitions were live in the replica that stays.
func (m *moves) timed(what string, partitions int, do func()) {
	m.t.Helper()
	began := time.Now()
	do()
	m.awaitLive(m.stays, partitions)
	m.t.Logf("%s: the one that stays has %d live partitions after %v; %s", what, partitions, time.Since(began).Round(time.Millisecond), m.watch.Counts().Summary())
}

// end stops what runs and gives the verdict.
func (m *moves) end() {
	m.t.Helper()
	if g := m.group(); g.protocol != m.protocol {
		m.t.Errorf("the group's protocol is %s", g.protocol)
	}
	stats := m.stays.Stats()
	select {
	case <-m.comes.Exited():
	default:
		m.tenant.terminate(m.comes)
	}
	m.stays.stop()
	m.report = m.judge()
	m.t.Logf("%s: turns of the one that stayed %v, rebalances %d; %d requests, %d of them came again; killed %d times, %d of them inside an open transaction",
		m.protocol, stats.Transactions, stats.Rebalances, m.report.Requested, m.report.Doubled, m.kills, m.open)
	if m.kills > 0 && m.open == 0 && m.report.Doubled == 0 {
		m.t.Errorf("none of %d kills has hit an open transaction, or what followed a checkpoint", m.kills)
	}
}

// soon are requests that are all due within seconds, so that a test need not wait for the last of them.
func soon() load.Config {
	return load.Config{Rate: 800, Due: []load.Due{
		{Weight: 1, From: -time.Minute},
		{Weight: 2, To: time.Second},
		{Weight: 1, From: time.Second, To: 2500 * time.Millisecond},
	}}
}

// group is a group as its coordinator describes it.
type group struct {
	protocol  processor.Protocol
	state     string
	members   int
	instances map[string]string // member ids of static members
}

func (s *tenant) group() group {
	s.t.Helper()
	if described, err := s.admin.DescribeConsumerGroups(s.t.Context(), s.name); err == nil && described[s.name].Err == nil {
		g := described[s.name]
		out := group{protocol: processor.ProtocolConsumer, state: g.State, members: len(g.Members), instances: map[string]string{}}
		for _, m := range g.Members {
			if m.InstanceID != nil {
				out.instances[*m.InstanceID] = m.MemberID
			}
		}
		return out
	}
	described, err := s.admin.DescribeGroups(s.t.Context(), s.name)
	if err != nil {
		s.t.Fatal(err)
	}
	return classicGroup(described[s.name])
}

func classicGroup(g kadm.DescribedGroup) group {
	out := group{protocol: processor.ProtocolClassic, state: g.State, members: len(g.Members), instances: map[string]string{}}
	for _, m := range g.Members {
		if m.InstanceID != nil {
			out.instances[*m.InstanceID] = m.MemberID
		}
	}
	return out
}

// awaitMembers waits until the group is stable with so many members.
func (m *moves) awaitMembers(n int) {
	m.t.Helper()
	eventually(m.t, func() string {
		if g := m.group(); g.state != "Stable" || g.members != n {
			return fmt.Sprintf("group with %d members, not %d, is %s", g.members, n, g.state)
		}
		return ""
	})
}

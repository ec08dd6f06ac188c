package integration

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/duewheel/duewheel/bench/check"
	"github.com/duewheel/duewheel/integration/brokers"
	"github.com/duewheel/duewheel/integration/load"
)

// The targets of targetInTrouble.
const (
	wellTarget    = iota
	downTarget    // on one node only, which is stopped
	partlyTarget  // one of its partitions is
	deletedTarget // while requests for it are pending
	troubleTargets
)

// What three brokers are needed for.
func TestThreeBrokers(t *testing.T) {
	c := threeBrokers(t)
	t.Run("target in trouble", func(t *testing.T) { targetInTrouble(t, c) })
	t.Run("partition away", func(t *testing.T) { partitionAway(t, c) })
	t.Run("log loses its end", func(t *testing.T) { logLosesItsEnd(t, c) })
	t.Run("alone and killed", func(t *testing.T) { aloneAndKilled(t, c) })
	t.Run("end without a leader", func(t *testing.T) { endsWithoutALeader(t, c) })
	t.Run("log loses its end and is trimmed", func(t *testing.T) { logLosesItsEndAndIsTrimmed(t, c) })
}

// The same for what others of them take over. It is as long, so it goes beside that.
func TestThreeBrokersTakeOver(t *testing.T) {
	c := threeBrokers(t)
	t.Run("look", func(t *testing.T) { lookWhileLeadersMove(t, c) })
	t.Run("coordinator killed", func(t *testing.T) { coordinatorKilled(t, c) })
	t.Run("coordinator frozen", func(t *testing.T) { coordinatorFrozen(t, c) })
}

func threeBrokers(t *testing.T) *brokers.Cluster {
	if testing.Short() {
		t.Skip("-short leaves out what needs a Kafka")
	}
	t.Parallel()
	return brokers.Start(t, brokers.Options{Nodes: 3, Faults: true})
}

// A target without a leader and one that is deleted hold up no other target. What was asked of the first arrives when it is back, what was
// asked of the second is dead-lettered.
func targetInTrouble(t *testing.T, c *brokers.Cluster) {
	s := newTenant(t, c, setting{
		targets: troubleTargets, seed: newSeed(t),
		nodes: map[int][]int32{downTarget: {3, 3, 3}, partlyTarget: {1, 2, 3}},
		check: func(c *check.Config) { c.Targets[deletedTarget].MayVanish = true },
	})
	p := s.start(s.replica())
	s.awaitLive(p, 4)
	due := func(from, to time.Duration) []load.Due { return []load.Due{{Weight: 1, From: from, To: to}} }
	s.load(load.Config{Records: 400, Due: due(0, time.Second)})
	s.arrive()

	s.load(load.Config{Records: 300, Targets: s.targets[deletedTarget:], Due: due(6*time.Second, 8*time.Second)})
	if _, err := s.admin.DeleteTopic(t.Context(), s.targets[deletedTarget]); err != nil {
		t.Fatal(err)
	}
	if err := c.Node(3).Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	well := s.load(
		load.Config{Records: 2000, Targets: s.targets[wellTarget:downTarget], Due: due(0, 3*time.Second)},
		load.Config{Records: 500, Targets: s.targets[downTarget:deletedTarget], Due: due(0, 3*time.Second)},
		load.Config{Records: 100, Targets: s.targets[deletedTarget:], Due: due(0, time.Second)},
	)
	if well.Committed != 2600 {
		t.Errorf("%d requests written", well.Committed)
	}
	began := time.Now()
	eventually(t, func() string { return s.wanting(400, 2000) })
	report := s.watch.Report().ByTarget[s.targets[wellTarget]]
	t.Logf("after %v, with a node down: lateness of the target that is well p50 %v, p99 %v, max %v; trouble %v; retried %d",
		time.Since(began).Round(time.Millisecond), report.Quantile(.5), report.Quantile(.99), report.Quantile(1), trouble(p), p.Stats().Retried)
	if !slices.Contains(trouble(p), s.targets[downTarget]) || p.Stats().Retried == 0 {
		t.Error("the target without a leader is not in trouble")
	}
	if err := c.Node(3).Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.arrive()
	t.Logf("turns %v, retried %d, dead-lettered %v", p.Stats().Transactions, p.Stats().Retried, p.Stats().DeadLetters)
	p.stop()
	if r := s.judge(); r.DeadLettered != 400 {
		t.Errorf("%d dead-lettered, and 400 were for the deleted target", r.DeadLettered)
	}
}

// A partition of the delay topic that has no leader when a processor starts does not keep the others from going on.
func partitionAway(t *testing.T, c *brokers.Cluster) {
	s := newTenant(t, c, setting{seed: newSeed(t), delayNodes: []int32{1, 2, 3}})
	s.load(load.Config{Records: 1000, Due: []load.Due{{Weight: 1, To: time.Second}}})
	there := int64(0)
	for _, partition := range []int32{0, 1} {
		there += s.end(partition)
	}
	if err := c.Node(3).Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.lookWithoutPartition(there, 2)
	p := s.start(s.replica())
	s.awaitDelivered(there)
	eventually(t, func() string {
		if _, away := p.Ready(); len(away) != 1 || away[0].Partition != 2 {
			return fmt.Sprintf("not live, and not just the partition without a leader: %v", away)
		}
		return ""
	})
	t.Logf("with a node down: %s", s.watch.Counts().Summary())
	if err := c.Node(3).Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.arrive()
	p.stop()
	s.judge()
}

// configured writes a configuration for commands.
func (s *tenant) configured() (file string) {
	s.t.Helper()
	file = filepath.Join(s.t.TempDir(), "duewheel.yaml")
	yaml := fmt.Sprintf("kafka: {brokers: [%s]}\ngroup: {id: %s}\nroutes:\n  - {topic: %[2]s, dead_letter: %s, targets: {allow: [\"%[2]s.target-*\"]}}\n",
		strings.Join(s.cluster.Addrs(), ", "), s.name, s.route.DeadLetter)
	if err := os.WriteFile(file, []byte(yaml), 0o644); err != nil {
		s.t.Fatal(err)
	}
	return file
}

// lookWithoutPartition: commands say which partition has no leader, and what the others have.
func (s *tenant) lookWithoutPartition(there int64, away int32) {
	s.t.Helper()
	file := s.configured()
	without := fmt.Sprintf("%s/%d: ", s.name, away)
	pending := fmt.Sprintf("%d records are pending", there)
	buildBinary(s.t)
	var all sync.WaitGroup // each of them waits for the leader for some time
	for _, test := range []struct {
		args  []string
		code  int
		wants []string
	}{
		{[]string{"ls", "--limit", "0"}, 2, []string{pending, without}},
		{[]string{"agenda"}, 2, []string{fmt.Sprintf("%d records pending", there), without}},
		{[]string{"checkpoints"}, 2, []string{s.name + " 0 ", s.name + " 1 ", without}},
		{[]string{"verify"}, 2, []string{without}},
		{[]string{"topics", "check"}, 1, []string{"no leader"}},
		{[]string{"get", "0-0-1"}, 1, []string{"is due at another time than 0-0-1 says"}},
		{[]string{"get", fmt.Sprintf("%d-0-1", away)}, 2, []string{without}},
	} {
		all.Go(func() {
			began := time.Now()
			cmd := exec.CommandContext(s.t.Context(), buildBinary(s.t), append(test.args, "-c", file)...)
			out, _ := cmd.CombinedOutput()
			said := strings.Join(strings.Fields(string(out)), " ")
			for _, want := range test.wants {
				if !strings.Contains(said, want) || cmd.ProcessState.ExitCode() != test.code {
					s.t.Errorf("%v: code %d, and it does not say %q:\n%s", test.args, cmd.ProcessState.ExitCode(), want, out[max(len(out)-2000, 0):])
				}
			}
			s.t.Logf("%v: code %d after %v", test.args, cmd.ProcessState.ExitCode(), time.Since(began).Round(time.Millisecond))
		})
	}
	all.Wait()
}

// The broker that coordinates the group is killed, and then the one that took its place. Delivery goes on while it is away.
func coordinatorKilled(t *testing.T, c *brokers.Cluster) {
	s := newTenant(t, c, setting{targets: 2, seed: newSeed(t)})
	p := s.start(s.replica())
	s.awaitLive(p, 4)
	stop := s.keepLoading(load.Config{Rate: 300})
	s.awaitDelivered(300)
	for range 2 {
		s.awaitInSync()
		node := c.Node(int(s.coordinator()))
		began := time.Now()
		if err := node.Kill(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.awaitDelivered(300)
		t.Logf("300 records were delivered within %v after broker %d was killed; %s", time.Since(began).Round(time.Millisecond), node.ID(), s.watch.Counts().Summary())
		if err := node.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	s.arrive()
	t.Logf("turns %v, rebalances %d", p.Stats().Transactions, p.Stats().Rebalances)
	p.stop()
	s.judge()
}

// coordinator is the broker that coordinates the tenant's group.
func (s *tenant) coordinator() int32 {
	s.t.Helper()
	found := s.admin.FindGroupCoordinators(s.t.Context(), s.name)
	if err := found.Error(); err != nil {
		s.t.Fatal(err)
	}
	return found[s.name].NodeID
}

// awaitInSync waits until every replica of every topic, Kafka's own included, has all that its leader has, as some broker says.
func (s *tenant) awaitInSync() {
	s.t.Helper()
	eventually(s.t, func() string { return notInSync(s.t.Context(), s.client) })
}

// awaitAllSayInSync waits until every broker says so: one that was frozen does not know for a moment what has become of it meanwhile.
func (s *tenant) awaitAllSayInSync() {
	s.t.Helper()
	eventually(s.t, func() string {
		for _, n := range s.cluster.Nodes() {
			if not := notInSync(s.t.Context(), s.client.Broker(int(n.ID()))); not != "" {
				return fmt.Sprintf("broker %d: %s", n.ID(), not)
			}
		}
		return ""
	})
}

// notInSync says which partition lacks a replica.
func notInSync(ctx context.Context, ask kmsg.Requestor) string {
	resp, err := kmsg.NewPtrMetadataRequest().RequestWith(ctx, ask)
	if err != nil {
		return err.Error()
	}
	for _, topic := range resp.Topics {
		for _, p := range topic.Partitions {
			if len(p.ISR) < len(p.Replicas) {
				return fmt.Sprintf("%s/%d has replicas %v, of which %v are in sync", *topic.Topic, p.Partition, p.Replicas, p.ISR)
			}
		}
	}
	return ""
}

// wanting says what is wanting until everything has arrived that the deleted target and the one that is well were asked for.
func (s *tenant) wanting(dead, well int64) string {
	r := s.watch.Report().ByTarget[s.targets[wellTarget]]
	counts := s.watch.Counts()
	delivered := r.Micros.TotalCount() + r.OverdueMicros.TotalCount()
	if counts.DeadLettered == dead && delivered >= well {
		return ""
	}
	return fmt.Sprintf("%d of %d dead-lettered, %d of %d delivered where all is well", counts.DeadLettered, dead, delivered, well)
}

func trouble(p *running) (targets []string) {
	for _, t := range p.Stats().Targets {
		if t.Trouble != "" {
			targets = append(targets, t.Target)
		}
	}
	return targets
}

// createOn makes a topic with one replica of each partition, on these nodes.
func (s *tenant) createOn(nodes []int32, name string) {
	s.t.Helper()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, -1, -1
	for i, node := range nodes {
		a := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
		a.Partition, a.Replicas = int32(i), []int32{node}
		topic.ReplicaAssignment = append(topic.ReplicaAssignment, a)
	}
	request := kmsg.NewPtrCreateTopicsRequest()
	request.Topics, request.TimeoutMillis = append(request.Topics, topic), 10_000
	response, err := request.RequestWith(s.t.Context(), s.client)
	if err != nil {
		s.t.Fatalf("create %s: %v", name, err)
	}
	if err := kerr.ErrorForCode(response.Topics[0].ErrorCode); err != nil {
		s.t.Fatalf("create %s: %v", name, err)
	}
}

package integration

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/integration/brokers"
	"github.com/duewheel/duewheel/integration/load"
)

// In the simulation, where others take over at one moment, delivery goes on within 5 s of that, and a process ends within 10 s.
const (
	mostQuiet    = 60  // rounds in which nothing may be delivered
	mostStopping = 100 // rounds before a process has to have ended
)

// The broker that coordinates the group freezes. Delivery goes on soon after the others have done without it, and a process that is told to stop
// with a frozen broker ends in its time.
func coordinatorFrozen(t *testing.T, c *brokers.Cluster) {
	s := newTenant(t, c, setting{targets: 2, seed: newSeed(t)})
	ps := s.startTwo()
	stop := s.keepLoading(load.Config{Rate: 300})
	s.awaitDelivered(300)
	stop() // an open transaction of its producers would hide from the processors what others write

	f := s.freezeCoordinator()
	rounds, gap := f.rounds(func(rounds int) bool { return rounds < mostQuiet+20 })
	f.resume()
	t.Logf("the others did without the coordinator after %v; of %d rounds then, in %d at most nothing was delivered; %s",
		f.away.Round(10*time.Millisecond), rounds, gap, s.watch.Counts().Summary())
	if gap > mostQuiet {
		t.Errorf("nothing was delivered for %d rounds while the coordinator was frozen, and %d are allowed", gap, mostQuiet)
	}

	f = s.freezeCoordinator()
	began, stopped := time.Now(), make(chan struct{})
	go func() {
		defer close(stopped)
		ps[0].stop()
	}()
	rounds, _ = f.rounds(func(int) bool {
		select {
		case <-stopped:
			return false
		default:
			return true
		}
	})
	f.resume()
	t.Logf("it took %v to stop with a frozen coordinator, and %d rounds", time.Since(began).Round(time.Millisecond), rounds)
	if rounds > mostStopping {
		t.Errorf("it took %d rounds to stop while the coordinator was frozen, and %d are allowed", rounds, mostStopping)
	}

	buildBinary(t)
	f = s.freezeCoordinator()
	f.commands()
	f.resume()
	s.arrive()
	t.Logf("turns %v, rebalances %d", ps[1].Stats().Transactions, ps[1].Stats().Rebalances)
	ps[1].stop()
	s.judge()
}

// frozen is a broker that does not answer, seen from the others. They are what a processor is measured by: how soon they do without the frozen one
// depends on whether it was the controller, too, and on how busy the machine is.
type frozen struct {
	*tenant
	node  *brokers.Node
	opts  []kgo.Opt // reach the others alone
	admin *kadm.Client
	since time.Time
	away  time.Duration // how long the others took to do without it, once there was a round
}

// roundEvery is from when on a round may follow upon another one.
const roundEvery = 100 * time.Millisecond

// freezeCoordinator freezes the broker that coordinates the group, when all replicas are in sync, in the midst of deliveries.
func (s *tenant) freezeCoordinator() *frozen {
	s.t.Helper()
	s.awaitAllSayInSync()
	node := s.cluster.Node(int(s.coordinator()))
	f := &frozen{tenant: s, node: node}
	var others []string
	for _, n := range s.cluster.Nodes() {
		if n != node {
			others = append(others, n.Addr(brokers.Plain))
		}
	}
	f.opts = append(s.opts(), kgo.SeedBrokers(others...), kgo.Dialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
		if !slices.Contains(others, addr) {
			return nil, &net.OpError{Op: "dial", Net: network, Err: errors.New("the broker is frozen")}
		}
		return (&net.Dialer{}).DialContext(ctx, network, addr)
	}))
	client, err := kgo.NewClient(f.opts...)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(client.Close)
	f.admin = kadm.NewClient(client)
	s.load(load.Config{Records: 1500, Due: []load.Due{{Weight: 1, To: 5 * time.Second}}})
	f.since = time.Now()
	if err := node.Pause(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	return f
}

// commands ask while the broker is frozen, and are answered by the others.
func (f *frozen) commands() {
	f.t.Helper()
	file, binary := f.configured(), buildBinary(f.t)
	ctx, cancel := context.WithTimeout(f.t.Context(), patience)
	defer cancel()
	var all sync.WaitGroup
	for _, args := range [][]string{{"ls", "--limit", "0"}, {"agenda"}, {"get", "no-such-id"}, {"checkpoints"}, {"dlq", "ls"}, {"topics", "check"}} {
		all.Go(func() {
			began := time.Now()
			cmd := exec.CommandContext(ctx, binary, append(args, "-c", file)...)
			out, _ := cmd.CombinedOutput()
			code := cmd.ProcessState.ExitCode()
			f.t.Logf("%v: code %d after %v", args, code, time.Since(began).Round(time.Millisecond))
			if code != 0 && code != 1 { // 1: there is no such id; the topics lack a replica
				f.t.Errorf("%v could not tell while a broker was frozen:\n%s", args, out[max(len(out)-2000, 0):])
			}
		})
	}
	all.Wait()
}

func (f *frozen) resume() {
	f.t.Helper()
	if err := f.node.Resume(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
}

// rounds plays rounds while it is told to go on, and returns how many there were, and of how many in a row at most nothing was delivered. In a
// round the others show that they do without the frozen one, and take requests that are due at once. So what stalls the machine or the others stalls
// the count, too, and there is always something to deliver.
func (f *frozen) rounds(goOn func(rounds int) bool) (rounds, longest int) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), patience)
	defer cancel()
	delivered, gap := f.watch.Counts().Delivered, 0
	for goOn(rounds) {
		next := time.After(roundEvery)
		if err := f.round(ctx); err != nil && ctx.Err() != nil {
			f.t.Fatalf("after %d rounds the others do not do without the frozen broker: %v", rounds, err)
		} else if err == nil {
			if rounds++; rounds == 1 {
				f.away = time.Since(f.since)
			}
			gap++
		}
		<-next
		if n := f.watch.Counts().Delivered; n > delivered {
			delivered, gap = n, 0
		}
		longest = max(longest, gap)
	}
	return rounds, longest
}

// round returns an error unless the others lead all partitions, coordinate the group, and take requests.
func (f *frozen) round(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	all, err := f.admin.ListTopicsWithInternal(ctx)
	if err != nil {
		return err
	}
	for _, topic := range all {
		if !topic.IsInternal && !slices.Contains(f.topics(), topic.Topic) {
			continue // other tests have partitions on one node alone
		}
		for _, p := range topic.Partitions {
			if p.Leader < 0 || p.Leader == f.node.ID() {
				return fmt.Errorf("%s/%d is led by %d", topic.Topic, p.Partition, p.Leader)
			}
		}
	}
	offsets, err := f.admin.FetchOffsets(ctx, f.name)
	if err == nil {
		err = offsets.Error()
	}
	if err != nil {
		return err
	}
	_, err = load.Run(ctx, f.loadConfig(load.Config{Records: 12, Producers: 1, Due: []load.Due{{Weight: 1, From: -time.Second}}}), f.opts...)
	return err
}

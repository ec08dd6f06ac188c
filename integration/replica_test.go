package integration

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/bench/child"
	"github.com/duewheel/duewheel/integration/proxy"
	"github.com/duewheel/duewheel/processor"
	"github.com/duewheel/duewheel/topics"
)

// asReplica is set in the environment of a test binary that is to be a replica.
const asReplica = "DUEWHEEL_TEST_REPLICA"

// replicaConfig is what tests say of a processor.
type replicaConfig struct {
	processor.Config
	reach
	Env      []string                             // besides that of the test; of child processes
	Presence string                               // where it listens for other replicas (host:port); empty: nowhere; of child processes
	Dial     dialer                               // defaults to the operating system's, or to the proxy's; of processors in this process
	As       []kgo.Opt                            // connects as a user; of processors in this process
	Hear     func(name string, e processor.Event) // gets what the replica tells, besides the tenant
}

// reach is how a replica gets to the brokers, at what time by its own clock, and with what disk. It travels as JSON.
type reach struct {
	Brokers []string
	Ahead   time.Duration     // by how much its clock is wrong
	Via     map[string]string // where a proxy listens, by the broker's address; none: there is no proxy
	Full    bool              // the disk of its state directory has no room left; of child processes
	From    string            // the address of this host that it connects to brokers from; empty: any
}

type dialer func(ctx context.Context, network, addr string) (net.Conn, error)

// replica is the configuration of a processor of this tenant.
func (s *tenant) replica(change ...func(*replicaConfig)) replicaConfig {
	c := replicaConfig{
		Config: processor.Config{
			Group: s.name, Instance: strings.ToLower(rand.Text()[:6]), Routes: []topics.Route{s.route},
			StateDir: filepath.Join(s.dir, "a"), Lanes: 2, MemoryBudget: 64 << 20,
			NearWindow: time.Second, SessionTimeout: 2 * time.Second, RetryBackoff: time.Second, UnknownTargetAfter: 3 * time.Second,
			// Far beyond what a test waits for: what a dead replica has left open must be ended by its successor.
			TransactionTimeout: 5 * time.Minute,
		},
		reach: reach{Brokers: s.cluster.Addrs()},
	}
	for _, f := range change {
		f(&c)
	}
	c.HeartbeatInterval = cmp.Or(c.HeartbeatInterval, c.SessionTimeout/10)
	return c
}

// complete adds to a configuration what follows from how the brokers are reached.
func (r *reach) complete(c *processor.Config, dial dialer) {
	c.Client = []kgo.Opt{kgo.SeedBrokers(r.Brokers...)}
	if r.Via != nil {
		c.Client = append(c.Client, kgo.Dialer(proxy.Dialer(r.Via)))
	}
	if r.From != "" {
		dial = (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(r.From)}}).DialContext
	}
	if dial != nil {
		c.Client = append(c.Client, kgo.Dialer(dial))
	}
	c.Now = func() time.Time { return time.Now().Add(r.Ahead) }
}

func (c replicaConfig) processor(log io.Writer) (*processor.Processor, error) {
	c.Logger = slog.New(slog.NewTextHandler(log, nil)).With("replica", c.Instance)
	c.complete(&c.Config, c.Dial)
	if c.As != nil {
		c.Client = c.As
	}
	return processor.New(c.Config)
}

// running is a processor in this process.
type running struct {
	*processor.Processor
	stop func() // waits until it has ended
}

// start runs a processor until stop is called, or the test ends.
func (s *tenant) start(c replicaConfig) *running {
	s.t.Helper()
	c.Events = s.events.of(c)
	p, err := c.processor(s.log)
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	var once sync.Once
	r := &running{p, func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil {
				s.t.Errorf("processor: %v", err)
			}
		})
	}}
	s.t.Cleanup(r.stop)
	return r
}

// startTwo starts two replicas with a lane and a state directory each, and waits until each has two partitions, all live.
func (s *tenant) startTwo() (ps []*running) {
	s.t.Helper()
	for i := range 2 {
		ps = append(ps, s.start(s.replica(func(c *replicaConfig) { c.Lanes, c.StateDir = 1, c.StateDir+fmt.Sprint(i) })))
	}
	for _, p := range ps {
		s.awaitLive(p, 2)
	}
	return ps
}

// awaitLive waits until this many partitions are live in a processor, over all its lanes.
func (s *tenant) awaitLive(r *running, partitions int) {
	s.t.Helper()
	eventually(s.t, func() string {
		ready, not := r.Ready()
		if n := len(r.Stats().Partitions); !ready || len(not) > 0 || n != partitions {
			return fmt.Sprintf("%d of %d partitions assigned, not live: %v", n, partitions, not)
		}
		return ""
	})
}

// spawn starts a replica as a child process. It ends with this process, whatever ends that.
func (s *tenant) spawn(c replicaConfig) *child.Process {
	s.t.Helper()
	way, err := json.Marshal(c.reach)
	if err != nil {
		s.t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), asReplica+"=1"), c.Env...)
	cmd.Stderr = s.log
	hear := s.events.of(c)
	p, err := child.Start(cmd, child.Order{Config: c.Config, Reach: way, Presence: c.Presence}, func(_ *child.Process, m child.Message) {
		if m.Event != nil {
			hear(*m.Event)
		}
	})
	return s.own(p, err)
}

// run starts another program under a name.
func (s *tenant) run(cmd *exec.Cmd, name string) *child.Process {
	s.t.Helper()
	if cmd.Stderr == nil {
		cmd.Stderr = s.log
	}
	p, err := child.Run(cmd, name)
	return s.own(p, err)
}

func (s *tenant) own(p *child.Process, err error) *child.Process {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(p.Kill)
	return p
}

// terminate ends a replica in order.
func (s *tenant) terminate(p *child.Process) {
	s.t.Helper()
	if err := p.Terminate(patience); err != nil {
		s.t.Error(err)
	}
}

// awaitDelivery waits until a replica takes part.
func (s *tenant) awaitDelivery(p *child.Process) {
	s.t.Helper()
	select {
	case <-p.Delivering():
	case <-p.Exited():
		s.t.Fatalf("replica %s ended by itself: %v", p.Name(), p.Err())
	case <-time.After(patience):
		s.t.Fatalf("replica %s delivers nothing", p.Name())
	}
}

// runReplica is main of a child process.
func runReplica() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	err := child.Serve(ctx, os.Stdin, os.Stdout, os.Stderr, func(o *child.Order) error {
		var way reach
		err := json.Unmarshal(o.Reach, &way)
		way.complete(&o.Config, nil)
		if way.Full {
			o.FS = (&smallDisk{dir: o.StateDir}).fs()
		}
		return err
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// told is what the replicas of a tenant have told, in the order in which it was heard.
type told struct {
	mu  sync.Mutex
	all []tale
}

// tale is an event, and whose.
type tale struct {
	replica string
	processor.Event
}

// of returns what hears a replica.
func (t *told) of(c replicaConfig) func(processor.Event) {
	return func(e processor.Event) {
		t.mu.Lock()
		t.all = append(t.all, tale{c.Instance, e})
		t.mu.Unlock()
		if c.Hear != nil {
			c.Hear(c.Instance, e)
		}
	}
}

// len is the place where what was told ends now.
func (t *told) len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.all)
}

// from returns what was told of a kind, from a place on.
func (t *told) from(place int, kind processor.EventKind) (tales []tale) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, e := range t.all[place:] {
		if e.Kind == kind {
			tales = append(tales, e)
		}
	}
	return tales
}

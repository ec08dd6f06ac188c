package integration

import (
	"bufio"
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
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/integration/proxy"
	"github.com/duewheel/duewheel/processor"
	"github.com/duewheel/duewheel/topics"
)

// asReplica holds the configuration of a test binary that is to be a replica.
const asReplica = "DUEWHEEL_TEST_REPLICA"

// replicaConfig is what tests say of a processor. It travels as JSON.
type replicaConfig struct {
	Brokers            []string
	Group              string
	Instance           string // defaults to random letters
	Route              topics.Route
	StateDir           string
	Guarantee          processor.Guarantee
	Protocol           processor.Protocol
	InstanceID         string
	Standbys           int
	Lanes              int
	NearWindow         time.Duration
	Session            time.Duration
	Heartbeat          time.Duration // a tenth of the session
	TransactionTimeout time.Duration
	RetryBackoff       time.Duration
	UnknownTargetAfter time.Duration
	Ahead              time.Duration     // by how much its clock is wrong
	Via                map[string]string // where a proxy listens, by the broker's address; none: there is no proxy

	Dial  dialer            `json:"-"` // defaults to the operating system's, or to the proxy's; of processors in this process
	FS    vfs.FS            `json:"-"` // defaults to the operating system's; of processors in this process
	Hear  func(line string) `json:"-"` // gets what it tells of its partitions
	Tells bool              // set when somebody hears
}

type dialer func(ctx context.Context, network, addr string) (net.Conn, error)

// replica is the configuration of a processor of this stage.
func (s *stage) replica(change ...func(*replicaConfig)) replicaConfig {
	c := replicaConfig{
		Brokers: s.cluster.Addrs(), Group: s.name, Instance: strings.ToLower(rand.Text()[:6]), Route: s.route,
		StateDir: filepath.Join(s.dir, "a"), Lanes: 2,
		NearWindow: time.Second, Session: 2 * time.Second, RetryBackoff: time.Second, UnknownTargetAfter: 3 * time.Second,
		// Far beyond what a test waits for: what a dead replica has left open must be ended by its successor.
		TransactionTimeout: 5 * time.Minute,
	}
	for _, f := range change {
		f(&c)
	}
	return c
}

func (c *replicaConfig) processor(log io.Writer) (*processor.Processor, error) {
	return processor.New(processor.Config{
		Client: c.client(), Group: c.Group, Instance: c.Instance, Routes: []topics.Route{c.Route},
		Protocol: c.Protocol, InstanceID: c.InstanceID, Standbys: c.Standbys,
		StateDir: c.StateDir, FS: c.FS, Guarantee: c.Guarantee, Lanes: c.Lanes, NearWindow: c.NearWindow, MemoryBudget: 64 << 20,
		SessionTimeout: c.Session, HeartbeatInterval: cmp.Or(c.Heartbeat, c.Session/10), TransactionTimeout: c.TransactionTimeout,
		RetryBackoff: c.RetryBackoff, UnknownTargetAfter: c.UnknownTargetAfter,
		Logger: slog.New(slog.NewTextHandler(log, nil)).With("replica", c.Instance),
		Now:    func() time.Time { return time.Now().Add(c.Ahead) },
	})
}

func (c *replicaConfig) client() []kgo.Opt {
	opts := []kgo.Opt{kgo.SeedBrokers(c.Brokers...)}
	if c.Via != nil {
		opts = append(opts, kgo.Dialer(proxy.Dialer(c.Via)))
	}
	if c.Dial != nil {
		opts = append(opts, kgo.Dialer(c.Dial))
	}
	return opts
}

// running is a processor in this process.
type running struct {
	*processor.Processor
	stop func() // waits until it has ended
}

// start runs a processor until stop is called, or the test ends.
func (s *stage) start(c replicaConfig) *running {
	s.t.Helper()
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

// awaitLive waits until this many partitions are live in a processor, over all its lanes.
func (s *stage) awaitLive(r *running, partitions int) {
	s.t.Helper()
	eventually(s.t, func() string {
		ready, not := r.Ready()
		if n := len(r.Stats().Partitions); !ready || n != partitions {
			return fmt.Sprintf("%d of %d partitions assigned, not live: %v", n, partitions, not)
		}
		return ""
	})
}

// child is a processor in a process of its own.
type child struct {
	config     replicaConfig
	cmd        *exec.Cmd
	stdin      io.Closer
	listening  chan struct{} // closed when it ends in order if it is told to
	delivering chan struct{} // closed when it has committed something
	exited     chan struct{} // closed when it has ended; err holds from then on
	err        error
}

// listens is what a replica prints when it heeds SIGTERM.
const listens = "listening"

// delivers is what a replica prints once it has delivered.
const delivers = "delivering"

// spawn starts a replica as a child process. It ends with this process, whatever ends that.
func (s *stage) spawn(c replicaConfig) *child {
	s.t.Helper()
	c.Tells = c.Hear != nil
	config, err := json.Marshal(c)
	if err != nil {
		s.t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), asReplica+"="+string(config))
	return s.run(c, cmd)
}

func (s *stage) run(c replicaConfig, cmd *exec.Cmd) *child {
	s.t.Helper()
	if cmd.Stderr == nil {
		cmd.Stderr = s.log
	}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	p := &child{config: c, cmd: cmd, stdin: stdin, listening: make(chan struct{}), delivering: make(chan struct{}), exited: make(chan struct{})}
	go func() {
		defer close(p.exited)
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			switch line := lines.Text(); {
			case line == listens:
				close(p.listening)
			case line == delivers:
				close(p.delivering)
			case c.Hear != nil:
				c.Hear(line)
			}
		}
		p.err = cmd.Wait()
	}()
	s.t.Cleanup(p.kill)
	return p
}

// kill ends a replica with SIGKILL and returns when it has ended. One that is frozen ends, too.
func (p *child) kill() {
	p.cmd.Process.Kill() // an error says that it has ended already
	<-p.exited
}

// terminate ends a replica in order.
func (p *child) terminate(t *testing.T) {
	t.Helper()
	if p.cmd.Args[0] == os.Args[0] { // a process that has only just begun is ended by the signal itself
		select {
		case <-p.listening:
		case <-p.exited:
		case <-time.After(patience):
			t.Fatalf("replica %s does not begin", p.config.Instance)
		}
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	select {
	case <-p.exited:
	case <-time.After(patience):
		t.Fatalf("replica %s does not end", p.config.Instance)
	}
	if p.err != nil {
		t.Errorf("replica %s: %v", p.config.Instance, p.err)
	}
}

// awaitDelivery waits until a replica takes part.
func (p *child) awaitDelivery(t *testing.T) {
	t.Helper()
	select {
	case <-p.delivering:
	case <-p.exited:
		t.Fatalf("replica %s ended by itself: %v", p.config.Instance, p.err)
	case <-time.After(patience):
		t.Fatalf("replica %s delivers nothing", p.config.Instance)
	}
}

// runReplica is main of a child process.
func runReplica(config string) int {
	go func() { // the test holds the other end
		io.Copy(io.Discard, os.Stdin)
		os.Exit(3)
	}()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	fmt.Println(listens)
	if err := serve(ctx, config); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func serve(ctx context.Context, config string) error {
	var c replicaConfig
	if err := json.Unmarshal([]byte(config), &c); err != nil {
		return err
	}
	p, err := c.processor(os.Stderr)
	if err != nil {
		return err
	}
	go announce(ctx, p)
	var told sync.WaitGroup
	defer told.Wait()
	ended, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	if c.Tells {
		told.Go(func() { tell(ended, p) })
	}
	return p.Run(ctx)
}

func announce(ctx context.Context, p *processor.Processor) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for p.Stats().Transactions["committed"] == 0 {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
	fmt.Println(delivers)
}

package brokers

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"time"
)

// Cluster is a set of running nodes. Its methods may be called from several goroutines, but for Connect and Close.
type Cluster struct {
	options  Options
	provider Provider
	id       string // the cluster id, another one for each cluster
	nodes    []*Node
	security *Security
	workers  []*Worker
	dir      string   // everything the cluster has on disk
	lock     *os.File // held as long as dir is in use
	ports    ports

	once   sync.Once // for Close
	closed error
}

// Node is one broker, and controller, of a cluster. Faults are injected here. Each method returns when the change has happened.
type Node struct {
	cluster        *Cluster
	id             int
	controllerPort int
	addrs          map[Listener]string

	mu      sync.Mutex // held during each change of the machine
	machine machine
	paused  bool
	running bool
}

// newCluster makes a cluster with everything but its machines. It is closed also when it never starts.
func newCluster(o Options, p Provider) (*Cluster, error) {
	dir, lock, err := newDir()
	if err != nil {
		return nil, fmt.Errorf("brokers: %w", err)
	}
	c := &Cluster{options: o, provider: p, id: newUUID(), dir: dir, lock: lock}
	for i := range o.Nodes {
		c.nodes = append(c.nodes, &Node{cluster: c, id: i + 1, addrs: map[Listener]string{}})
	}
	if c.security, err = newSecurity(dir); err == nil {
		err = c.takePorts()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("brokers: %w", err), c.Close())
	}
	return c, nil
}

// newUUID gives 16 random bytes as Kafka prints them. Those that begin with a dash are not taken, as Kafka does.
func newUUID() string {
	for {
		b := make([]byte, 16)
		rand.Read(b)
		if s := base64.RawURLEncoding.EncodeToString(b); s[0] != '-' {
			return s
		}
	}
}

// launch makes the machines and starts them all.
func (c *Cluster) launch(ctx context.Context, newMachine maker) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	began := time.Now()
	for _, n := range c.nodes {
		m, err := newMachine(ctx, c, n)
		if err != nil {
			return fmt.Errorf("brokers: node %d: %w", n.id, err)
		}
		n.machine = m
	}
	if err := c.each(func(n *Node) error { return n.Start(ctx) }); err != nil {
		return err
	}
	if err := c.createUser(ctx); err != nil {
		return err
	}
	c.options.Logf("brokers: Kafka %s from %s on %v after %s", c.options.Version, c.provider, c.Addrs(),
		time.Since(began).Round(time.Millisecond))
	return nil
}

func (c *Cluster) takePorts() (err error) {
	for _, n := range c.nodes {
		if n.controllerPort, err = c.ports.take(); err != nil {
			return err
		}
		for _, l := range c.listeners() {
			port, err := c.ports.take()
			if err != nil {
				return err
			}
			n.addrs[l] = fmt.Sprintf("127.0.0.1:%d", port)
		}
	}
	return nil
}

func (c *Cluster) listeners() []Listener { return append([]Listener{Plain}, c.options.Listeners...) }

// each runs fn for all nodes at once and joins the errors.
func (c *Cluster) each(fn func(*Node) error) error {
	errs := make([]error, len(c.nodes))
	var wg sync.WaitGroup
	for i, n := range c.nodes {
		wg.Go(func() { errs[i] = fn(n) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// Addrs are the addresses of all nodes, for a client without encryption.
func (c *Cluster) Addrs() []string { return c.AddrsOf(Plain) }

// AddrsOf are the addresses of all nodes for one listener, which must be Plain or have been asked for.
func (c *Cluster) AddrsOf(l Listener) []string {
	var addrs []string
	for _, n := range c.nodes {
		addrs = append(addrs, n.Addr(l))
	}
	return addrs
}

// Security is what clients need for the listeners other than Plain.
func (c *Cluster) Security() *Security { return c.security }

// Provider is where the brokers come from.
func (c *Cluster) Provider() Provider { return c.provider }

// Nodes are the nodes, by rising id.
func (c *Cluster) Nodes() []*Node { return c.nodes }

// Node returns the node with this id: 1 to 3.
func (c *Cluster) Node(id int) *Node { return c.nodes[id-1] }

// Close ends all nodes at once, without order, and removes what the cluster had on disk. A second call changes nothing.
func (c *Cluster) Close() error {
	c.once.Do(func() { c.closed = c.close() })
	return c.closed
}

func (c *Cluster) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	err := c.each(func(n *Node) error {
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.machine == nil {
			return nil
		}
		return n.machine.remove(ctx)
	})
	for _, w := range c.workers {
		err = errors.Join(err, w.Close())
	}
	c.ports.release()
	return errors.Join(err, removeDir(c.dir, c.lock))
}

// CPU returns what tells how much CPU time the brokers have used so far since they were last started, in user and system mode; nil where
// that cannot be known.
func (c *Cluster) CPU() func() time.Duration {
	var processes []*jvmMachine
	for _, n := range c.nodes {
		if m, ok := n.machine.(*jvmMachine); ok && runtime.GOOS == "linux" {
			processes = append(processes, m)
		}
	}
	if len(processes) == 0 {
		return nil
	}
	return func() (used time.Duration) {
		for _, m := range processes {
			used += m.process.cpu()
		}
		return used
	}
}

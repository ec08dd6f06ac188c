package brokers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"
)

// Versions that tests run on. Old is the last one whose transactions are of the first kind (transaction.version below 2).
const (
	Latest = "4.3.1"
	Old    = "3.9.1"
)

// Options say what cluster is wanted. The zero value is one node of the latest Kafka with a plain listener.
type Options struct {
	// Version of Kafka, 3.3.0 at least: before that brokers without ZooKeeper were no releases. Defaults to Latest.
	Version string

	// Nodes is 1 or 3, each of them broker and controller at once. Defaults to 1. Three nodes need about 600 MiB and two to
	// three times the time to start.
	Nodes int

	// Config overrides server properties, on every node.
	Config map[string]string

	// Listeners beside the plain one, which is always there.
	Listeners []Listener

	// Provider forces one. Defaults to DUEWHEEL_TEST_KAFKA, and without it to the first that is there.
	Provider Provider

	// Faults says that nodes will be frozen, killed or restarted, which external brokers leave out.
	Faults bool

	// Measure gives the broker a larger heap and the JVM's full compiler. It starts slower and then runs much faster: for
	// benchmarks.
	Measure bool

	// Logf is told what takes time: jars that are fetched, nodes that are started. Defaults to nothing, and to t.Logf in Start.
	Logf func(format string, args ...any)
}

// These errors can be returned by New and by the methods of a Node.
var (
	// ErrNoProvider says that there is nothing to run Kafka with, and what to install.
	ErrNoProvider = errors.New("brokers: no Kafka to test with")

	// ErrUnsupported says that this provider cannot do what was asked: external brokers are neither killed nor configured.
	ErrUnsupported = errors.New("brokers: not possible with this provider")
)

// startLimit bounds the start of a cluster once the jars are there. Three nodes on two busy cores were seen to need 40 s.
const startLimit = 3 * time.Minute

// Start gives a test a running cluster and stops it when the test ends. What is missing fails the test, with advice. The one
// thing that is skipped, saying so, is a test that asks external brokers for what they cannot do. When the test failed, the
// end of each node's log is shown and the whole log is kept.
func Start(t testing.TB, o Options) *Cluster {
	t.Helper()
	if testing.Short() {
		t.Skip("-short leaves out what needs a Kafka")
	}
	if o.Logf == nil {
		o.Logf = t.Logf
	}
	c, err := New(t.Context(), o)
	if errors.Is(err, ErrUnsupported) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(c.keepLogs(t.Name()))
		}
		if err := c.Close(); err != nil {
			t.Errorf("close the brokers: %v", err)
		}
	})
	return c
}

// New starts a cluster and returns when every node answers. It is Start for programs; the caller closes the cluster. ctx ends
// the start only: a cluster lives until Close, or until the process ends.
func New(ctx context.Context, o Options) (*Cluster, error) {
	if err := o.fill(); err != nil {
		return nil, err
	}
	provider, err := choose(ctx, o)
	if err != nil {
		return nil, err
	}
	if provider == External {
		return attach(ctx, o)
	}
	// Before the cluster, since its start is bounded and a download is not.
	newMachine, err := sources[provider].prepare(ctx, o)
	if err != nil {
		return nil, err
	}
	c, err := newCluster(o, provider)
	if err != nil {
		return nil, err
	}
	if err := c.launch(ctx, newMachine); err != nil {
		err = fmt.Errorf("%w\n%s", err, c.keepLogs("start"))
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// since tells whether the version is that of a release, or a later one.
func (o *Options) since(major, minor int) bool {
	var v [3]int
	if n, err := fmt.Sscanf(o.Version, "%d.%d.%d", &v[0], &v[1], &v[2]); n != len(v) || err != nil {
		return false
	}
	return slices.Compare(v[:2], []int{major, minor}) >= 0
}

func (o *Options) fill() error {
	if o.Version == "" {
		o.Version = Latest
	}
	if o.Nodes == 0 {
		o.Nodes = 1
	}
	if o.Provider == "" {
		o.Provider = Provider(os.Getenv("DUEWHEEL_TEST_KAFKA"))
	}
	if o.Logf == nil {
		o.Logf = func(string, ...any) {}
	}
	var bad []error
	if !o.since(3, 3) {
		bad = append(bad, fmt.Errorf("brokers: version %q is none, or older than 3.3.0", o.Version))
	}
	if o.Nodes != 1 && o.Nodes != 3 {
		bad = append(bad, fmt.Errorf("brokers: %d nodes; 1 or 3 are possible", o.Nodes))
	}
	for _, l := range o.Listeners {
		if !l.known() {
			bad = append(bad, fmt.Errorf("brokers: unknown listener %q", l))
		}
	}
	return errors.Join(bad...)
}

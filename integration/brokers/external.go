package brokers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// External brokers are whatever runs at the addresses in DUEWHEEL_TEST_BROKERS. They are used as they are: not configured, not
// stopped, not killed.

func externalAddrs() []string {
	return strings.FieldsFunc(os.Getenv("DUEWHEEL_TEST_BROKERS"), func(r rune) bool { return r == ',' || r == ' ' })
}

// fits says what a test asked for and external brokers cannot give.
func (o Options) fitsExternal() error {
	switch {
	case o.Faults:
		return fmt.Errorf("%w: this test freezes or kills brokers", ErrUnsupported)
	case o.Nodes > 1 && o.Nodes != len(externalAddrs()):
		return fmt.Errorf("%w: this test needs %d brokers", ErrUnsupported, o.Nodes)
	case o.Version == Old:
		return fmt.Errorf("%w: this test needs Kafka %s", ErrUnsupported, Old)
	case len(o.Config) > 0:
		return fmt.Errorf("%w: this test needs settings of its own", ErrUnsupported)
	case len(o.Listeners) > 0:
		return fmt.Errorf("%w: this test needs the listeners %v", ErrUnsupported, o.Listeners)
	}
	return nil
}

// attach makes a cluster of the external brokers.
func attach(ctx context.Context, o Options) (*Cluster, error) {
	if err := o.fitsExternal(); err != nil {
		return nil, err
	}
	dir, lock, err := newDir()
	if err != nil {
		return nil, fmt.Errorf("brokers: %w", err)
	}
	c := &Cluster{options: o, provider: External, dir: dir, lock: lock}
	for i, addr := range externalAddrs() {
		c.nodes = append(c.nodes, &Node{
			cluster: c, id: i + 1, addrs: map[Listener]string{Plain: addr}, machine: attached{}, running: true,
		})
	}
	if err := c.answers(ctx); err != nil {
		err = fmt.Errorf("%w: DUEWHEEL_TEST_BROKERS=%v does not answer: %w", ErrNoProvider, c.Addrs(), err)
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func (c *Cluster) answers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	client, err := kgo.NewClient(c.Opts(Plain)...)
	if err != nil {
		return err
	}
	defer client.Close()
	return client.Ping(ctx)
}

// attached is the machine of an external broker.
type attached struct{}

func (attached) start(context.Context) error         { return ErrUnsupported }
func (attached) stop(context.Context) error          { return ErrUnsupported }
func (attached) kill(context.Context) error          { return ErrUnsupported }
func (attached) pause(context.Context) error         { return ErrUnsupported }
func (attached) resume(context.Context) error        { return ErrUnsupported }
func (attached) remove(context.Context) error        { return nil }
func (attached) died() <-chan struct{}               { return nil }
func (attached) log(context.Context) ([]byte, error) { return nil, ErrUnsupported }

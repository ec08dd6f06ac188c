package brokers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// ready returns when the node's port is open and a metadata answer from it names the node itself and a controller: from then
// on it is not fenced and takes requests. A line in the log would not do, a restart finds the one of the former run.
func (n *Node) ready(ctx context.Context) error {
	died := n.machine.died()
	if err := poll(ctx, died, n.portOpen); err != nil {
		return err
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(n.Addr(Plain)), kgo.RequestRetries(0))
	if err != nil {
		return err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	return poll(ctx, died, func(ctx context.Context) error { return n.registered(ctx, admin) })
}

func (n *Node) portOpen(ctx context.Context) error {
	conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", n.Addr(Plain))
	if err != nil {
		return err
	}
	return conn.Close()
}

func (n *Node) registered(ctx context.Context, admin *kadm.Client) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	m, err := admin.BrokerMetadata(ctx)
	switch {
	case err != nil:
		return err
	case m.Controller < 0:
		return errors.New("no controller yet")
	case !slices.Contains(m.Brokers.NodeIDs(), n.ID()):
		return fmt.Errorf("brokers %v answer, not yet this one", m.Brokers.NodeIDs())
	}
	return nil
}

// poll calls fn every 25 ms until it returns nil, ctx ends or the machine died. The last error says why.
func poll(ctx context.Context, died <-chan struct{}, fn func(context.Context) error) error {
	tick := time.NewTicker(25 * time.Millisecond)
	defer tick.Stop()
	for {
		err := fn(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-died:
			return errors.New("it ended by itself")
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		}
	}
}

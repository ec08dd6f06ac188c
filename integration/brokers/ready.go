package brokers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
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
	// The seed is asked, not the cluster: the client's own view may be another node's, and some seconds old.
	seed := client.SeedBrokers()[0]
	return poll(ctx, died, func(ctx context.Context) error { return n.registered(ctx, seed) })
}

func (n *Node) portOpen(ctx context.Context) error {
	conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", n.Addr(Plain))
	if err != nil {
		return err
	}
	return conn.Close()
}

func (n *Node) registered(ctx context.Context, seed *kgo.Broker) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	request := kmsg.NewPtrMetadataRequest()
	request.Topics = []kmsg.MetadataRequestTopic{} // none; nil would be all
	answer, err := seed.Request(ctx, request)
	if err != nil {
		return err
	}
	m := answer.(*kmsg.MetadataResponse)
	itself := func(b kmsg.MetadataResponseBroker) bool { return b.NodeID == n.ID() }
	switch {
	case m.ControllerID < 0:
		return errors.New("no controller yet")
	case !slices.ContainsFunc(m.Brokers, itself):
		return fmt.Errorf("metadata has %d brokers, not yet this one", len(m.Brokers))
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

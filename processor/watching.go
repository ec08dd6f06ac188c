package processor

import (
	"context"
	"net"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/assignor"
	"github.com/duewheel/duewheel/processor/group"
	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/peers"
)

// watchPeers tells other replicas that this one is there, and watches them until ctx ends.
func (s *shared) watchPeers(ctx context.Context, cl *kgo.Client) {
	if s.presence == nil {
		return
	}
	self, cfg := assignor.Replica(kafka.ClientID(cl), s.cfg.Instance), s.takeOutConfig(cl)
	watch := peers.NewWatch(&peers.Env{
		Self:        self,
		AtLeastOnce: s.cfg.Guarantee == AtLeastOnce,
		Addresses:   func(ctx context.Context) (map[string]string, error) { return s.peerAddresses(ctx, cl) },
		TakeOut: func(ctx context.Context, replica string) (int, error) {
			n, err := group.TakeOutReplica(ctx, cl, cfg, func(clientID string) bool { return assignor.ReplicaOf(clientID) == replica })
			if err == nil && (n > 0 || s.isRebalancing(ctx, cl)) { // else all have their shares already
				s.uneven.Ask() // a lane asks for its share at once, and not at its next heartbeat
			}
			return n, err
		},
		Dial: (&net.Dialer{}).DialContext,
		Log:  s.cfg.Logger,
	})
	s.presence.watch.Store(watch)
	s.presence.own.Begin(self)
	watch.Run(ctx)
}

// peerAddresses says where the replicas of the group are to be found; nil: not now. Where they do not say at which port, it is taken to be that of this one.
func (s *shared) peerAddresses(ctx context.Context, cl *kgo.Client) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, kafka.RequestTimeout)
	defer cancel()
	view, err := s.view(ctx, cl)
	if view == nil || err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(s.presence.address)
	if err != nil {
		return nil, err
	}
	for replica, address := range view.Addresses {
		if _, _, err := net.SplitHostPort(address); err != nil {
			view.Addresses[replica] = net.JoinHostPort(address, port)
		}
	}
	return view.Addresses, nil
}

// view is the group as its coordinator tells it; nil while it shares its partitions out.
func (s *shared) view(ctx context.Context, cl *kgo.Client) (*assignor.View, error) {
	return assignor.Describe(ctx, cl, s.cfg.Group, s.cfg.Protocol == ProtocolConsumer)
}

// isRebalancing reports whether the group shares its partitions out just now.
func (s *shared) isRebalancing(ctx context.Context, cl *kgo.Client) bool {
	view, err := s.view(ctx, cl)
	return view == nil && err == nil
}

// takeOutConfig is what a process is that takes others out of the group.
func (s *shared) takeOutConfig(cl *kgo.Client) group.Config {
	return group.Config{
		Group: s.cfg.Group, Protocol: s.cfg.Protocol, ClientID: s.clientID(cl, 0), InstanceID: s.cfg.InstanceID, SessionTimeout: s.cfg.SessionTimeout, Log: s.cfg.Logger,
	}
}

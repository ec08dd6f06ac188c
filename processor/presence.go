package processor

import (
	"context"
	"net"
	"net/http"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/assignor"
	"github.com/duewheel/duewheel/processor/group"
	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/peers"
)

// PresencePath is where what [Processor.Presence] returns has to be served.
const PresencePath = peers.Path

// presence is how replicas know of each other.
type presence struct {
	address string // where this one is found: host:port
	own     *peers.Presence
	watch   atomic.Pointer[peers.Watch] // of others; nil until Run
}

// counts are how many other replicas are heard, and how many were taken out of the group.
func (p *presence) counts() (heard, takenOut int64) {
	if p == nil {
		return 0, 0
	}
	if w := p.watch.Load(); w != nil {
		return w.Heard(), w.TakenOut()
	}
	return 0, 0
}

// end says that this replica stops in order.
func (p *presence) end() {
	if p != nil {
		p.own.End()
	}
}

// Presence has replicas of a group watch each other, so that what one of them had is with others soon after it has ended, and not when its session does. It is
// called before Run, and returns what other replicas ask for at [PresencePath] and address (host:port, as they reach this one). Without it or an address, and for static
// members, whose places are kept for them, sessions decide.
func (p *Processor) Presence(address string) http.Handler {
	own := peers.NewPresence()
	if p.cfg.InstanceID == "" && address != "" {
		p.presence = &presence{address: address, own: own}
	}
	return own
}

// presenceAddress is where other replicas find this one; empty: nowhere.
func (s *shared) presenceAddress() string {
	if s.presence == nil {
		return ""
	}
	return s.presence.address
}

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
			return group.TakeOutReplica(ctx, cl, cfg, func(clientID string) bool { return assignor.ReplicaOf(clientID) == replica })
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
	view, err := assignor.Describe(ctx, cl, s.cfg.Group, s.cfg.Protocol == ProtocolConsumer)
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

// takeOutConfig is what a process is that takes others out of the group.
func (s *shared) takeOutConfig(cl *kgo.Client) group.Config {
	return group.Config{
		Group: s.cfg.Group, Protocol: s.cfg.Protocol, ClientID: s.clientID(cl, 0), InstanceID: s.cfg.InstanceID, SessionTimeout: s.cfg.SessionTimeout, Log: s.cfg.Logger,
	}
}

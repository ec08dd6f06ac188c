package group

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/wait"
)

// These errors keep a member out of its group until a person has acted.
var (
	// ErrInstanceInUse means that another process is a static member by the same instance id.
	ErrInstanceInUse = errors.New("group: another process uses this group.instance_id")
	// ErrUnsupportedProtocol means that the brokers do not serve the group protocol that is configured.
	ErrUnsupportedProtocol = errors.New("group: the brokers do not serve this group protocol")
)

// Protocol is a consumer group protocol.
type Protocol string

const (
	// Classic shares partitions out on the members, cooperative-sticky (KIP-429).
	Classic Protocol = "classic"
	// Consumer shares them out on the broker (KIP-848).
	Consumer Protocol = "consumer"
)

// Config is what a member has to know of itself and its group. All of it is needed but InstanceID.
type Config struct {
	Client            []kgo.Opt
	Group             string
	Topics            []string
	Protocol          Protocol
	Balancer          func() kgo.GroupBalancer // makes that of a stay, in the classic protocol
	ClientID          string
	InstanceID        string // of a static member's process (KIP-345); empty: it is not one
	Number            int    // of the member, in its process
	SessionTimeout    time.Duration
	HeartbeatInterval time.Duration
	// RebalanceTimeout is how long the group waits for a member to let partitions go.
	RebalanceTimeout time.Duration
	// Named is told the id that the member has in the group, each time that it is given partitions. It must not wait.
	Named func(id string)
	// Until ends when nothing may wait for brokers any more.
	Until context.Context
	Log   *slog.Logger
}

// Group is a consumer group as one of its members sees it.
type Group struct {
	cfg       Config
	standing  *Standing
	handovers chan Handover
	wg        sync.WaitGroup
}

// New makes a member that has not joined, and notes in standing how it fares.
func New(cfg Config, standing *Standing) *Group {
	return &Group{cfg: cfg, standing: standing, handovers: make(chan Handover)}
}

// Handovers is what the group gives and takes.
func (g *Group) Handovers() <-chan Handover { return g.handovers }

// Wait returns when every stay is over and its client closed.
func (g *Group) Wait() { g.wg.Wait() }

// AwaitProtocol returns when brokers have answered that they serve the group's protocol. The client
// would fall back to the classic one without a word, and share partitions out in another way than
// the replicas that were told to use that one.
func (g *Group) AwaitProtocol(ctx context.Context, cl *kgo.Client) error {
	if g.cfg.Protocol != Consumer {
		return nil
	}
	for {
		served, err := kafka.ServesConsumerProtocol(ctx, cl)
		switch {
		case err == nil && !served:
			return fmt.Errorf("%w: group.protocol is %s; set it to %s, or upgrade the brokers to Kafka 4.0 or, better, 4.3, and finalize the feature group.version",
				ErrUnsupportedProtocol, Consumer, Classic)
		case err == nil, ctx.Err() != nil:
			return nil
		}
		g.cfg.Log.Warn("brokers do not say which group protocols they serve; asking again", "error", err)
		wait.For(ctx, time.Second)
	}
}

package group

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/duewheel/duewheel/processor/kafka"
)

// A Stay is one stay in the group. Its client only joins, heartbeats and is told which partitions it
// has; it never reads, because reading starts where the checkpoint says, not where the client would.
//
// The client calls back on goroutines of its own. The callbacks touch nothing: they hand over, and a
// revocation waits until its partitions have been let go.
type Stay struct {
	g        *Group
	cl       *kgo.Client
	cancel   context.CancelFunc     // gives up what the client still tries
	instance *string                // of a static member
	owner    atomic.Pointer[string] // the member id that the partitions were given to; nil: there are none
	refused  chan struct{}          // the group may not take the member because of a topic that it names
	ended    chan struct{}          // closed when the stay is over and callbacks must not wait any more
	left     chan struct{}          // closed when the client is closed
}

// Handover is what the group has given and taken.
type Handover struct {
	From     *Stay
	Assigned []kafka.TopicPartition
	Revoked  []kafka.TopicPartition
	Lost     bool // Revoked: the group has already given them away
	Renamed  bool // the group has given this member up, and has taken it in again in another name: another member may have had its partitions since
	done     chan struct{}
}

// Done lets the group go on: what was revoked may be given to others.
func (h Handover) Done() { close(h.done) }

// Join begins a stay.
func (g *Group) Join() (*Stay, error) {
	ctx, cancel := context.WithCancel(context.Background())
	s := &Stay{g: g, cancel: cancel, refused: make(chan struct{}, 1), ended: make(chan struct{}), left: make(chan struct{}), instance: instanceOf(&g.cfg, g.cfg.Number)}
	g.standing.set(false, nil)
	cl, err := kgo.NewClient(append(s.options(), kgo.WithContext(ctx))...)
	if err != nil {
		cancel()
		return nil, fmt.Errorf("make group member: %w", err)
	}
	cl.PauseFetchTopics(g.cfg.Topics...)
	s.cl = cl
	g.wg.Go(s.watch)
	if g.cfg.Protocol == Consumer {
		g.wg.Go(s.nameShown)
	}
	return s, nil
}

// instanceOf is the instance id of a static member; nil: it is not one.
func instanceOf(cfg *Config, number int) *string {
	if cfg.InstanceID == "" {
		return nil
	}
	return kmsg.StringPtr(fmt.Sprintf("%s-%d", cfg.InstanceID, number))
}

// options are those of a member's client.
func (s *Stay) options() []kgo.Opt {
	cfg := &s.g.cfg
	opts := append(kafka.Options(cfg.Client),
		kgo.ClientID(cfg.ClientID),
		kgo.ConsumerGroup(cfg.Group),
		kgo.ConsumeTopics(cfg.Topics...),
		kgo.SessionTimeout(cfg.SessionTimeout),
		kgo.RebalanceTimeout(cfg.RebalanceTimeout),
		kgo.HeartbeatInterval(cfg.HeartbeatInterval),
		kgo.MetadataMinAge(100*time.Millisecond),
		kgo.MetadataMaxAge(30*time.Second), // how soon added partitions are taken up
		kgo.DisableAutoCommit(),
		kgo.OnPartitionsAssigned(func(_ context.Context, cl *kgo.Client, ps map[string][]int32) {
			s.stands(true, nil) // called also when there is no partition for this member
			id, _ := cl.GroupMetadata()
			if s.renamed(id) {
				s.hand(Handover{Renamed: true})
				return
			}
			s.owner.Store(&id)
			s.g.cfg.Named(id)
			s.hand(Handover{Assigned: kafka.Flatten(ps)})
		}),
		kgo.OnPartitionsRevoked(func(_ context.Context, cl *kgo.Client, ps map[string][]int32) {
			if id, _ := cl.GroupMetadata(); s.renamed(id) {
				s.hand(Handover{Renamed: true})
				return
			}
			s.hand(Handover{Revoked: kafka.Flatten(ps)})
		}),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, ps map[string][]int32) {
			s.owner.Store(nil)
			s.hand(Handover{Revoked: kafka.Flatten(ps), Lost: true})
		}),
		kgo.WithHooks(managed(func(err error) { s.stands(false, s.g.refusal(err)) })),
		kgo.AdjustFetchOffsetsFn(anyOffset),
	)
	if cfg.Protocol == Consumer {
		opts = append(opts, kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer()))
	} else {
		opts = append(opts, kgo.Balancers(cfg.Balancer()))
	}
	if s.instance != nil {
		opts = append(opts, kgo.InstanceID(*s.instance))
	}
	return opts
}

// anyOffset spares a member's client to wait for offsets to be stable, and to look them up in the log:
// it never reads.
func anyOffset(_ context.Context, offsets map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
	for _, ps := range offsets {
		for p := range ps {
			ps[p] = kgo.NewOffset().At(0)
		}
	}
	return offsets, nil
}

// hand hands over, and waits until that is done or the stay is over.
func (s *Stay) hand(h Handover) {
	h.From, h.done = s, make(chan struct{})
	select {
	case s.g.handovers <- h:
	case <-s.ended:
		return
	}
	select {
	case <-h.done:
	case <-s.ended:
	}
}

// watch logs the errors of the member's client, which it reports like fetches, until it is closed. What
// goes on is said once a minute: the client asks for metadata ten times a second while something is wrong, and to be let in every few seconds.
func (s *Stay) watch() {
	logged, at := "", time.Time{}
	news := func(err error) bool {
		if err.Error() == logged && time.Since(at) < time.Minute && !s.g.standing.takenSince(at) {
			return false
		}
		logged, at = err.Error(), time.Now()
		return true
	}
	for {
		fs := s.cl.PollFetches(context.Background())
		if fs.IsClientClosed() {
			return
		}
		fs.EachError(func(topic string, partition int32, err error) {
			if why, ok := groupError(err); ok {
				if kafka.IsAny(why, kerr.TopicAuthorizationFailed) {
					s.lookAgain()
				}
				if why = s.g.refusal(why); news(why) {
					s.g.cfg.Log.Error("not in the group; trying again", "error", why)
				}
				return
			}
			if news(err) {
				s.g.cfg.Log.Warn("the client of the group member has met an error; it tries again", "topic", topic, "partition", partition, "error", err)
			}
		})
	}
}

// stands notes how the member stands with the group, unless the stay is over that says so.
func (s *Stay) stands(joined bool, err error) {
	select {
	case <-s.ended:
	default:
		s.g.standing.set(joined, err)
	}
}

// renamed reports whether the partitions were given to a member of another name. A group of the classic protocol that answers a JoinGroup
// with UNKNOWN_MEMBER_ID has given the member up; the client (kgo v1.22) asks again without a name, keeps its partitions, and has the new
// name and generation before it learns of the new assignment. Brokers take offset commits in that name for every partition.
func (s *Stay) renamed(id string) bool {
	owner := s.owner.Load()
	return owner != nil && *owner != id
}

// Member is what requests say of the member that it is now: one that is not valid while the partitions are not known to be its own.
func (s *Stay) Member() kafka.Member {
	id, gen := s.cl.GroupMetadata()
	if s.owner.Load() == nil || s.renamed(id) {
		return kafka.Member{Generation: -1}
	}
	return kafka.Member{ID: id, Generation: gen, Instance: s.instance}
}

// Rebalance asks the group to share its partitions out anew, soon by what brokers say of its topics now.
func (s *Stay) Rebalance() {
	s.cl.ForceMetadataRefresh()
	s.cl.ForceRebalance()
}

// Leave ends a stay: callbacks stop waiting, and the group is told. It returns at once.
func (s *Stay) Leave() {
	select {
	case <-s.ended:
		return
	default:
	}
	close(s.ended)
	s.g.wg.Go(func() {
		defer close(s.left)
		defer s.cancel()
		defer time.AfterFunc(s.g.cfg.SessionTimeout, s.cancel).Stop()
		defer context.AfterFunc(s.g.cfg.Until, s.cancel)()
		if s.instance != nil && s.g.cfg.Protocol == Consumer {
			s.stepOut()
		}
		s.cl.Close()
	})
}

// Left is closed when the client of a stay that was ended is: at the latest when the group gives the
// member up by itself, even if no broker answers.
func (s *Stay) Left() <-chan struct{} { return s.left }

// stepOut tells the group that a static member is gone for a while: else no other
// member may take its place, itself after a restart included, until its session ends. The client says so,
// too, but without the instance id, which brokers refuse (kgo v1.22.2).
func (s *Stay) stepOut() {
	id, _ := s.cl.GroupMetadata()
	s.cl.LeaveGroup() // ends its heartbeats
	ctx, cancel := context.WithTimeout(s.g.cfg.Until, kafka.RequestTimeout)
	defer cancel()
	if err := endHeartbeats(ctx, s.cl, s.g.cfg.Group, id, s.instance); err != nil && !errors.Is(err, kerr.UnknownMemberID) {
		s.g.cfg.Log.Warn("the group was not told that this static member stops; its place is kept until its session ends", "error", err)
	}
}

// endHeartbeats says of a member of the consumer protocol that it has left for good (epoch -1, KIP-848) or, if it is a static one, for a while (-2), so that the
// next one of that instance id gets its place.
func endHeartbeats(ctx context.Context, cl *kgo.Client, group, id string, instance *string) error {
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Group, req.MemberID, req.InstanceID, req.MemberEpoch = group, id, instance, -1
	if instance != nil {
		req.MemberEpoch = -2
	}
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(resp.ErrorCode)
}

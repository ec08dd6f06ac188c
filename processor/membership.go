package processor

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/assignor"
	"github.com/duewheel/duewheel/processor/kafka"
)

// A membership is one stay of a lane in the consumer group. Its client only joins, heartbeats
// and is told which partitions it has; it never reads, because reading is the reader's affair
// and starts where the checkpoint says, not where the client would.
//
// The client calls back on goroutines of its own. The callbacks touch nothing: they hand over to
// the lane, and a revocation waits until the lane has let go, so that no other member is given the
// partition while this lane still writes for it.
type membership struct {
	cl       *kgo.Client
	cancel   context.CancelFunc // gives up what the client still tries
	instance *string            // of a static member
	ended    chan struct{}      // closed when the stay is over and callbacks must not wait any more
	done     chan struct{}      // closed when the client is closed
}

// handover is what a callback of the membership tells the lane.
type handover struct {
	from     *membership
	assigned []topicPartition
	revoked  []topicPartition
	lost     bool          // revoked: the group has already given them away
	taken    chan struct{} // closed by the lane when it has acted
}

func (l *lane) join() (*membership, error) {
	ctx, cancel := context.WithCancel(context.Background())
	m := &membership{cancel: cancel, ended: make(chan struct{}), done: make(chan struct{})}
	l.standing.set(false, nil)
	if l.cfg.InstanceID != "" {
		id := fmt.Sprintf("%s-%d", l.cfg.InstanceID, l.n)
		m.instance = &id
	}
	var topics []string
	for _, r := range l.cfg.Routes {
		topics = append(topics, r.Topic)
	}
	cl, err := kgo.NewClient(append(l.memberOpts(m), kgo.WithContext(ctx), kgo.ConsumeTopics(topics...))...)
	if err != nil {
		cancel()
		return nil, fmt.Errorf("make group member: %w", err)
	}
	cl.PauseFetchTopics(topics...)
	m.cl = cl
	l.wg.Go(func() { m.watch(l) })
	return m, nil
}

// memberOpts are the options of a member's client.
func (l *lane) memberOpts(m *membership) []kgo.Opt {
	opts := append(kafka.Options(l.cfg.Client),
		kgo.ClientID(assignor.ClientID(kafka.ClientID(l.reader), l.cfg.Instance, l.n)),
		kgo.ConsumerGroup(l.cfg.Group),
		kgo.SessionTimeout(l.cfg.SessionTimeout),
		// A rebalance waits this long for a member that stopped answering; a revocation here
		// waits for a turn, which TurnTimeout bounds.
		kgo.RebalanceTimeout(max(l.cfg.SessionTimeout, l.cfg.TurnTimeout+2*time.Second)),
		kgo.HeartbeatInterval(l.cfg.HeartbeatInterval),
		kgo.MetadataMinAge(100*time.Millisecond),
		kgo.MetadataMaxAge(30*time.Second), // how soon added partitions are taken up
		kgo.DisableAutoCommit(),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, ps map[string][]int32) {
			l.stands(m, true, nil) // called also when there is no partition for this member
			l.hand(m, handover{assigned: kafka.Flatten(ps)})
		}),
		kgo.OnPartitionsRevoked(func(_ context.Context, _ *kgo.Client, ps map[string][]int32) {
			l.hand(m, handover{revoked: kafka.Flatten(ps)})
		}),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, ps map[string][]int32) {
			l.hand(m, handover{revoked: kafka.Flatten(ps), lost: true})
		}),
		kgo.WithHooks(managed(func(err error) { l.stands(m, false, l.refusal(err)) })),
		kgo.AdjustFetchOffsetsFn(anyOffset),
	)
	if l.cfg.Protocol == ProtocolConsumer {
		opts = append(opts, kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer()))
	} else {
		opts = append(opts, kgo.Balancers(assignor.New(assignor.Replica(kafka.ClientID(l.reader), l.cfg.Instance), l.cfg.Standbys, l.p.holds)))
	}
	if m.instance != nil {
		opts = append(opts, kgo.InstanceID(*m.instance))
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

// hand hands over to the lane, and waits until that has acted or the stay is over.
func (l *lane) hand(m *membership, h handover) {
	h.from, h.taken = m, make(chan struct{})
	select {
	case l.handovers <- h:
	case <-m.ended:
		return
	}
	select {
	case <-h.taken:
	case <-m.ended:
	}
}

// watch logs the errors of the member's client, which it reports like fetches, until it is closed. What
// goes on is said once a minute: the client asks for metadata ten times a second while something is wrong.
func (m *membership) watch(l *lane) {
	told, at := "", time.Time{}
	for {
		fs := m.cl.PollFetches(context.Background())
		if fs.IsClientClosed() {
			return
		}
		fs.EachError(func(topic string, partition int32, err error) {
			if why, ok := groupError(err); ok {
				l.log.Error("not in the group; trying again", "error", l.refusal(why))
				return
			}
			if err.Error() != told || time.Since(at) >= time.Minute {
				told, at = err.Error(), time.Now()
				l.log.Warn("the client of the group member has met an error; it tries again", "topic", topic, "partition", partition, "error", err)
			}
		})
	}
}

// stands notes how the lane stands with the group, unless the stay is over that says so.
func (l *lane) stands(m *membership, joined bool, err error) {
	select {
	case <-m.ended:
	default:
		l.standing.set(joined, err)
	}
}

// leave ends a stay: callbacks stop waiting, and the group is told. It returns at once; done is
// closed when the client is: at the latest when the group gives the member up by itself, even if
// no broker answers.
func (l *lane) leave(m *membership) {
	select {
	case <-m.ended:
		return
	default:
	}
	close(m.ended)
	l.wg.Go(func() {
		defer close(m.done)
		defer m.cancel()
		defer time.AfterFunc(l.cfg.SessionTimeout, m.cancel).Stop()
		defer context.AfterFunc(l.p.until, m.cancel)()
		if m.instance != nil && l.cfg.Protocol == ProtocolConsumer {
			l.stepOut(m)
		}
		m.cl.Close()
	})
}

func (m *membership) member() kafka.Member {
	id, gen := m.cl.GroupMetadata()
	return kafka.Member{ID: id, Generation: gen, Instance: m.instance}
}

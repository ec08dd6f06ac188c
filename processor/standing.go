package processor

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/wait"
)

// standing is how a lane stands with its group. The client's callbacks write it, every goroutine may read it.
type standing struct {
	mu     sync.Mutex
	joined bool
	err    error // why the group has not taken it, when it last asked
	wait   error // what it has to wait for before it may ask
}

func (s *standing) set(joined bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.joined, s.err, s.wait = joined, err, nil
}

// await notes what the lane waits for before it asks; nil: for nothing any more.
func (s *standing) await(what error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wait = what
}

// why is what keeps a lane out, the best that is known: what the group has said, what was found on
// the way to it, what the lane waits for; empty for one that is in, or on its way.
func (s *standing) why(barred string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.joined:
		return ""
	case s.err != nil:
		return s.err.Error()
	case barred == "" && s.wait != nil:
		return s.wait.Error()
	}
	return barred
}

func (s *standing) get() (joined bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.joined, s.err
}

// errAwaitsTime is what a lane says of itself while it does not know what time it is.
var errAwaitsTime = errors.New("processor: waiting for the brokers to say what time it is")

// managed is told by the client what ends its stay in the group, each time that it tries again.
type managed func(error)

// OnGroupManageError implements kgo.HookGroupManageError.
func (f managed) OnGroupManageError(err error) { f(err) }

// refusal says what a person can do about an error with which the group does not take a member;
// the client asks again by itself, after a pause of up to 5 s.
func (l *lane) refusal(err error) error {
	switch {
	case kafka.IsAny(err, kerr.FencedInstanceID):
		// The other one has taken this one's place. To join anew as it would would take it back, and so on.
		return fmt.Errorf("%w: %s-%d; give each process its own. This one takes part again when the other one has left: %w",
			ErrInstanceInUse, l.cfg.InstanceID, l.n, err)
	case kafka.IsAny(err, kerr.UnreleasedInstanceID):
		return fmt.Errorf("%w: %s-%d; give each process its own. If the other one has crashed, its place is free after the session timeout, "+
			"or at once with `duewheel leave %s`: %w", ErrInstanceInUse, l.cfg.InstanceID, l.n, l.cfg.InstanceID, err)
	case kafka.IsAny(err, kerr.InvalidSessionTimeout):
		return fmt.Errorf("group.session_timeout %v is not what the brokers allow (group.min.session.timeout.ms, group.max.session.timeout.ms): %w",
			l.cfg.SessionTimeout, err)
	case kafka.IsAny(err, kerr.InconsistentGroupProtocol):
		return fmt.Errorf("group %s has members that are not duewheel's, or of another group.protocol: %w", l.cfg.Group, err)
	case kafka.IsAny(err, kerr.GroupAuthorizationFailed):
		return fmt.Errorf("not allowed to read group %s: %w", l.cfg.Group, err)
	case kafka.IsAny(err, kerr.GroupMaxSizeReached):
		return fmt.Errorf("group %s has as many members as the brokers allow (group.max.size): %w", l.cfg.Group, err)
	}
	return err
}

// groupError is what ended a member's stay, if that is what an error reported by its client is about.
func groupError(err error) (error, bool) {
	if e, ok := errors.AsType[*kgo.ErrGroupSession](err); ok {
		return e.Err, true
	}
	return nil, false
}

// stepOut tells the group that a static member is gone for a while (epoch -2, KIP-848): else no other
// member may take its place, itself after a restart included, until its session ends. The client says so,
// too, but without the instance id, which brokers refuse (kgo v1.22.2).
func (l *lane) stepOut(m *membership) {
	id := m.member().ID
	m.cl.LeaveGroup() // ends its heartbeats
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Group, req.MemberID, req.InstanceID, req.MemberEpoch = l.cfg.Group, id, m.instance, -2
	ctx, cancel := context.WithTimeout(l.p.until, kafka.RequestTimeout)
	defer cancel()
	resp, err := req.RequestWith(ctx, m.cl)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err != nil && !errors.Is(err, kerr.UnknownMemberID) {
		l.log.Warn("the group was not told that this static member stops; its place is kept until its session ends", "error", err)
	}
}

// awaitProtocol returns when brokers have answered that they serve the group's protocol. The client
// would fall back to the classic one without a word, and share partitions out in another way than
// the replicas that were told to use that one.
func (l *lane) awaitProtocol(ctx context.Context) error {
	if l.cfg.Protocol != ProtocolConsumer {
		return nil
	}
	for {
		served, err := kafka.ServesConsumerProtocol(ctx, l.reader)
		switch {
		case err == nil && !served:
			return fmt.Errorf("%w: group.protocol is %s; set it to %s, or upgrade the brokers to Kafka 4.3 and finalize the feature group.version",
				ErrUnsupportedProtocol, ProtocolConsumer, ProtocolClassic)
		case err == nil, ctx.Err() != nil:
			return nil
		}
		l.log.Warn("brokers do not say which group protocols they serve; asking again", "error", err)
		if !wait.For(ctx, time.Second) {
			return nil
		}
	}
}

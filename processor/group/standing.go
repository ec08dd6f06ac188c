package group

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/kafka"
)

// Standing is how a member stands with its group. The client's callbacks write it, every goroutine may read it. The zero value is that of one
// that has not asked.
type Standing struct {
	mu     sync.Mutex
	joined bool
	since  time.Time // when the group took it
	err    error     // why the group has not taken it, when it last asked
	wait   error     // what it has to wait for before it may ask
}

func (s *Standing) set(joined bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if joined && !s.joined {
		s.since = time.Now()
	}
	s.joined, s.err, s.wait = joined, err, nil
}

// Within reports whether the group has the member, and has taken it so long ago at least.
func (s *Standing) Within(least time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.joined && time.Since(s.since) >= least
}

// takenSince reports whether the group has taken the member after a time, and may have given it up again.
func (s *Standing) takenSince(t time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.since.After(t)
}

// Await notes what a member waits for before it asks; nil: for nothing any more.
func (s *Standing) Await(what error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wait = what
}

// Awaits is what a member waits for before it asks, or goes on where it is in the group already; nil: nothing.
func (s *Standing) Awaits() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.wait
}

// Why is what keeps a member out, the best that is known: what the group has said, what was found on
// the way to it, what the member waits for; empty for one that is in, or on its way.
func (s *Standing) Why(barred string) string {
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

// Get reports whether the group has the member, and why it has refused it.
func (s *Standing) Get() (joined bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.joined, s.err
}

// managed is told by the client what ends its stay in the group, each time that it tries again.
type managed func(error)

// OnGroupManageError implements kgo.HookGroupManageError.
func (f managed) OnGroupManageError(err error) { f(err) }

// refusal says what a person can do about an error with which the group does not take a member;
// the client asks again by itself, after a pause of up to 5 s.
func (g *Group) refusal(err error) error {
	switch {
	case kafka.IsAny(err, kerr.FencedInstanceID):
		// The other one has taken this one's place. To join anew as it would would take it back, and so on.
		return fmt.Errorf("%w: %s-%d; give each process its own. This one takes part again when the other one has left: %w",
			ErrInstanceInUse, g.cfg.InstanceID, g.cfg.Number, err)
	case kafka.IsAny(err, kerr.UnreleasedInstanceID):
		return fmt.Errorf("%w: %s-%d; give each process its own. If the other one has crashed, its place is free after the session timeout, "+
			"or at once with `duewheel leave %s`: %w", ErrInstanceInUse, g.cfg.InstanceID, g.cfg.Number, g.cfg.InstanceID, err)
	case kafka.IsAny(err, kerr.InvalidSessionTimeout):
		return fmt.Errorf("group.session_timeout %v is not what the brokers allow (group.min.session.timeout.ms, group.max.session.timeout.ms): %w",
			g.cfg.SessionTimeout, err)
	case kafka.IsAny(err, kerr.InconsistentGroupProtocol):
		return fmt.Errorf("group %s has members that are not duewheel's, or of another group.protocol: %w", g.cfg.Group, err)
	case kafka.IsAny(err, kerr.GroupAuthorizationFailed):
		return fmt.Errorf("not allowed to read group %s: %w", g.cfg.Group, err)
	case kafka.IsAny(err, kerr.GroupMaxSizeReached):
		return fmt.Errorf("group %s has as many members as the brokers allow (group.max.size): %w", g.cfg.Group, err)
	}
	return err
}

// groupError is what ended a member's stay, if that is what an error reported by its client is about.
func groupError(err error) (error, bool) {
	if e, ok := errors.AsType[*kgo.ErrGroupSession](err); ok {
		if strings.Contains(e.Err.Error(), "consecutive attempts") { // which the client counts, so that it would be another error each time (kgo v1.22.3)
			return cmp.Or(errors.Unwrap(e.Err), e.Err), true
		}
		return e.Err, true
	}
	return nil, false
}

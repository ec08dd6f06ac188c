package group

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// A message that says why a lane is not in its group says what to do.
func TestRefusal(t *testing.T) {
	g := New(Config{Group: "g", InstanceID: "eu"}, &Standing{})
	for err, says := range map[error]string{
		kerr.FencedInstanceID:          "eu-0; give each process its own",
		kerr.UnreleasedInstanceID:      "`duewheel leave eu`",
		kerr.InvalidSessionTimeout:     "group.min.session.timeout.ms",
		kerr.InconsistentGroupProtocol: "another group.protocol",
		kerr.GroupAuthorizationFailed:  "not allowed to read group",
		kerr.GroupMaxSizeReached:       "group.max.size",
		kerr.UnknownMemberID:           "join", // as it came
	} {
		got := g.refusal(fmt.Errorf("join: %w", err))
		ours := strings.ReplaceAll(got.Error(), err.Error(), "") // what Kafka itself says of it does not tell what to do
		if !errors.Is(got, err) || !strings.Contains(ours, says) {
			t.Errorf("%v, want one that says %s", got, says)
		}
		inUse := errors.Is(err, kerr.FencedInstanceID) || errors.Is(err, kerr.UnreleasedInstanceID)
		if errors.Is(got, ErrInstanceInUse) != inUse {
			t.Errorf("%v: the instance id is in use: %v", got, !inUse)
		}
	}
}

// What the client reports of its stay in the group shows, as long as that stay goes on.
func TestStands(t *testing.T) {
	standing := &Standing{}
	s := &Stay{g: New(Config{}, standing), ended: make(chan struct{})}
	shows := func(what string, joined bool, why string) {
		t.Helper()
		if got, _ := standing.Get(); got != joined || standing.Why("") != why {
			t.Errorf("%s: joined %v, %q", what, got, standing.Why(""))
		}
	}
	why := errors.New("no")
	s.stands(false, why)
	shows("refused", false, "no")
	s.stands(true, nil)
	shows("joined", true, "")
	close(s.ended)
	s.stands(false, why)
	shows("when the stay is over", true, "")
	if err, ok := groupError(&kgo.ErrGroupSession{Err: why}); !ok || err != why {
		t.Errorf("what ended a stay: %v, %v", err, ok)
	}
	if _, ok := groupError(why); ok {
		t.Error("another error is taken for the end of a stay")
	}
}

// The best that is known of what keeps a member out is told: what the group has said, before what was found on the way, before what it waits for.
func TestWhyOutside(t *testing.T) {
	said, waits := errors.New("said"), errors.New("waits")
	for _, c := range []struct {
		name   string
		stands func(*Standing)
		barred string
		want   string
	}{
		{"on its way", func(*Standing) {}, "", ""},
		{"it waits", func(s *Standing) { s.Await(waits) }, "", "waits"},
		{"it waits, and a cause is known", func(s *Standing) { s.Await(waits) }, "barred", "barred"},
		{"refused", func(s *Standing) { s.set(false, said) }, "barred", "said"},
		{"in", func(s *Standing) { s.set(true, nil) }, "barred", ""},
		{"it has waited, was in, and joins again", func(s *Standing) { s.Await(waits); s.set(true, nil); s.set(false, nil) }, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &Standing{}
			if c.stands(s); s.Why(c.barred) != c.want {
				t.Errorf("%q, want %q", s.Why(c.barred), c.want)
			}
		})
	}
}

// A member is in the group since it was taken in, whatever the group has told it since; one that is taken in again, since then.
func TestWithinSince(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Standing{}
		within := func(what string, want bool) {
			t.Helper()
			if s.Within(time.Minute) != want {
				t.Errorf("%s: in it for a minute is %v", what, !want)
			}
		}
		within("before", false)
		s.set(true, nil)
		time.Sleep(time.Minute / 2)
		s.set(true, nil) // another rebalance
		within("half a minute later", false)
		time.Sleep(time.Minute / 2)
		within("a minute later", true)
		s.set(false, nil)
		within("out", false)
		s.set(true, nil)
		within("in again", false)
	})
}

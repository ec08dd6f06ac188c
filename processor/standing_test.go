package processor

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Whoever reads why a lane is not in its group is told what to do.
func TestRefusal(t *testing.T) {
	l := testLane(t, func(cfg *Config) { cfg.InstanceID = "eu" })
	for err, says := range map[error]string{
		kerr.FencedInstanceID:          "eu-0; give each process its own",
		kerr.UnreleasedInstanceID:      "`duewheel leave eu`",
		kerr.InvalidSessionTimeout:     "group.min.session.timeout.ms",
		kerr.InconsistentGroupProtocol: "another group.protocol",
		kerr.GroupAuthorizationFailed:  "not allowed to read group",
		kerr.GroupMaxSizeReached:       "group.max.size",
		kerr.UnknownMemberID:           "join", // as it came
	} {
		got := l.refusal(fmt.Errorf("join: %w", err))
		ours := strings.ReplaceAll(got.Error(), err.Error(), "") // what Kafka itself says of it tells nobody what to do
		if !errors.Is(got, err) || !strings.Contains(ours, says) {
			t.Errorf("%v, want one that says %s", got, says)
		}
		inUse := errors.Is(err, kerr.FencedInstanceID) || errors.Is(err, kerr.UnreleasedInstanceID)
		if errors.Is(got, ErrInstanceInUse) != inUse {
			t.Errorf("%v: the instance id is in use: %v", got, !inUse)
		}
	}
}

// What the client reports of its stay in the group shows, as long as that is the lane's stay.
func TestStands(t *testing.T) {
	l := testLane(t)
	m := &membership{ended: make(chan struct{})}
	why := errors.New("no")
	l.stands(m, false, why)
	if ready, _ := l.p.Ready(); ready || len(l.p.Stats().Outside) != 1 || l.p.Stats().Outside[0] != "lane 0: no" {
		t.Errorf("refused: ready %v, outside %v", ready, l.p.Stats().Outside)
	}
	l.stands(m, true, nil)
	if ready, _ := l.p.Ready(); !ready || l.p.Stats().Outside != nil {
		t.Errorf("joined: ready %v, outside %v", ready, l.p.Stats().Outside)
	}
	close(m.ended)
	l.stands(m, false, why)
	if ready, _ := l.p.Ready(); !ready {
		t.Error("a stay that is over says that the lane is not in the group")
	}
	if err, ok := groupError(&kgo.ErrGroupSession{Err: why}); !ok || err != why {
		t.Errorf("what ended a stay: %v, %v", err, ok)
	}
	if _, ok := groupError(why); ok {
		t.Error("another error is taken for the end of a stay")
	}
}

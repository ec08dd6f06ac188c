package integration

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/integration/load"
)

// A consumer that is started with the group's name by mistake, as people look into topics, is not let in: it would get partitions, and commit offsets in the
// place of checkpoints.
func TestForeignMember(t *testing.T) {
	t.Parallel()
	s := newTenant(t, shared(t), setting{seed: newSeed(t)})
	p := s.start(s.replica())
	s.awaitLive(p, 4)
	refused := make(chan error, 1)
	cl, err := kgo.NewClient(append(s.opts(), kgo.ConsumerGroup(s.name), kgo.ConsumeTopics(s.route.Topic), kgo.Balancers(kgo.CooperativeStickyBalancer(), kgo.RangeBalancer()),
		kgo.WithHooks(refusedJoin(refused)))...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	select {
	case err := <-refused:
		if !errors.Is(err, kerr.InconsistentGroupProtocol) {
			t.Errorf("it is refused by %v", err)
		}
	case <-ctx.Done():
		t.Error("it is not refused")
	}
	s.load(load.Config{Records: 500, Due: []load.Due{{Weight: 1, To: time.Second}}})
	s.arrive()
	p.stop()
	s.judge()
}

// refusedJoin takes the error with which a group does not let a member in.
type refusedJoin chan error

// OnGroupManageError implements kgo.HookGroupManageError.
func (c refusedJoin) OnGroupManageError(err error) {
	select {
	case c <- err:
	default:
	}
}

package standby

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/local"
	"github.com/duewheel/duewheel/processor/pending"
	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
)

// standby is a second copy of what is pending in a partition that another replica owns. It reads
// the log into the local store and follows the owner's checkpoints. It writes nothing to Kafka. It is
// guarded by Set.mu.
type standby struct {
	*pending.Follower
	local.Heir

	id     kafka.TopicID
	mark   topics.Mark
	unread kafka.Unread
}

// open makes a standby of what the local store holds, and of a checkpoint. It may take long, so
// it is called before any other goroutine knows the standby.
func (s *standby) open(ctx context.Context, c state.Checkpoint, logStart int64) error {
	if c.LowWater < logStart {
		return fmt.Errorf("%w: it begins at %d, and %d is needed; what the local store holds is left alone", local.ErrLogTruncated, logStart, c.LowWater)
	}
	env := pending.Env{Route: s.Route, Mark: s.mark}
	if err := env.Knows(c); err != nil {
		return err
	}
	got, err := s.Inherit(ctx, c, logStart, math.MaxInt64)
	if err != nil {
		return err
	}
	s.Follower, err = pending.Follow(env, c, s.Store, got)
	return err
}

// read takes in what was read, or keeps it until the owner has accepted it.
func (s *standby) read(rs []*kgo.Record) error {
	if len(rs) > 0 {
		s.unread.Read()
	}
	for _, r := range rs {
		kept, err := s.Accept(r)
		if err != nil {
			return err
		}
		if !kept {
			r.Recycle()
		}
	}
	return s.Sync()
}

// refused leaves the partition alone for a while that brokers do not let be read. What was read before is as good as ever. The error
// is what ends the standby.
func (s *standby) refused(why error, lasting time.Duration) error {
	if !kafka.IsRefusedFetch(why) {
		return why
	}
	gone, news := s.unread.Hear(s.Reader, s.TP, why, lasting)
	if gone {
		return why
	}
	if news != nil {
		s.Log.Warn("standby cannot read its partition; trying again", "error", news)
	}
	return nil
}

package ahead

import (
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/duewheel/duewheel/state"
)

// A log that is trimmed between the two questions, for the checkpoint and for where it begins, has lost nothing.
func TestLookAtALogThatIsTrimmedBetween(t *testing.T) {
	s := newSight(t)
	s.write(10)
	s.commit(state.Checkpoint{Offset: 7, LowWater: 1, Watermark: state.Key{Due: testNow + 1000}})
	var asked atomic.Bool
	owner := *s
	owner.cl = s.client()
	s.c.ControlKey(int16(kmsg.ListOffsets), func(kmsg.Request) (kmsg.Response, error, bool) {
		if !asked.Swap(true) {
			s.c.SleepControl(func() {
				owner.commit(state.Checkpoint{Offset: 10, LowWater: 10, Watermark: state.Key{Due: testNow + 10_000, Seq: 9}})
				owner.cut(10)
			})
		}
		return nil, nil, false
	})
	if got := s.look(); got.Lost || len(offsetsOf(got.Partition)) > 0 {
		t.Errorf("lost: %v, pending are %v", got.Lost, offsetsOf(got.Partition))
	}
}

package ahead

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
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

// What was carried is found by its handle also when the memory of what is gone was given back.
func TestTidyKeepsCopies(t *testing.T) {
	const many = 200_000
	p := opened(t, state.Checkpoint{Offset: 3 * many}, Env{})
	carried := request(1, testNow+5000)
	carried.Headers, _ = topics.AppendCopy(nil, carried.Headers, testMark, topics.Copy{Due: testNow + 5000, Timestamp: carried.Timestamp.UnixMilli()}, nil)
	accept(p, request(0, testNow+5000), carried)
	for i := int64(1); i < many; i++ {
		accept(p, request(2*i, testNow+i+1, topics.HeaderID, fmt.Sprint(i)), cancelOf(2*i+1, fmt.Sprint(i)))
	}
	if len(p.chunks) > 40 {
		t.Errorf("%d chunks", len(p.chunks))
	}
	if got := offsetsOf(p); len(got) != 1 || got[0] != 0 {
		t.Errorf("pending are %v", got)
	}
	accept(p, cancelOf(2*many, topics.Handle{Partition: 3, Due: testNow + 5000}.String()))
	p.Decide()
	if got := offsetsOf(p); len(got) != 0 {
		t.Errorf("pending are %v, and that was cancelled", got)
	}
}

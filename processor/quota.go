package processor

import (
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// quota knows until when brokers want to be left alone by a lane's producers (KIP-219). The
// client's connection waits for that by itself; but a new one would not, and a transaction that
// waits holds up all who read its targets. So no turn with records begins before.
type quota struct{ until atomic.Pointer[time.Time] } // which a clock that is set does not move

// OnBrokerThrottle is kgo.HookBrokerThrottle.
func (q *quota) OnBrokerThrottle(_ kgo.BrokerMetadata, d time.Duration, after bool) {
	if !after {
		return // it has waited already
	}
	until := time.Now().Add(d)
	for was := q.until.Load(); (was == nil || was.Before(until)) && !q.until.CompareAndSwap(was, &until); was = q.until.Load() {
	}
}

func (q *quota) left() time.Duration {
	until := q.until.Load()
	if until == nil {
		return 0
	}
	return max(time.Until(*until), 0)
}

func (q *quota) lasts() bool { return q.left() > 0 }

// recently reports whether one has ended not longer ago than this, or lasts.
func (q *quota) recently(d time.Duration) bool {
	until := q.until.Load()
	return until != nil && time.Until(*until) > -d
}

package producer

import (
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Quota knows until when brokers want to be left alone by some producers (KIP-219), whose clients have it as a hook. The
// client's connection waits for that by itself; but a new one would not, and a transaction that
// waits holds up all who read its targets. So no turn with records begins before.
type Quota struct{ until atomic.Pointer[time.Time] } // which a clock that is set does not move

// OnBrokerThrottle is kgo.HookBrokerThrottle.
func (q *Quota) OnBrokerThrottle(_ kgo.BrokerMetadata, d time.Duration, after bool) {
	if !after {
		return // it has waited already
	}
	until := time.Now().Add(d)
	for was := q.until.Load(); (was == nil || was.Before(until)) && !q.until.CompareAndSwap(was, &until); was = q.until.Load() {
	}
}

// Left is for how long.
func (q *Quota) Left() time.Duration {
	until := q.until.Load()
	if until == nil {
		return 0
	}
	return max(time.Until(*until), 0)
}

// Lasts reports whether they do.
func (q *Quota) Lasts() bool { return q.Left() > 0 }

// Recently reports whether one has ended not longer ago than this, or lasts.
func (q *Quota) Recently(d time.Duration) bool {
	until := q.until.Load()
	return until != nil && time.Until(*until) > -d
}

package turn

import (
	"math"
	"time"
)

const (
	retryGrowth = 1.25 // each pause is so many times the one before
	retryJitter = 0.2  // of each pause, up or down: what failed together does not come back together
)

// retryGrain puts tries that are near each other in one turn.
const retryGrain = 250 // ms

// retryDue is when a record is tried again that may be from due on.
func retryDue(due int64) int64 { return (due + retryGrain - 1) / retryGrain * retryGrain }

// retryPause is after what time the record at an offset is tried again that was tried so often
// before. It follows from what the retry record carries, so it goes on growing whichever replica
// reads that. So a record is delivered a quarter as long after its target has come back as that was
// away, at most, and a target that stays away costs it a few tries an hour.
func retryPause(e *Env, offset int64, attempts int) time.Duration {
	pause := float64(e.RetryBackoff) * math.Pow(retryGrowth, float64(min(attempts, 64)))
	pause = min(pause, float64(e.RetryBackoffMax))
	mixed := (uint64(offset)*31 + uint64(attempts) + 1) * 0x9e3779b97f4a7c15
	share := float64(mixed>>11) / (1 << 53) // 0 to 1, evenly
	return time.Duration(pause * (1 - retryJitter + 2*retryJitter*share))
}

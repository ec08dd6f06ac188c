package wait

import (
	"math/rand/v2"
	"time"
)

// Backoff is how long a loop rests whose tries go on failing: not at all the first time, because most
// faults are over by then, and then longer each time, up to a bound. What has gone well for a while
// begins anew. The zero value is ready.
type Backoff struct {
	n      int
	rested time.Time // when the last rest was to be over
}

const (
	// LeastRest is the first rest, but for none.
	LeastRest = 100 * time.Millisecond
	// MostRest bounds how late something is noticed to be well again.
	MostRest = 5 * time.Second
	// wellAfter is how long after a rest nothing may have failed, for the next failure to be the first.
	wellAfter = 15 * time.Second
)

// Failed notes a failure, and returns how long to rest before the next try.
func (b *Backoff) Failed() time.Duration {
	if time.Since(b.rested) > wellAfter {
		b.n = 0
	}
	rest := Growing(b.n, LeastRest, MostRest)
	if b.n == 0 {
		rest = 0
	}
	b.n++
	b.rested = time.Now().Add(rest)
	return rest
}

// Growing is the pause before another try, after so many: it doubles from least up to most, less up to
// a quarter, so that those who fail together do not try again together.
func Growing(tries int, least, most time.Duration) time.Duration {
	pause := most
	if tries < 20 {
		pause = min(least<<tries, most)
	}
	return pause - rand.N(pause/4+1)
}

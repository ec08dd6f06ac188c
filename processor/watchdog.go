package processor

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrHangs means that something does not come back that this program cannot do without: a read of the disk, mostly. What Run has begun is not ended, so the
// program has to end: the group goes on believing in its members until then, and nobody else gets their partitions.
var ErrHangs = errors.New("processor: it hangs")

// leastPatience is for how long a lane may take no step and be alive, at least.
const leastPatience = 30 * time.Second

// watchdog looks whether lanes take steps.
type watchdog struct {
	cfg   *Config
	lanes []*lane
}

// patience is for how long a lane may take no step and be alive: a rebalance waits for a turn.
func (d watchdog) patience() time.Duration { return max(leastPatience, 2*d.cfg.TurnTimeout) }

// alive reports whether every lane has taken a step lately.
func (d watchdog) alive() bool {
	_, still := d.stillFor()
	return still <= d.patience()
}

// stillFor is for how long the lane has taken no step that has taken none for longest.
func (d watchdog) stillFor() (lane int, still time.Duration) {
	for n, l := range d.lanes {
		if at := l.stepped.Load(); at != nil && time.Since(*at) > still {
			lane, still = n, time.Since(*at)
		}
	}
	return lane, still
}

// wait waits until everything has ended, and then returns nil; or until a lane has taken no step for twice as long as is taken for alive; or until it
// has not ended for long after it was told to.
func (d watchdog) wait(ctx context.Context, ended <-chan error) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	var stopping time.Time
	for seen := time.Duration(0); ; { // for how long this goroutine has seen a lane stand still: a process that was frozen has stood still as a whole
		select {
		case err := <-ended:
			return err
		case <-tick.C:
		}
		switch {
		case ctx.Err() == nil:
		case stopping.IsZero():
			stopping = time.Now()
		case time.Since(stopping) > d.cfg.ShutdownTimeout+shutdownGrace:
			return fmt.Errorf("%w: it has not ended %v after it was told to; reading or writing %s does not come back, mostly", ErrHangs, d.cfg.ShutdownTimeout+shutdownGrace, d.cfg.StateDir)
		}
		lane, still := d.stillFor()
		if seen += time.Second; still < seen {
			seen = still
		}
		if seen > 2*d.patience() && ctx.Err() == nil {
			return fmt.Errorf("%w: lane %d has done nothing for %v; reading or writing %s does not come back, mostly. The process ends, so that others get its partitions",
				ErrHangs, lane, still.Round(time.Second), d.cfg.StateDir)
		}
	}
}

// shutdownGrace is for how long a processor may take to end beyond its shutdown timeout: closing the store is not bounded.
const shutdownGrace = 10 * time.Second

package processor

import (
	"log/slog"
	"time"
)

// catchUps tells of those that take long.
type catchUps struct {
	log  *slog.Logger
	told time.Time
}

// tell writes a line for all partitions that are catching up, now and then while there are any.
func (c *catchUps) tell(ps []*partition, now time.Time) {
	var behind int
	var left, read, of int64
	speed, longest := 0.0, time.Duration(0)
	for _, p := range ps {
		if p.phase != PhaseCatchUp {
			continue
		}
		behind++
		g := &p.progress
		left += max(p.logEnd-g.was, 0)
		read += max(g.was-g.from, 0)
		of += max(p.logEnd-g.from, 0)
		speed += g.speed
		longest = max(longest, g.left(p.logEnd))
	}
	if behind == 0 || c.told.IsZero() {
		c.told = now
		return
	}
	if now.Sub(c.told) < progressTold {
		return
	}
	c.told = now
	c.log.Info("partitions are catching up", "partitions", behind, "read", read, "of", of, "records_per_second", int64(speed), "left", left, "takes_about", longest.Round(time.Second))
}

// progressTold is how often the log says how far catch-ups are that take long.
const progressTold = 5 * time.Second

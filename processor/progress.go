package processor

import (
	"fmt"
	"time"
)

// progress is how far a catch-up has come, and how fast it goes. It belongs to the lane.
type progress struct {
	from  int64     // where reading began
	at    time.Time // when it was last looked at
	was   int64     // the position then
	speed float64   // offsets/s, smoothed
}

// progressSmooth is over what time speed is smoothed: fetches bring many records at once.
const progressSmooth = 5 * time.Second

// look takes in the position.
func (g *progress) look(position int64, now time.Time) {
	took := now.Sub(g.at)
	if g.at.IsZero() || position < g.was {
		g.at, g.was = now, position
		return
	}
	if took < 100*time.Millisecond {
		return
	}
	speed := float64(position-g.was) / took.Seconds()
	if g.speed == 0 {
		g.speed = speed
	} else {
		share := min(took.Seconds()/progressSmooth.Seconds(), 1)
		g.speed += share * (speed - g.speed)
	}
	g.at, g.was = now, position
}

// done is which share of the log up to an end has been read, from 0 to 1.
func (g *progress) done(end int64) float64 {
	if end <= g.from {
		return 1
	}
	return min(max(float64(g.was-g.from)/float64(end-g.from), 0), 1)
}

// left is how long it takes to read the rest at the speed of now; 0: it cannot be told.
func (g *progress) left(end int64) time.Duration {
	if g.speed < 1 || end <= g.was {
		return 0
	}
	return time.Duration(float64(end-g.was) / g.speed * float64(time.Second))
}

// words are for people.
func (g *progress) words(end int64) string {
	text := fmt.Sprintf("%.0f %%, %.0f records/s", 100*g.done(end), g.speed)
	if left := g.left(end); left > 0 {
		text += fmt.Sprintf(", some %v left", left.Round(time.Second))
	}
	return text
}

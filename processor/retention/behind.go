package retention

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/duewheel/duewheel/processor/picture"
	"github.com/duewheel/duewheel/topics"
)

// tell says of which partitions the log may soon lose what is pending, and of which nothing can be carried, when that has lasted. What an open transaction
// holds back is as good as pending; copies are behind it, too, and L waits for them. While a partition is restored or catches up nothing of it is carried, whatever keeps it; a session's worth
// of that is a takeover.
func (c *Carrier) tell(pictures []picture.Partition) {
	for _, p := range pictures {
		g, of, behind, failing := c.of[p.TP()], c.Topics[p.Topic], "", ""
		catchesUp := p.Phase != picture.Live
		if catchesUp && time.Since(p.Since) <= c.SessionTimeout {
			continue
		}
		low, why := g.oldest(p), g.reason(p, c.throttled(c.SessionTimeout), of.Trouble.Get())
		switch keeps := c.keeps[p.Topic].Age; {
		case keeps <= 0:
		case low < min(g.ageing, p.Offset) && !g.remembers(p):
			behind = fmt.Sprintf("what is pending from offset %d on is older than three quarters of the %s that the topic keeps (retention.ms), and is lost when that is over: %s",
				low, topics.FormatDelay(keeps), why)
		case (catchesUp || p.HeldBack != "") && g.ageing > p.Position:
			behind = fmt.Sprintf("what cannot be read from offset %d on is older than three quarters of the %s that the topic keeps (retention.ms), and is lost when that is over: %s",
				p.Position, topics.FormatDelay(keeps), why)
		}
		if !g.fails.IsZero() && time.Since(g.fails) >= c.unasked(p.Topic) {
			failing = fmt.Sprintf("nothing of partition %d can be carried, so its log grows: %v", p.Partition, g.why)
		}
		of.Behind.say(c.log, p, behind, slog.LevelError, "carrying is behind", "carrying is not behind any more")
		of.Uncopied.say(c.log, p, failing, slog.LevelWarn, "nothing can be carried", "carrying goes on")
	}
}

// oldest is from where on something may be pending that can be lost yet. What the log has lost already is said for itself, and of the rest it is known what was copied.
func (g *carriage) oldest(p picture.Partition) int64 {
	if p.LowWater >= p.LogStart {
		return p.LowWater
	}
	if g.stuck != "" {
		return p.LogStart
	}
	return max(g.next, p.LogStart)
}

// remembers reports whether it is an id that L waits for, as far as is known: all that is old and pending has been copied, and copies can be read.
func (g *carriage) remembers(p picture.Partition) bool {
	return p.Remembered > 0 && g.stuck == "" && g.next >= g.ageing && p.HeldBack == ""
}

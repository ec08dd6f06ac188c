package processor

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/duewheel/duewheel/topics"
)

// tell says of which partitions the log may soon lose what is pending, and of which nothing can be carried, when that has lasted. What an open transaction
// holds back is as good as pending; copies are behind it, too, and L waits for them. While a partition is restored or catches up nothing of it is carried, whatever keeps it; a session's worth
// of that is a takeover.
func (c *carrier) tell(pictures []PartitionStats) {
	for _, p := range pictures {
		g, of, behind, failing := c.of[p.tp()], c.counters.topics[p.Topic], "", ""
		catchesUp := p.Phase != PhaseLive
		if catchesUp && time.Since(p.since) <= c.cfg.SessionTimeout {
			continue
		}
		low := g.oldest(p)
		switch keeps := c.keeps[p.Topic].Age; {
		case keeps <= 0:
		case low < min(g.ageing, p.Offset) && !g.remembers(p):
			behind = fmt.Sprintf("what is pending from offset %d on is older than three quarters of the %s that the topic keeps (retention.ms), and is lost when that is over: %s",
				low, topics.FormatDelay(keeps), g.reason(p))
		case (catchesUp || p.HeldBack != "") && g.ageing > p.Position:
			behind = fmt.Sprintf("what cannot be read from offset %d on is older than three quarters of the %s that the topic keeps (retention.ms), and is lost when that is over: %s",
				p.Position, topics.FormatDelay(keeps), g.reason(p))
		}
		if !g.fails.IsZero() && time.Since(g.fails) >= c.unasked(p.Topic) {
			failing = fmt.Sprintf("nothing of partition %d can be carried, so its log grows: %v", p.Partition, g.why)
		}
		of.behind.say(c.log, p, behind, slog.LevelError, "carrying is behind", "carrying is not behind any more")
		of.uncopied.say(c.log, p, failing, slog.LevelWarn, "nothing can be carried", "carrying goes on")
	}
}

// oldest is from where on something may be pending that can be lost yet. What the log has lost already is said for itself, and of the rest it is known what was copied.
func (g *carriage) oldest(p PartitionStats) int64 {
	if p.LowWater >= p.LogStart {
		return p.LowWater
	}
	if g.stuck != "" {
		return p.LogStart
	}
	return max(g.next, p.LogStart)
}

// remembers reports whether it is an id that L waits for, as far as is known: all that is old and pending has been copied, and copies can be read.
func (g *carriage) remembers(p PartitionStats) bool {
	return p.Remembered > 0 && g.stuck == "" && g.next >= g.ageing && p.HeldBack == ""
}

// whys says of partitions, or of lanes, why something is as it should not be. Every goroutine may use it.
type whys struct {
	mu sync.Mutex
	m  map[int32]string
}

// set says why of one, or that all is well: "". It returns what was said before.
func (w *whys) set(of int32, why string) (was string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	was = w.m[of]
	if w.m == nil {
		w.m = map[int32]string{}
	}
	if w.m[of] = why; why == "" {
		delete(w.m, of)
	}
	return was
}

// say notes why something is as it should not be in a partition, and logs when that begins, and when it is over.
func (w *whys) say(log *slog.Logger, p PartitionStats, why string, level slog.Level, begun, over string) {
	switch was := w.set(p.Partition, why); {
	case was == "" && why != "":
		log.Log(context.Background(), level, begun, "topic", p.Topic, "partition", p.Partition, "why", why)
	case was != "" && why == "":
		log.Info(over, "topic", p.Topic, "partition", p.Partition)
	}
}

// keep forgets what was said of all others.
func (w *whys) keep(has func(of int32) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	maps.DeleteFunc(w.m, func(of int32, _ string) bool { return !has(of) })
}

func (w *whys) of(n int32) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.m[n]
}

// any is why of the first of which something is said; "": of none.
func (w *whys) any() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.m) == 0 {
		return ""
	}
	return w.m[slices.Min(slices.Collect(maps.Keys(w.m)))]
}

package check

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// health is whether the world is well: what is late in one that is not says nothing of the processor.
type health struct {
	ill   bool
	since time.Time // well since; zero is ever since
}

// Ill says that something is being broken: nothing that comes now is late.
func (c *Checker) Ill() { c.health.ill = true }

// Well says that nothing is broken any more.
func (c *Checker) Well(now time.Time) {
	if c.health.ill {
		c.health = health{since: now}
	}
}

// after is the later of an instant and when the world became well.
func (h health) after(at time.Time) time.Time {
	if h.since.After(at) {
		return h.since
	}
	return at
}

func (c *Checker) judgeLateness(of Source, due int64, r *kgo.Record, m moment) {
	if c.config.Late == 0 || c.health.ill || m.seen.IsZero() || m.from == unknown {
		return
	}
	since := c.health.after(time.UnixMilli(max(due, m.from)))
	if late := m.seen.Sub(since); late > c.config.Late {
		c.faultOf(Fault{Kind: Late, Source: of, Detail: fmt.Sprintf("seen %v late, and at most %v is allowed", late, c.config.Late)}, r)
	}
}

// judgeAttempts: what is delivered after attempts says how many they were, as its last retry record does.
func (c *Checker) judgeAttempts(src *source) {
	offsets := slices.Sorted(maps.Keys(src.retries))
	for offset := range src.attempts {
		if _, ok := src.retries[offset]; !ok {
			offsets = append(offsets, offset)
		}
	}
	for _, offset := range offsets {
		s, says, last := src.at(offset), src.attempts[offset], src.retries[offset]
		if !s.is(requested) || !s.is(delivered) || s.is(died) || src.route.Emit == emitNone {
			continue
		}
		// A record that comes twice may have been delivered before it was put off.
		if says != last.attempt && !(c.config.AllowDoubles && says < last.attempt) {
			c.fault(Fault{Kind: Altered, Source: src.name(offset), Detail: fmt.Sprintf("delay-attempt says %d, and its last retry record %d", says, last.attempt)})
		}
	}
}

// checkpoint is what a group has written for a partition, at the latest when it was seen.
type checkpoint struct {
	offset, due, seq int64
	seen             time.Time
}

// uncovered is something that the next checkpoints must cover.
type uncovered struct {
	due, seq int64
	offset   int64
	seen     time.Time
}

// covers tells whether a record is resolved: it was accepted, and its key is at or below the watermark. A fixed-delay route has
// no other order than its log's.
func (p checkpoint) covers(u uncovered, fixed bool) bool {
	return max(u.offset, u.seq) < p.offset && (fixed || u.due < p.due || u.due == p.due && u.seq <= p.seq)
}

// remembered is how many checkpoints of a partition are kept: those of some minutes, for what is read late.
const remembered = 1 << 10

// Checkpoint takes the checkpoint of a partition as it is now: the committed offset, and the watermark (due, seq) of its metadata.
// It must be told often, whether it has changed or not.
func (c *Checker) Checkpoint(topic string, partition int32, offset, due, seq int64, now time.Time) {
	src := c.source(topic, partition)
	if src == nil || c.config.Covered == 0 {
		return
	}
	p := checkpoint{offset, due, seq, now}
	if n := len(src.checkpoints); n == 0 || src.checkpoints[n-1] != (checkpoint{offset, due, seq, src.checkpoints[n-1].seen}) {
		if n == remembered {
			src.checkpoints = slices.Delete(src.checkpoints, 0, remembered/2)
		}
		src.checkpoints = append(src.checkpoints, p)
	}
	src.accepting = c.keepUncovered(src, src.accepting, now, "accepted", func(u uncovered) bool { return u.offset < offset })
	fixed := src.route.Delay > 0
	src.delivering = c.keepUncovered(src, src.delivering, now, "delivered", func(u uncovered) bool { return p.covers(u, fixed) })
}

// keepUncovered drops what is covered, and what has waited too long, which is a fault.
func (c *Checker) keepUncovered(src *source, all []uncovered, now time.Time, what string, covered func(uncovered) bool) []uncovered {
	return slices.DeleteFunc(all, func(u uncovered) bool {
		if covered(u) {
			return true
		}
		since := now.Sub(c.health.after(u.seen))
		if c.health.ill || since <= c.config.Covered {
			return false
		}
		c.fault(Fault{Kind: Uncovered, Source: src.name(u.offset), Detail: fmt.Sprintf("%s, and no checkpoint has said so for %v", what, since)})
		return true
	})
}

func (c *Checker) awaitAccepted(r *kgo.Record, seen time.Time) {
	src := c.source(r.Topic, r.Partition)
	if c.config.Covered == 0 || src == nil || src.route.Delay > 0 || seen.IsZero() {
		return // the offset of a fixed-delay route waits for deliveries
	}
	src.accepting = append(src.accepting, uncovered{offset: r.Offset, seen: seen})
}

func (c *Checker) awaitCovered(src *source, offset, due int64, seen time.Time) {
	if c.config.Covered > 0 && !seen.IsZero() {
		u := src.keyed(offset, due)
		u.seen = seen
		src.delivering = append(src.delivering, u)
	}
}

// keyed is a request with the key by which the processor orders it.
func (s *source) keyed(offset, due int64) uncovered {
	if last, ok := s.retries[offset]; ok {
		return uncovered{due: last.due, seq: last.offset, offset: offset}
	}
	return uncovered{due: due, seq: offset, offset: offset}
}

// judgeAgain: what arrives again must not have been covered when it was written.
func (c *Checker) judgeAgain(src *source, offset int64, r *kgo.Record) {
	if c.config.Covered == 0 || !c.config.AllowDoubles {
		return
	}
	u := src.keyed(offset, src.at(offset).due)
	known := r.Timestamp.Add(-c.config.Covered)
	for _, p := range slices.Backward(src.checkpoints) {
		if p.seen.After(known) {
			continue
		}
		if p.covers(u, src.route.Delay > 0) {
			c.faultOf(Fault{Kind: Doubled, Source: src.name(offset), Detail: fmt.Sprintf("and a checkpoint had covered it %v before", r.Timestamp.Sub(p.seen))}, r)
		}
		return
	}
}

package check

import (
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// judge finds faults. What comes at the wrong time it recognises by itself.
type judge struct {
	config Config
	health health
	found  [kinds]Found
}

// fault is a broken promise. Arrived, if any, is the record on seeing which it was found.
func (j *judge) fault(k Kind, of Source, arrived *kgo.Record, detail string, args ...any) {
	j.keep(&j.found[k], k, of, arrived, detail, args...)
}

// keep counts a fault, and keeps it if it may be one of the first.
func (j *judge) keep(found *Found, k Kind, of Source, arrived *kgo.Record, detail string, args ...any) {
	f := Fault{Kind: k, Source: of, Arrived: arrived}
	if found.count(of); !found.mayKeep(&f, j.config.Keep) {
		return
	}
	f.Detail = fmt.Sprintf(detail, args...)
	if arrived != nil {
		f.Arrived = clone(arrived)
	}
	found.add(f, j.config.Keep)
}

// faults is how many there were.
func (j *judge) faults() (n int64) {
	for _, f := range j.found {
		n += f.Count
	}
	return n
}

// health is whether the world is well: what is late in one that is not says nothing of the processor.
type health struct {
	ill   bool
	since time.Time // well since; zero is ever since
}

// Ill says that something is being broken: nothing that comes now is late.
func (j *judge) Ill() { j.health.ill = true }

// Well says that nothing is broken any more.
func (j *judge) Well(now time.Time) {
	if j.health.ill {
		j.health = health{since: now}
	}
}

// after is the later of an instant and when the world became well.
func (h health) after(at time.Time) time.Time {
	if h.since.After(at) {
		return h.since
	}
	return at
}

// behind is by how much the clock of who reads for a Survey is believed to be behind at most.
const behind = time.Minute

// judgeTime: by the processor's word, by the timestamp of the record where that says when it was written, and by the clock of the consumer that saw it. Nothing is delivered
// before it is due, nor after it was seen.
func (j *judge) judgeTime(of Source, due int64, r *kgo.Record, m moment) {
	seen := m.seen.UnixMilli()
	skew := j.config.Skew.Milliseconds()
	early := func(what string, at int64) {
		j.fault(Early, of, r, "%s %d, %d ms before due %d", what, at, due-at, due)
	}
	ahead := func(what string, at int64) {
		j.fault(Ahead, of, r, "%s %d, and seen %d ms before", what, at, at-seen)
	}
	switch {
	case m.fired >= 0 && m.fired < due-skew:
		early("fired at", m.fired)
	case m.written != untimed && m.written < due-skew:
		early("written at", m.written)
	case !m.read.IsZero() && m.read.UnixMilli() < due-behind.Milliseconds():
		early("read at", m.read.UnixMilli())
	case m.isAhead(m.written):
		j.fault(Altered, of, r, "written at %d, and read %d ms before that", m.written, m.written-m.read.UnixMilli())
	case m.isAhead(m.fired):
		j.fault(Altered, of, r, "fired at %d, and read %d ms before that", m.fired, m.fired-m.read.UnixMilli())
	case m.seen.IsZero():
	case seen < due-skew:
		early("seen at", seen)
	case m.fired > seen+skew:
		ahead("fired at", m.fired)
	case m.written > seen+skew:
		ahead("written at", m.written)
	}
}

func (j *judge) judgeLateness(of Source, due int64, r *kgo.Record, m moment) {
	if j.config.Late == 0 || j.health.ill || m.seen.IsZero() || m.from == unknown {
		return
	}
	since := j.health.after(time.UnixMilli(max(due, m.from)))
	if late := m.seen.Sub(since); late > j.config.Late {
		j.fault(Late, of, r, "seen %v late, and at most %v is allowed", late, j.config.Late)
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
func (j *judge) keepUncovered(src *source, all []uncovered, now time.Time, what string, covered func(uncovered) bool) []uncovered {
	return slices.DeleteFunc(all, func(u uncovered) bool {
		if covered(u) {
			return true
		}
		since := now.Sub(j.health.after(u.seen))
		if j.health.ill || since <= j.config.Covered {
			return false
		}
		j.fault(Uncovered, src.name(u.offset), nil, "%s, and no checkpoint has said so for %v", what, since)
		return true
	})
}

func (j *judge) awaitAccepted(src *source, offset int64, seen time.Time) {
	if j.config.Covered == 0 || src.route.Delay > 0 || seen.IsZero() {
		return // the offset of a fixed-delay route waits for deliveries
	}
	src.accepting = append(src.accepting, uncovered{offset: offset, seen: seen})
}

func (j *judge) awaitCovered(src *source, offset, due int64, seen time.Time) {
	if j.config.Covered > 0 && !seen.IsZero() {
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
func (j *judge) judgeAgain(src *source, offset int64, r *kgo.Record, m moment) {
	if j.config.Covered == 0 || !j.config.AllowDoubles || m.written == untimed {
		return
	}
	u := src.keyed(offset, src.at(offset).due)
	written := time.UnixMilli(m.written)
	known := written.Add(-j.config.Covered)
	for _, p := range slices.Backward(src.checkpoints) {
		if p.seen.After(known) {
			continue
		}
		if p.covers(u, src.route.Delay > 0) {
			j.fault(Doubled, src.name(offset), r, "and a checkpoint had covered it %v before", written.Sub(p.seen))
		}
		return
	}
}

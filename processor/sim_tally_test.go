//go:build synctests

package processor

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/duewheel/duewheel/topics"
)

// tally tells what schedules have brought about.
type tally struct {
	schedules, rivals, requested, doubled, late, retried, rebalances, fenced, cut, overlaps, joined, chained int64
	virtual                                                                                                  time.Duration
	again, parked, postponed, expired, jittered, carried                                                     int64
	prefixed, borrowed, stamped                                                                              int64
	turns, dead, cancels                                                                                     map[string]int64
	acts                                                                                                     [ops]int64
}

func (c *tally) count(acts map[op]int64) {
	for o, n := range acts {
		c.acts[o] += n
	}
}

func (c *tally) add(w *world) {
	if c.turns == nil {
		c.turns, c.dead, c.cancels = map[string]int64{}, map[string]int64{}, map[string]int64{}
	}
	if w.host == w {
		c.schedules++
		c.virtual += time.Since(w.began)
	} else {
		c.rivals++
	}
	seen := w.watch.Counts()
	c.requested += seen.Requested
	c.doubled += seen.Doubled
	c.again += seen.Again
	c.parked += seen.Parked
	c.postponed += seen.Postponed
	c.expired += seen.Expired
	if w.cfg.jitter > 0 {
		c.jittered++
	}
	if w.cfg.prefix != "" {
		c.prefixed++
	}
	if w.cfg.timestamp != topics.TimestampFired {
		c.stamped++
	}
	for _, p := range w.processes {
		s := p.p.Stats()
		for k, n := range s.Transactions {
			c.turns[k] += n
		}
		for k, n := range s.Cancels {
			c.cancels[k] += n
		}
		for _, d := range s.DeadLetters {
			if d.Records > 0 {
				c.dead[d.Code] += d.Records
			}
		}
		for _, t := range s.Topics {
			c.late += t.Late
			c.carried += t.Carried
		}
		c.retried += s.Retried
		c.rebalances += s.Rebalances
		c.fenced += p.p.counters.fenced.Load()
		c.joined += p.p.counters.joined.Load()
		c.chained += p.p.counters.chained.Load()
	}
}

// enough is how many schedules bring everything about; none of a few may.
const enough = 150

// floor names what no schedule has brought about, and says nothing of a promise therefore.
func (c *tally) floor() (missing []string) {
	for what, n := range map[string]int64{"a schedule": c.schedules, "a request": c.requested} {
		if n == 0 {
			missing = append(missing, what)
		}
	}
	if c.schedules < enough {
		return missing
	}
	for what, n := range map[string]int64{
		"a second group": c.rivals, "a record that came again (at_least_once)": c.doubled, "a late arrival": c.late, "a retry": c.retried,
		"a rebalance": c.rebalances, "a fence": c.fenced, "a turn that was aborted": c.turns["aborted"], "a turn of unknown outcome": c.turns["unknown"],
		"a dead letter": int64(len(c.dead)), "a log that was cut": c.cut, "overlapping transactions": c.overlaps,
		"a turn that something has joined": c.joined, "one with two parts of one partition": c.chained,
		"a delivery of a retry route": c.again, "a record that was parked": c.parked, "one that came at a time that is not known": c.postponed,
		"one that had expired": c.expired, "a jitter": c.jittered, "a copy of what is pending": c.carried,
		"another prefix": c.prefixed, "a request by the headers of another tool": c.borrowed, "a timestamp that is not that of the delivery": c.stamped,
		"a cancel that cancelled": c.cancels["cancelled"], "one that came too late": c.cancels["too_late"], "one of what is not there": c.cancels["unknown"],
		"one that was forwarded": c.cancels["forwarded"], "a replacement": c.cancels["replaced"],
		"an id that is not where it was looked for": c.cancels["not_here"], "one that was left out": c.cancels["ignored"],
	} {
		if n == 0 {
			missing = append(missing, what)
		}
	}
	for o, n := range c.acts {
		if n == 0 {
			missing = append(missing, "the act "+opNames[o])
		}
	}
	return missing
}

func TestSimFloor(t *testing.T) {
	all := tally{schedules: enough, rivals: 1, requested: 1, doubled: 1, late: 1, retried: 1, rebalances: 1, fenced: 1, cut: 1, overlaps: 1, joined: 1, chained: 1,
		again: 1, parked: 1, postponed: 1, expired: 1, jittered: 1, carried: 1, prefixed: 1, borrowed: 1, stamped: 1,
		turns: map[string]int64{"aborted": 1, "unknown": 1}, dead: map[string]int64{"no_due": 1},
		cancels: map[string]int64{"cancelled": 1, "too_late": 1, "unknown": 1, "forwarded": 1, "replaced": 1, "not_here": 1, "ignored": 1}}
	for o := range all.acts {
		all.acts[o] = 1
	}
	if missing := all.floor(); len(missing) > 0 {
		t.Errorf("everything has happened, but for %q", missing)
	}
	if missing := (&tally{}).floor(); len(missing) != 2 {
		t.Errorf("no schedule at all: %q", missing)
	}
	if missing := (&tally{schedules: enough, requested: 1}).floor(); len(missing) != 29+int(ops) {
		t.Errorf("nothing has happened, but for %d things: %q", 29+int(ops)-len(missing), missing)
	}
}

func (c *tally) String() string {
	var acts strings.Builder
	for o, n := range c.acts {
		fmt.Fprintf(&acts, ", %s %d", opNames[o], n)
	}
	return fmt.Sprintf("%d schedules, %d of them with two groups and %d with overlapping transactions, with %d requests: %d late, %d retried, %d doubled (at_least_once); dead letters %v; %d delivered by retry routes, of which %d were put off first, %d parked, %d expired, %d schedules with jitter, %d with another prefix and %d with another timestamp, %d requests by headers of other tools; cancels %v; turns %v, of which something has joined %d, and %d had two parts of one partition; %d rebalances, %d fenced; %d copies of what was carried; %d records of logs cut; %v of simulated time; acts%s",
		c.schedules, c.rivals, c.overlaps, c.requested, c.late, c.retried, c.doubled, c.dead, c.again, c.postponed, c.parked, c.expired, c.jittered, c.prefixed, c.stamped, c.borrowed, c.cancels, c.turns, c.joined, c.chained, c.rebalances, c.fenced, c.carried, c.cut, c.virtual.Round(time.Second), acts.String())
}

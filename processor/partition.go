package processor

import (
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/wait"
	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
	"github.com/duewheel/duewheel/wheel"
)

// partition is what a lane holds of one partition of a delay topic. The pending records are
// split by key: those up to the horizon are in the wheel and in memory, those above it in the
// store. A fixed-delay route has a queue instead of both.
//
// Invariants: done.Watermark <= judge. Every pending record has a key above judge, or belongs to
// the turn in flight. Nothing in late has a key above judge, refusals apart. Every key in the
// wheel is at or below horizon, every key that only the store holds is above it.
type partition struct {
	// Set once, when the partition is assigned.
	tp      topicPartition
	id      topicID
	mark    topics.Mark // of what this group writes into the delay topic for itself
	route   *topics.Route
	log     *slog.Logger
	since   time.Time // when its restore began
	stats   *topicCounters
	picture atomic.Pointer[PartitionStats] // published by the lane, read by every goroutine

	// Owned by the lane, as is everything below.
	phase   Phase
	err     error // why it is stopped or held up
	loss    error // the log has lost what is pending here
	unread  error // why brokers do not let it be read
	parsers parsers

	longest    longestWait
	committed  state.Checkpoint // as last committed
	writing    writing
	done       state.Checkpoint // as last decided: committed, or acknowledged (at_least_once)
	planned    state.Checkpoint // as the last part that was made will leave it, or else done
	judge      state.Key        // W of planned: what arrives with a key at or below it is late
	limit      int64            // ms: up to here W counts as time that has passed; as of the lane's last step
	accepted   int64            // O as found: below it arrivals are a replay
	start      int64            // where reading began
	position   int64            // the next offset to be read
	ownEnd     int64            // records of ours lie below this offset
	logStart   int64
	logEnd     int64 // E, as last asked
	endAsked   time.Time
	readAt     time.Time     // when something was last read
	liveAfter  time.Duration // from since until it was live
	liveAt     time.Time
	answeredAt time.Time // when a turn was last answered that happened
	waitsSince time.Time // since when nothing was, although there is something to do

	late      []item // resolved when O passes, in offset order
	lateBytes int64
	repeat    []*part // what turns that did not happen have left: the same O, W and records, in this order
	repeatAt  int64   // ms
	turns     int     // undecided turns that have a part of it: two at most
	wanted    int     // how much it wanted when the lane last asked, and when it was last served
	served    int

	wheel     *wheel.Wheel
	near      *near
	horizon   state.Key // what has a key above it is in the store
	ledger    *state.Ledger
	store     *state.Partition // nil: of a queue, or there is no store (storeless.go)
	dirty     bool             // the store has an open batch
	syncedAt  time.Time
	spent     int       // records delivered that the store still holds
	held      []int64   // offsets that the store's resume stays below until the checkpoint is committed
	queue     *queue    // of a fixed-delay route; nil: wheel and store
	full      bool      // it takes in nothing until there is room
	paused    bool      // the reader has been told to leave it alone
	resting   time.Time // until when it is not read, because brokers refused
	refusals  wait.Backoff
	leaving   bool // it waits for its checkpoint, to be read again: nothing new is begun
	stored    storedDue
	shortened int64 // memory taken when the horizon was last made nearer (storeless.go)
}

// parsers are the parsers of a checkpoint, in the order of the offsets from which they hold
// (design rule 10).
type parsers []parserFrom

type parserFrom struct {
	from   int64
	parser *topics.Parser
}

// errNoParser: a lane that finds such a checkpoint names its own parser in it.
var errNoParser = errors.New("processor: the checkpoint names no parser")

func parsersOf(route *topics.Route, c state.Checkpoint) (parsers, error) {
	var out parsers
	for _, e := range c.Parsers {
		parser, err := route.ParserFor(e.Spec)
		if err != nil {
			return nil, err
		}
		out = append(out, parserFrom{e.From, parser})
	}
	if len(out) == 0 {
		return nil, errNoParser
	}
	return out, nil
}

func (ps parsers) at(offset int64) *topics.Parser {
	for i := len(ps) - 1; i > 0; i-- {
		if offset >= ps[i].from {
			return ps[i].parser
		}
	}
	return ps[0].parser
}

func (p *partition) live() bool { return p.phase == PhaseLive }

// endOf is up to where a catch-up must read: the later of the last stable offset and the end of what
// records of ours there may be (design rule 2).
func (p *partition) endOf(b kafka.Bounds) int64 { return max(b.Stable, p.ownEnd) }

// item is one record that a turn resolves.
type item struct {
	ref     ref
	run     []byte // the record, in near
	key     state.Key
	offset  int64
	refusal *topics.Refusal // dead-letter it; nil: deliver it
	resolve bool            // and write a resolve record, because its key is above the watermark
	stored  bool            // the store holds it too
	acked   bool            // at_least_once: what is written for it has been acknowledged
	suspect bool            // its target refused it, or one that went along with it (suspect.go)
	blame   error           // its target refused it, and nothing went along: dead-letter it
	stays   bool            // the delay topic refused it, and nothing went along: it cannot be carried on
	cuts    int             // how often the dead letter topic refused it for its size, and nothing went along
}

// due is when it may be resolved: one that is refused at once.
func (it *item) due() int64 {
	if it.refusal != nil {
		return 0
	}
	return it.key.Due
}

// pend keeps a record that is to be delivered later.
func (p *partition) pend(key state.Key, offset int64, bytes int, r ref) {
	p.wheel.Add(wheel.Tick(key.Due), key.Seq, uint64(r))
	p.ledger.Add(key, offset, bytes, r.stored())
}

// takeDue moves what is due into items, at most records and about bytes of it, and returns them
// with the bytes that they take. What is moved no longer counts as pending.
func (p *partition) takeDue(now int64, items []item, records int, bytes int64) ([]item, int64) {
	var took int64
	var buf [256]wheel.Entry
	for records > 0 && took < bytes {
		n := min(records, len(buf))
		if each := p.ledger.Bytes() / int64(max(p.ledger.Len(), 1)); each > 0 {
			n = int(min(int64(n), (bytes-took)/each+1))
		}
		got := p.wheel.Take(wheel.Tick(now), buf[:0], n)
		for _, e := range got {
			r := ref(e.Ref)
			run := p.near.get(r)
			offset, err := recordOffset(run)
			if err != nil {
				panic("processor: BUG: " + err.Error())
			}
			it := item{ref: r, run: run, key: state.Key{Due: int64(e.Due), Seq: e.Seq}, offset: offset, stored: r.stored()}
			// Not pending any more. What only memory holds goes on holding the store's resume
			// back, until it is released.
			p.ledger.Remove(it.key, offset, len(run), true)
			items = append(items, it)
			took += int64(len(run))
		}
		records -= len(got)
		if len(got) < n {
			break
		}
	}
	return items, took
}

// nextDue is when the partition has something to do next; false: not before it reads more.
func (p *partition) nextDue() (int64, bool) {
	switch {
	case !p.live() || p.turns > 0:
		return 0, false
	case len(p.repeat) > 0:
		if due := p.repeat[0].due(); due > p.limit {
			return due, true
		}
		return p.repeatAt, true
	case p.leaving:
		return 0, false
	case len(p.late) > 0 && p.isAhead():
		return p.late[0].due(), true
	case len(p.late) > 0:
		return 0, true
	case p.queue != nil:
		return p.queue.nextDue()
	}
	due, ok := p.wheel.Next()
	if p.store != nil && p.far() > 0 && (!ok || int64(due) > p.horizon.Due) {
		return p.horizon.Due, true // the store may have something right above it
	}
	return int64(due), ok
}

// prepare makes the next turn's part of this partition in the memory of items, or nil when there
// is nothing to deliver.
func (p *partition) prepare(now int64, items []item, records int, bytes int64) *part {
	if len(p.repeat) > 0 {
		if !p.repeats(now) {
			return nil
		}
		return p.takeRepeat(p.repeat[0].fit(records, bytes))
	}
	if p.leaving {
		return nil
	}
	if p.queue != nil {
		return p.prepareQueue(now, items, records, bytes)
	}
	to := p.planned
	to.Offset = p.position
	clock := p.clock(now)
	n, took := p.lateUpTo(clock, records, bytes)
	if n > 0 {
		items = append(items, p.late[:n]...)
		p.late, p.lateBytes = p.late[n:], p.lateBytes-took
	}
	if len(p.late) > 0 {
		// The list is capped, by offset: O stops short of the rest, so W stays (design rule 3).
		to.Offset = p.late[0].offset
	} else {
		items, _ = p.takeDue(clock, items, records-n, bytes-took)
		if k := len(items); k > n {
			to.Watermark = items[k-1].key
		}
	}
	if len(items) == 0 {
		return nil
	}
	return p.plan(to, items)
}

// plan makes a part and takes it for what will happen.
func (p *partition) plan(to state.Checkpoint, items []item) *part {
	p.finish(&to)
	from := p.judge
	p.planned, p.judge = to, to.Watermark
	return &part{p: p, from: from, to: to, items: items}
}

// lateDue is how many of the late list are due.
func (p *partition) lateDue(now int64) (n int64) {
	if !p.isAhead() {
		return int64(len(p.late))
	}
	for i := range p.late {
		if p.late[i].due() <= now {
			n++
		}
	}
	return n
}

// far is how many pending records only the store holds, or only the log.
func (p *partition) far() int { return p.ledger.Len() - p.wheel.Len() }

// clock is what time it is for the partition: the later of the lane's clock and W (design rule 1).
// A W that is ahead of every clock that is right says nothing of the time.
func (p *partition) clock(now int64) int64 {
	if p.isAhead() {
		return now
	}
	return max(now, p.judge.Due)
}

// isAhead reports that a wrong clock has moved W. What is requested for times before it is late by
// the protocol and not by any clock: it waits on the late list until it is due, and until those
// before it in the log are, because that list is resolved by offset (design rule 3).
func (p *partition) isAhead() bool { return p.judge.Due > p.limit }

// errAhead says what a W that is ahead means and what can be done.
func (p *partition) errAhead(now int64) error {
	w := time.UnixMilli(p.judge.Due)
	return fmt.Errorf("the watermark is %v ahead of the brokers' time: a clock that was wrong has moved it, a replica's or a broker's. "+
		"Until %s a record that is requested for a time before that is delivered when it is due, and when those before it in the log have been. "+
		"To end this sooner stop the group and use `duewheel checkpoints reset --force`: with --to-offset what is pending is given up, with --to-beginning what is in the log is delivered again",
		w.Sub(time.UnixMilli(now)).Round(time.Second), w.UTC().Format(time.RFC3339))
}

// lateUpTo says how many of the late list are due and fit into a turn.
func (p *partition) lateUpTo(clock int64, records int, bytes int64) (n int, took int64) {
	for n < len(p.late) && n < records && (took < bytes || n == 0) && p.late[n].due() <= clock {
		took += int64(len(p.late[n].run))
		n++
	}
	return n, took
}

// settle forgets the records of a part that has been decided: they are resolved.
func (p *partition) settle(pt *part) {
	for i := range pt.items {
		it := &pt.items[i]
		p.near.release(it.ref)
		if it.stored {
			p.spent++
		} else if p.queue == nil {
			p.held = append(p.held, it.offset)
		}
	}
	p.done = pt.to
}

// describe renders an error with the partition's coordinates.
func (p *partition) describe(what string, err error) error {
	return fmt.Errorf("%s %s: %w", what, p.tp, err)
}

// topicCounters count what happens to the records of one delay topic. Lanes add, every goroutine may read.
type topicCounters struct {
	accepted      atomic.Int64
	delivered     atomic.Int64
	late          atomic.Int64
	lateOnArrival atomic.Int64
	trouble       atomic.Pointer[string] // why the topic loses what is pending; nil: it does not, as far as is known
}

func (c *topicCounters) why() string {
	if why := c.trouble.Load(); why != nil {
		return *why
	}
	return ""
}

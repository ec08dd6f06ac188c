package pending

import (
	"math"

	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
	"github.com/duewheel/duewheel/wheel"
)

// Partition is what is pending in one partition of a delay topic: from its checkpoint and its log to the
// parts of turns. It has no client, goroutine, context, clock or logger inside: records, time (ms, by
// the clock that counts) and outcomes come in as arguments, and the local store is all that it writes
// to. It belongs to one goroutine.
//
// The pending records are split by key: those up to the horizon are in the wheel and in memory, those
// above it in the store. A fixed-delay route has a queue instead of both.
//
// Invariants: done.Watermark <= judge. Every pending record has a key above judge, or belongs to
// the turn in flight. Nothing in late has a key above judge, refusals apart. Every key in the
// wheel is at or below horizon, every key that only the store holds is above it.
type Partition struct {
	Env
	parsers parsers

	live      bool // it has caught up, and takes part in turns
	longest   longestWait
	committed state.Checkpoint // as last committed
	done      state.Checkpoint // as last decided: committed, or acknowledged (at_least_once)
	planned   state.Checkpoint // as the last part that was made will leave it, or else done
	judge     state.Key        // W of planned: what arrives with a key at or below it is late
	limit     int64            // ms: up to here W counts as time that has passed; as of the lane's last step
	accepted  int64            // O as found: below it arrivals are a replay
	start     int64            // where reading began
	position  int64            // the next offset to be read
	ownEnd    int64            // records of ours lie below this offset

	late      []Item // resolved when O passes, in offset order
	lateBytes int64
	repeat    []*Part // what turns that did not happen have left: the same O, W and records, in this order
	repeatAt  int64   // ms
	turns     int     // undecided turns that have a part of it: two at most
	leaving   bool    // it waits for its checkpoint, to be read again: nothing new is begun

	wheel     *wheel.Wheel
	near      *near
	horizon   state.Key // what has a key above it is in the store
	ledger    *state.Ledger
	store     *state.Partition // nil: of a queue, or there is no store (storeless.go)
	dirty     bool             // the store has an open batch
	spent     int              // records delivered that the store still holds
	held      []int64          // offsets that the store's resume stays below until the checkpoint is committed
	queue     *queue           // of a fixed-delay route; nil: wheel and store
	full      bool             // it takes in nothing until there is room
	stored    storedDue
	shortened int64 // memory taken when the horizon was last made nearer (storeless.go)
	scratch   []byte
}

// Env is what a partition is told once.
type Env struct {
	Route *topics.Route
	Mark  topics.Mark // of what this group writes into the delay topic for itself
	Skew  int64       // ms: clocks may differ by this much
}

// Knows returns an error unless all parsers of a checkpoint are known.
func (e Env) Knows(c state.Checkpoint) error {
	_, err := parsersOf(e.Route, c)
	return err
}

// New makes a partition that begins with a checkpoint, and has no store. high is the high watermark,
// asked for after the checkpoint: below it lies whatever records of ours there are above O. They were
// acknowledged before the checkpoint could be fetched. A later high watermark would do as well, and may
// never be reached: readers do not get past the last stable offset, and producers of requests may always
// have some transaction open.
func New(env Env, c state.Checkpoint, high, now int64) (*Partition, error) {
	parsers, err := parsersOf(env.Route, c)
	if err != nil {
		return nil, err
	}
	p := &Partition{Env: env, parsers: parsers, near: newNear(), ledger: state.NewLedger(c.LowWater), horizon: farthest}
	if c.Appended {
		p.ownEnd = high
	}
	if p.Route.Delay > 0 && c.LowWater == c.Offset {
		p.queue = newQueue(c)
		p.Sight(high, now)
		c.Watermark = p.queue.seen(c.Watermark, c.Offset)
	}
	p.wheel = wheel.New(wheel.Tick(c.Watermark.Due))
	p.committed, p.done, p.planned, p.judge = c, c, c, c.Watermark
	p.accepted, p.position, p.start = c.Offset, c.LowWater, c.LowWater
	return p, nil
}

// Use gives a partition its part of the store, with what that spares it.
func (p *Partition) Use(store *state.Partition, got Inherited, now int64, room Room) {
	p.store, p.horizon = store, state.Key{Due: max(now, p.judge.Due) + room.Most, Seq: math.MaxInt64}
	p.ledger, p.start, p.position, p.dirty = got.ledger, got.Start, got.Start, got.dirty
}

// Trust says up to what time W counts as time that has passed, in ms: a W beyond that was moved by a
// wrong clock.
func (p *Partition) Trust(limit int64) { p.limit = limit }

// Ordered reports whether it delivers in the order of the log: a fixed delay.
func (p *Partition) Ordered() bool { return p.queue != nil }

// Begin takes note that a turn has a part of it, and End that the turn is decided.
func (p *Partition) Begin() { p.turns++ }

func (p *Partition) End() { p.turns-- }

// Undecided is in how many turns it has a part.
func (p *Partition) Undecided() int { return p.turns }

// Pass moves the position to an offset below which nothing is left to be read.
func (p *Partition) Pass(offset int64) { p.position = max(p.position, offset) }

// Appended takes note of where records of ours have come to lie: below an offset.
func (p *Partition) Appended(end int64) { p.ownEnd = max(p.ownEnd, end) }

// Item is one record that a turn resolves.
type Item struct {
	ref     ref
	Run     []byte // the record, in near
	Key     state.Key
	Offset  int64
	Refusal *topics.Refusal // dead-letter it; nil: deliver it
	Resolve bool            // and write a resolve record, because its key is above the watermark
	stored  bool            // the store holds it too

	// What was learned when it was tried, for the next time.
	Acked   bool  // at_least_once: what is written for it has been acknowledged
	Suspect bool  // its target refused it, or one that went along with it
	Blame   error // its target refused it, and nothing went along: dead-letter it
	Stays   bool  // the delay topic refused it, and nothing went along: it cannot be carried on
	Cuts    int   // how often the dead letter topic refused it for its size, and nothing went along
}

// due is when it may be resolved: one that is refused at once.
func (it *Item) due() int64 {
	if it.Refusal != nil {
		return 0
	}
	return it.Key.Due
}

// pend keeps a record that is to be delivered later.
func (p *Partition) pend(key state.Key, offset int64, bytes int, r ref) {
	p.wheel.Add(wheel.Tick(key.Due), key.Seq, uint64(r))
	p.ledger.Add(key, offset, bytes, r.stored())
}

// takeDue moves what is due into items, at most records and about bytes of it, and returns them
// with the bytes that they take. What is moved no longer counts as pending.
func (p *Partition) takeDue(now int64, items []Item, records int, bytes int64) ([]Item, int64) {
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
				panic("pending: BUG: " + err.Error())
			}
			it := Item{ref: r, Run: run, Key: state.Key{Due: int64(e.Due), Seq: e.Seq}, Offset: offset, stored: r.stored()}
			// Not pending any more. What only memory holds goes on holding the store's resume
			// back, until it is released.
			p.ledger.Remove(it.Key, offset, len(run), true)
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

// Next is when the partition has something to do next; false: not before it reads more.
func (p *Partition) Next() (int64, bool) {
	switch {
	case !p.live || p.turns > 0:
		return 0, false
	case len(p.repeat) > 0:
		if due := p.repeat[0].Due(); due > p.limit {
			return due, true
		}
		return p.repeatAt, true
	case p.leaving:
		return 0, false
	case len(p.late) > 0 && p.Ahead():
		return p.late[0].due(), true
	case len(p.late) > 0:
		return 0, true
	case p.queue != nil:
		return p.queue.nextDue()
	}
	due, ok := p.wheel.Next()
	if p.store != nil && p.Far() > 0 && (!ok || int64(due) > p.horizon.Due) {
		return p.horizon.Due, true // the store may have something right above it
	}
	return int64(due), ok
}

// Take makes the next turn's part of this partition in the memory of items, or nil when there
// is nothing to deliver: at most records, and about bytes of them.
func (p *Partition) Take(now int64, items []Item, records int, bytes int64) *Part {
	if !p.live {
		return nil // what lies ahead in the log may have resolved what is due (design rule 2)
	}
	if len(p.repeat) > 0 {
		if !p.repeats(now) {
			return nil
		}
		return p.TakeRepeat(p.repeat[0].fit(records, bytes))
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
		to.Offset = p.late[0].Offset
	} else {
		items, _ = p.takeDue(clock, items, records-n, bytes-took)
		if k := len(items); k > n {
			to.Watermark = items[k-1].Key
		}
	}
	if len(items) == 0 {
		return nil
	}
	return p.plan(to, items)
}

// Wants is at most how many records the partition has to deliver now; 0: none.
func (p *Partition) Wants(now int64) int {
	switch {
	case !p.live:
		return 0
	case len(p.repeat) > 0:
		if !p.repeats(now) {
			return 0
		}
		return len(p.repeat[0].Items)
	case p.leaving:
		return 0
	case p.queue != nil:
		if due, ok := p.queue.nextDue(); !ok || due > now {
			return 0
		}
		return p.queue.len()
	}
	n := len(p.late)
	if due, ok := p.wheel.Next(); ok && int64(due) <= p.clock(now) {
		n += p.wheel.Len()
	}
	return n
}

// plan makes a part and takes it for what will happen.
func (p *Partition) plan(to state.Checkpoint, items []Item) *Part {
	p.finish(&to)
	from := p.judge
	p.planned, p.judge = to, to.Watermark
	return &Part{of: p, from: from, To: to, Items: items}
}

// lateDue is how many of the late list are due.
func (p *Partition) lateDue(now int64) (n int64) {
	if !p.Ahead() {
		return int64(len(p.late))
	}
	for i := range p.late {
		if p.late[i].due() <= now {
			n++
		}
	}
	return n
}

// Far is how many pending records only the store holds, or only the log.
func (p *Partition) Far() int { return p.ledger.Len() - p.wheel.Len() }

// clock is what time it is for the partition: the later of the lane's clock and W (design rule 1).
// A W that is ahead of every clock that is right says nothing of the time.
func (p *Partition) clock(now int64) int64 {
	if p.Ahead() {
		return now
	}
	return max(now, p.judge.Due)
}

// Ahead reports that a wrong clock has moved W. What is requested for times before it is late by
// the protocol and not by any clock: it waits on the late list until it is due, and until those
// before it in the log are, because that list is resolved by offset (design rule 3).
func (p *Partition) Ahead() bool { return p.judge.Due > p.limit }

// lateUpTo says how many of the late list are due and fit into a turn.
func (p *Partition) lateUpTo(clock int64, records int, bytes int64) (n int, took int64) {
	for n < len(p.late) && n < records && (took < bytes || n == 0) && p.late[n].due() <= clock {
		took += int64(len(p.late[n].Run))
		n++
	}
	return n, took
}

// Settle forgets the records of a part that has been decided: they are resolved.
func (p *Partition) Settle(pt *Part) {
	for i := range pt.Items {
		it := &pt.Items[i]
		p.near.release(it.ref)
		if it.stored {
			p.spent++
		} else if p.queue == nil {
			p.held = append(p.held, it.Offset)
		}
	}
	p.done = pt.To
}

package processor

import (
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/duewheel/duewheel/processor/histogram"
	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/pending"
	"github.com/duewheel/duewheel/processor/restore"
	"github.com/duewheel/duewheel/processor/retention"
	"github.com/duewheel/duewheel/processor/turn"
)

// partition is what a lane knows of one of its partitions beside what is pending in it.
type partition struct {
	*pending.Partition // nil: it was stopped before it was opened

	// Set once, when the partition is assigned.
	tp      kafka.TopicPartition
	id      kafka.TopicID
	log     *slog.Logger
	since   time.Time // when its restore began
	stats   *topicCounters
	picture atomic.Pointer[PartitionStats] // published by the lane, read by every goroutine

	// Owned by the lane, as is everything below.
	phase     Phase
	stoppedAt time.Time // of one that is stopped
	dropped   bool      // the lane has it no more, and nothing that comes of what was sent for it counts
	err       error     // why it is stopped or held up
	loss      error     // the log has lost what is pending here
	cutTold   bool      // programs have been told of that
	unread    kafka.Unread

	writing    writing
	progress   progress
	open       openTransaction
	stall      stall
	logStart   int64
	stored     int64     // the store has all pending records that the log lost below this offset; 0: that is not known
	saved      int64     // the same, of what of the store is on the disk, or on its way there
	flush      int64     // the number of the flush of the store that saved is about
	beheaded   time.Time // since when the log begins above the position, as it seems; zero: it does not
	logEnd     int64     // E, as last asked
	endAsked   time.Time
	endSlow    time.Duration // how long it took at least to be told, twice in a row
	askAgain   time.Time     // before that it is not asked for: it was in vain
	readAt     time.Time     // when something was last read
	liveAfter  time.Duration // from since until it was live
	missed     int64         // records of another group, which has pending what is given up here (pending.Accepted)
	missedBy   string        // the last such group
	liveAt     time.Time
	found      int64     // its position then
	passed     bool      // what had to be passed on of what lies below is, or it does not know what that is
	answeredAt time.Time // when a turn was last answered that happened
	waitsSince time.Time // since when nothing was, although there is something to do
	syncedAt   time.Time // when its store was last told how far it is
	wanted     int       // how much it wanted when the lane last asked
	served     int       // how much it wanted when it was last served
	claim      float64   // how much of a turn is its own, in weights of routes
	more       bool      // its share of the last turn may not have held all that was due
	paused     bool      // the reader has been told to leave it alone

	copying     bool      // a turn has copies of what is pending in it
	unsureSince time.Time // since when copies may be appended yet that were not answered (at_least_once); zero: there are none
}

// newPartition is a partition as its restore has left it: one that catches up, unless it is to be stopped.
func newPartition(r *restore.Partition, stats *topicCounters) *partition {
	p := &partition{
		Partition: r.Partition, tp: r.TP, id: r.ID, log: r.Log, since: r.Since, stats: stats,
		phase: PhaseCatchUp, logStart: r.Bounds.Start, endAsked: r.Bounds.Asked,
	}
	if p.opened() {
		p.logEnd = p.Marks().End(r.Bounds.Stable)
		p.open.hear(r.Bounds, r.Bounds.Asked)
	}
	return p
}

// part is a part of this partition; nil is none.
func (p *partition) part(pt *pending.Part) *turn.Part {
	if pt == nil {
		return nil
	}
	return &turn.Part{Part: pt, TP: p.tp, ID: p.id, Mark: p.Mark, Route: p.Route, Keeps: &p.stats.Keeps, Owner: p}
}

// partitionOf is the partition that has made a part.
func partitionOf(pt *turn.Part) *partition { return pt.Owner.(*partition) }

// take makes the next turn's part, or nil when there is nothing to deliver.
func (p *partition) take(now int64, items []pending.Item, records int, bytes int64) *turn.Part {
	return p.part(p.Take(now, items, records, bytes))
}

// takeRepeat takes the first n records of what is to be tried again.
func (p *partition) takeRepeat(n int) *turn.Part { return p.part(p.TakeRepeat(n)) }

// wants is at most how many records the partition has to deliver now; 0: none.
func (p *partition) wants(now int64) int {
	if !p.live() || p.copying {
		return 0
	}
	return p.Wants(now)
}

// nextDue is when the partition has something to do next; false: not before it reads more.
func (p *partition) nextDue() (int64, bool) {
	if !p.live() || p.copying {
		return 0, false
	}
	return p.Next()
}

// among is a partition among the others of its topic.
func among(p *partition) pending.Among { return pending.Among{Partition: p.Partition} }

// holds reports whether something is pending in a partition that may be delivered although the log has lost it: what waits, what is late, and what is to be tried
// again. A queue does not count as pending what a turn has, so that is asked for beside it.
func holds(p *partition) bool {
	return p.Pending() > 0 || len(p.Repeated()) > 0 || p.Ordered() && p.Undecided() > 0
}

// behead has the log's start asked for of a partition whose reader is told that the log has nothing where it is.
func (p *partition) behead() { p.beheaded, p.endAsked, p.loss = time.Now(), time.Time{}, nil }

func (p *partition) live() bool { return p.phase == PhaseLive }

// opened reports whether it is known what is pending in it.
func (p *partition) opened() bool { return p.Partition != nil }

// errAhead says what a W that is ahead means and what can be done.
func (p *partition) errAhead(now int64) error {
	w := time.UnixMilli(p.Marks().LateUpTo.Due)
	return fmt.Errorf("the watermark is %v ahead of the brokers' time: a clock that was wrong has moved it, a replica's or a broker's. "+
		"Until %s a record that is requested for a time before that is delivered when it is due, and when those before it in the log have been. "+
		"To end this sooner stop the group and use `duewheel checkpoints reset --force`: with --to-offset what is pending is given up, with --to-beginning what is in the log is delivered again",
		w.Sub(time.UnixMilli(now)).Round(time.Second), w.UTC().Format(time.RFC3339))
}

// topicCounters count what happens to the records of one delay topic. Lanes add, every goroutine may read.
type topicCounters struct {
	retention.Topic
	accepted      atomic.Int64
	delivered     atomic.Int64
	late          atomic.Int64
	lateOnArrival atomic.Int64
	requested     *histogram.Histogram // delays, as they are asked for
	carried       atomic.Int64
}

// prepareCommit makes a part without records: a checkpoint that has moved on.
func (p *partition) prepareCommit() *turn.Part { return p.part(p.Checkpoint()) }

// stoppedRetry is how often a stopped partition looks whether a person has decided.
const stoppedRetry = 30 * time.Second

// stop makes a partition wait that cannot be brought back, or that its coordinator refuses, so that the others go on without it. It
// starts over now and then, to see whether that has been mended.
func (p *partition) stop(why error, es events) {
	p.phase, p.err, p.stoppedAt = PhaseStopped, why, time.Now()
	p.log.Error("partition is stopped", "error", why, "looks_again_in", stoppedRetry)
	es.tell(Event{Kind: EventStopped, Error: why.Error()}, p.tp)
}

// wasWritten notes that a checkpoint has been committed.
func (p *partition) wasWritten(now time.Time) {
	if p.writing.logged {
		p.log.Info("the checkpoint is written again", "after", p.writing.overdue().Round(time.Second))
	}
	p.writing = writing{at: now, tried: now}
}

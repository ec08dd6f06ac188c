package processor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// lane is one member of the group: it reads its partitions, keeps their pending records and
// delivers them. One goroutine owns it all; whoever else has something to say hands over on a
// channel.
type lane struct {
	// Set once.
	p           *Processor
	cfg         *Config
	n           int
	writer      string // how it signs checkpoints; empty in at_least_once, which leaves nothing open
	log         *slog.Logger
	coordinator *coordinator
	windowMax   int64 // ms
	nearBudget  int64

	// Handed over from other goroutines.
	handovers chan handover
	restored  chan restored
	decided   chan *turn
	fetched   chan kgo.Fetches
	renewed   chan struct{}
	ends      chan logEnds

	stepped       atomic.Int64 // ms: when the loop last took a step
	joined        atomic.Bool  // it has been a member of the group
	nearPublished atomic.Int64

	// Owned by the lane's goroutine.
	reader     *kgo.Client
	producers  []*producer
	renderers  [2]*renderer
	next       int // whose turn it is, of producers and renderers
	membership *membership
	parts      map[topicPartition]*partition
	order      []*partition // parts in a fixed order, for turns to take in rotation
	restores   map[*restore]struct{}
	turn       *turn // in flight
	ahead      *turn // rendered while that is in flight, because more was due than fitted into it
	timeouts   int   // turns in a row that ran out of time: batches are halved for each
	aborts     int   // turns in a row that were given up
	stopping   bool  // nothing may begin any more
	draining   bool  // nothing may begin when the turn in flight is decided
	renewing   bool
	polling    bool
	endPoll    context.CancelFunc
	asking     bool
	window     int64 // ms ahead of the clock that is kept in memory
	nearBytes  int64
	rotation   int
	scratch    []byte
	spare      [][]item // memory of parts that have been settled
	balancedAt time.Time
	tidiedAt   time.Time
	wg         sync.WaitGroup // goroutines that the lane has started
}

func newLane(p *Processor, n int) *lane {
	l := &lane{
		p: p, cfg: &p.cfg, n: n,
		log:         p.cfg.Logger.With("lane", n),
		coordinator: &coordinator{group: p.cfg.Group},
		windowMax:   p.cfg.NearWindow.Milliseconds(),
		nearBudget:  p.nearBudget() / int64(p.cfg.Lanes),
		handovers:   make(chan handover),
		restored:    make(chan restored),
		decided:     make(chan *turn, 1),
		fetched:     make(chan kgo.Fetches, 1),
		renewed:     make(chan struct{}, 1),
		ends:        make(chan logEnds, 1),
		parts:       map[topicPartition]*partition{},
		restores:    map[*restore]struct{}{},
	}
	l.window = l.windowMax
	if p.cfg.Guarantee == ExactlyOnce {
		l.writer = writerName(p.cfg.Group, p.cfg.Instance, n)
	}
	return l
}

// run works until ctx ends, then finishes the open turn, writes the checkpoints and leaves.
func (l *lane) run(ctx context.Context) (err error) {
	if l.reader, err = newReader(l.cfg, l.p.fetchBytes()); err != nil {
		return fmt.Errorf("make reader: %w", err)
	}
	defer l.reader.Close()
	defer func() { // when no goroutine is left that may renew them
		for _, p := range l.producers {
			p.close()
		}
	}()
	defer l.wg.Wait()
	ids := []string{""}
	if l.cfg.Guarantee == ExactlyOnce {
		ids = nil
		for _, id := range transactionalIDs(l.writer) {
			ids = append(ids, id)
		}
	}
	for _, id := range ids {
		l.producers = append(l.producers, &producer{cfg: l.cfg, transactionalID: id, maxBytes: l.p.targets.maxBatchBytes})
	}
	for i := range l.renderers {
		l.renderers[i] = &renderer{l: l}
	}
	l.renew(ctx)
	// The group is joined when there is a producer to deliver with.
	for l.renewing {
		select {
		case <-l.renewed:
			l.renewing = false
		case <-ctx.Done():
			<-l.renewed
			return nil
		}
	}
	if l.membership, err = l.join(); err != nil {
		return err
	}
	for ctx.Err() == nil {
		if err := l.step(ctx); err != nil {
			return err
		}
		l.wait(ctx)
	}
	l.shutdown()
	return nil
}

// step does everything that can be done now without waiting.
func (l *lane) step(ctx context.Context) error {
	now := l.p.clock.now()
	l.stepped.Store(time.Now().UnixMilli())
	if time.Since(l.balancedAt) >= 5*time.Millisecond {
		l.balancedAt = time.Now()
		if err := l.balance(now); err != nil {
			l.storeFailed(ctx, err)
		}
	}
	for _, p := range l.order {
		if err := l.load(p, now); err != nil {
			l.restart(ctx, p, err)
			return nil // order has changed
		}
	}
	l.settleCatchUps(ctx, now)
	l.beginTurn(ctx, now)
	if time.Since(l.tidiedAt) >= 250*time.Millisecond {
		l.tidiedAt = time.Now()
		l.tidy(ctx, now)
	}
	if !l.polling {
		l.poll(ctx)
	}
	return nil
}

// wait waits for the next thing to happen and takes it in.
func (l *lane) wait(ctx context.Context) {
	timer := time.NewTimer(l.pause())
	defer timer.Stop()
	select {
	case fs := <-l.fetched:
		l.polling = false
		l.acceptAll(ctx, fs)
	case h := <-l.handovers:
		l.take(ctx, h)
	case r := <-l.restored:
		l.adopt(ctx, r)
	case t := <-l.decided:
		l.took(ctx, t)
	case <-l.renewed:
		l.renewing = false
	case e := <-l.ends:
		l.tookEnds(e)
	case <-timer.C:
	case <-ctx.Done():
	}
}

// pause is how long nothing has to be done: until the next record is due, exactly, or the next
// look at whether a checkpoint is to be written.
func (l *lane) pause() time.Duration {
	pause := 100 * time.Millisecond
	if l.turn != nil || l.renewing {
		return pause // its end wakes us
	}
	for _, p := range l.order {
		if due, ok := p.nextDue(); ok {
			if d := l.p.clock.until(due); d < pause {
				pause = d
			}
		}
	}
	return max(pause, leastPause)
}

// leastPause keeps a lane from spinning while something is due that cannot be tried yet.
const leastPause = 200 * time.Microsecond

const pollRecords = 10_000 // how many records are accepted in one step: some ms of work

// poll lets the reader look for records; they arrive on fetched.
func (l *lane) poll(ctx context.Context) {
	ctx, l.endPoll = context.WithCancel(ctx)
	l.polling = true
	l.wg.Go(func() { l.fetched <- l.reader.PollRecords(ctx, pollRecords) })
}

// stopPoll takes in what the reader has, and leaves it alone: only then may partitions be added
// or removed, so that nothing from before turns up after.
func (l *lane) stopPoll(ctx context.Context) {
	if !l.polling {
		return
	}
	l.endPoll()
	fs := <-l.fetched
	l.polling = false
	l.acceptAll(ctx, fs)
}

// acceptAll takes in what was read.
func (l *lane) acceptAll(ctx context.Context, fs kgo.Fetches) {
	l.endPoll()
	now := l.p.clock.now()
	var failed []*partition
	var why []error
	fs.EachPartition(func(ftp kgo.FetchTopicPartition) {
		p := l.parts[topicPartition{ftp.Topic, ftp.Partition}]
		if p == nil || p.phase == PhaseStopped {
			for _, r := range ftp.Records {
				r.Recycle()
			}
			return
		}
		err := ftp.Err
		for _, r := range ftp.Records {
			if err == nil {
				err = l.accept(p, r, now)
			}
			if r.Attrs.IsControl() && p.live() && p.position >= p.logEnd { // stamped by the broker, just now
				l.p.skew.Store(int64(r.Timestamp.Sub(l.p.clock.time())))
			}
			r.Recycle() // what was accepted has been copied
		}
		if err == nil {
			err = l.sync(p)
		}
		if err != nil && !isShutdown(err) && !errors.Is(err, context.DeadlineExceeded) {
			failed, why = append(failed, p), append(why, err)
		}
	})
	for i, p := range failed {
		switch {
		case l.parts[p.tp] != p: // started over with another one
		case isTopicGone(why[i]):
			l.restartTopic(ctx, p.tp.topic, why[i])
		default:
			l.restart(ctx, p, why[i])
		}
	}
}

// beginTurn starts the next turn if there is something to do. While a turn is in flight that
// could not hold all that was due, the next is rendered ahead.
func (l *lane) beginTurn(ctx context.Context, now int64) {
	if l.renewing || len(l.order) == 0 {
		return
	}
	if l.turn != nil {
		if l.turn.full && l.ahead == nil {
			l.beginAhead(ctx, now)
		}
		return
	}
	m := l.membership.member()
	if !m.valid() {
		return
	}
	t := &turn{l: l, member: m, began: time.Now()}
	if l.cfg.Guarantee == AtLeastOnce {
		// A steady stream of due records must not keep the checkpoint from being written.
		if t.parts = l.staleCheckpoints(); len(t.parts) == 0 {
			t.parts, t.full = l.dueRecords(now)
		} else {
			t.plain = true
		}
	} else {
		// Checkpoints that are getting old go along; with nothing to deliver they go alone.
		t.parts, t.full = l.dueRecords(now)
		t.plain = len(t.parts) == 0
		t.parts = append(t.parts, l.staleCheckpoints()...)
	}
	if len(t.parts) > 0 {
		l.turn = t
		l.start(ctx, t)
	}
}

// beginAhead takes the next batch out and has it rendered. It begins when the turn in flight is
// decided and has happened, and is put back otherwise.
func (l *lane) beginAhead(ctx context.Context, now int64) {
	t := &turn{l: l, began: time.Now(), begin: make(chan bool, 1)}
	if t.parts, t.full = l.dueRecords(now); len(t.parts) > 0 {
		l.ahead = t
		l.start(ctx, t)
	}
}

// release lets the turn begin that was rendered ahead, or puts it back.
func (l *lane) release(ctx context.Context, begin bool) {
	t := l.ahead
	if t == nil {
		return
	}
	l.ahead = nil
	t.member, t.began = l.membership.member(), time.Now()
	if begin && !l.renewing && !l.draining && t.member.valid() {
		for _, pt := range t.parts {
			// The turn before may have appended above this one's O.
			pt.to.Appended = pt.to.Appended || pt.p.ownEnd > pt.to.Offset
		}
		l.turn = t
		t.begin <- true
		return
	}
	t.begin <- false
	<-l.decided
	for _, pt := range t.parts {
		pt.p.turns--
		l.putBack(pt, 0)
	}
}

// putBack keeps a part to be tried again, in the order in which the parts were made: each one's
// checkpoint says that those before it have happened.
func (l *lane) putBack(pt *part, at int64) {
	p := pt.p
	i := len(p.repeat)
	for i > 0 && p.repeat[i-1].n > pt.n {
		i--
	}
	p.repeat = slices.Insert(p.repeat, i, pt)
	p.repeatAt = max(p.repeatAt, at)
}

// dueRecords takes what is due from the partitions in rotation, up to the bounds of a batch, and
// says whether they were reached.
func (l *lane) dueRecords(now int64) (parts []*part, full bool) {
	records, bytes := max(l.cfg.BatchRecords>>l.timeouts, 1), max(l.cfg.BatchBytes>>l.timeouts, 1)
	for i := range l.order {
		p := l.order[(i+l.rotation)%len(l.order)]
		if !p.live() || records <= 0 || bytes <= 0 {
			continue
		}
		items := l.items()
		pt := p.prepare(now, items, records, bytes)
		if pt == nil {
			l.spare = append(l.spare, items)
			continue
		}
		records -= len(pt.items)
		for i := range pt.items {
			bytes -= int64(len(pt.items[i].run))
		}
		p.turns++
		parts = append(parts, pt)
	}
	l.rotation++
	return parts, records <= 0 || bytes <= 0
}

// staleCheckpoints takes the checkpoints that have moved on and have not been written for some
// time, of partitions that are not in the turn already.
func (l *lane) staleCheckpoints() []*part {
	var out []*part
	for _, p := range l.order {
		if !p.live() || p.turns > 0 || time.Since(p.committedAt) < l.cfg.CommitInterval {
			continue
		}
		if pt := p.prepareCommit(); pt != nil {
			p.turns++
			out = append(out, pt)
		}
	}
	return out
}

// start hands a turn to its goroutine.
func (l *lane) start(ctx context.Context, t *turn) {
	if !t.plain {
		t.producer, t.render = l.producers[l.next%len(l.producers)], l.renderers[l.next]
		t.render.reset()
		l.next = 1 - l.next
	}
	t.patience = l.timeouts
	// What has begun is finished even when the processor is told to stop.
	ctx, t.cancel = context.WithCancel(context.WithoutCancel(ctx))
	l.wg.Go(func() {
		t.run(ctx)
		l.decided <- t
	})
}

// took takes in what became of the turn in flight.
func (l *lane) took(ctx context.Context, t *turn) {
	t.cancel()
	l.turn = nil
	l.p.counters.turn(t)
	if t.outcome != outcomeUnknown { // then a producer was in trouble, which says nothing about targets
		for topic, err := range t.blamed {
			l.p.targets.failed(topic, err)
		}
	}
	for _, pt := range t.parts {
		pt.p.turns--
	}
	for _, h := range t.held {
		l.hold(h)
	}
	switch t.outcome {
	case outcomeDone:
		l.aborts = 0
		if !t.plain && len(t.took) > 0 {
			l.timeouts = max(l.timeouts-1, 0)
		}
		l.tookDone(t)
	case outcomeAborted:
		if errors.Is(t.err, context.DeadlineExceeded) {
			l.timeouts = min(l.timeouts+1, 5)
		}
		level := slog.LevelWarn
		if judge(t.err) == verdictRefused {
			level = slog.LevelInfo // every rebalance refuses some turn
		}
		l.log.Log(ctx, level, "turn given up; it is tried again", "error", t.err, "partitions", len(t.took))
		l.tookAborted(t)
	}
	l.release(ctx, t.outcome == outcomeDone && len(t.held) == 0)
	if t.outcome == outcomeUnknown {
		l.log.Warn("turn with unknown outcome; its partitions start over from their checkpoints", "error", t.err, "partitions", len(t.took))
		l.tookUnknown(ctx, t)
	}
	if t.plain && t.outcome == outcomeAborted && isTopicGone(t.err) {
		for _, pt := range t.took {
			if l.parts[pt.p.tp] == pt.p {
				l.restartTopic(ctx, pt.p.tp.topic, t.err)
			}
		}
	}
}

// hold keeps a part that could not be tried.
func (l *lane) hold(h heldPart) {
	p := h.part.p
	l.putBack(h.part, l.p.clock.now()+l.cfg.RetryBackoff.Milliseconds()/4)
	if p.err == nil || p.err.Error() != h.why.Error() {
		l.log.Warn("partition is held up", "topic", p.tp.topic, "partition", p.tp.partition, "error", h.why)
	}
	p.err = h.why
}

// tookAborted keeps the parts of a turn that is known not to have happened: the same O, W and
// records are tried again, so partitions that stay do not pay for a rebalance with a catch-up.
func (l *lane) tookAborted(t *turn) {
	at := int64(0)
	if judge(t.err) == verdictStop && len(t.blamed) == 0 {
		at = l.p.clock.now() + time.Second.Milliseconds()
	}
	if l.aborts++; l.aborts > 4 { // a rebalance refuses a few; what goes on refusing must not be asked at full speed
		at = max(at, l.p.clock.now()+int64(min(50<<min(l.aborts-4, 5), 1000)))
	}
	for _, pt := range t.took {
		if len(pt.items) > 0 {
			l.putBack(pt, at)
		}
		if at > 0 {
			pt.p.err = t.err
		}
		pt.p.committedAt = time.Now() // a checkpoint that was refused waits for its next time
	}
}

func (l *lane) tookDone(t *turn) {
	now := time.Now()
	for _, pt := range t.took {
		p := pt.p
		p.err = nil
		if t.plain {
			p.written(pt.to, len(p.held), now)
			if p.done = pt.to; len(p.repeat) == 0 {
				p.planned = pt.to
			}
			continue
		}
		p.settle(pt)
		l.recycle(pt)
		if end := t.ownEnds[pt]; end > 0 {
			p.ownEnd = max(p.ownEnd, end)
		}
		if l.cfg.Guarantee == ExactlyOnce {
			p.written(pt.to, len(p.held), now)
		}
	}
	if t.render != nil {
		l.p.counters.outputs(t)
	}
}

// tookUnknown drops what was remembered of the partitions of a turn that may or may not have
// happened. A plain commit that was not answered ends the membership as well, because a late
// copy of it must find its generation gone.
func (l *lane) tookUnknown(ctx context.Context, t *turn) {
	var tps []topicPartition
	for _, pt := range t.took {
		if l.parts[pt.p.tp] == pt.p { // else it was lost meanwhile
			tps = append(tps, pt.p.tp)
		}
	}
	switch {
	case l.stopping: // their next owner finds out
		l.drop(ctx, tps)
	case t.plain:
		l.endMembership(ctx, t.err)
	default:
		t.render.forget()
		l.renew(ctx)
		l.drop(ctx, tps)
		l.restore(ctx, tps)
	}
}

// items returns memory for the items of a part.
func (l *lane) items() []item {
	k := len(l.spare)
	if k == 0 {
		return nil
	}
	out := l.spare[k-1]
	l.spare = l.spare[:k-1]
	return out
}

// recycle keeps the memory of a part that has been settled.
func (l *lane) recycle(pt *part) {
	if cap(pt.items) > 0 && len(l.spare) < 8 {
		clear(pt.items)
		l.spare = append(l.spare, pt.items[:0])
	}
	pt.items = nil
}

// renew replaces every producer, for as long as it takes. Until that is done no turn begins.
func (l *lane) renew(ctx context.Context) {
	if l.renewing {
		return
	}
	l.renewing = true
	l.wg.Go(func() {
		for pause := 250 * time.Millisecond; ; pause = min(2*pause, 8*time.Second) {
			err := l.renewAll(ctx)
			if err == nil || ctx.Err() != nil {
				break
			}
			l.log.Warn("producers are not ready; trying again", "error", err, "in", pause)
			if !sleep(ctx, pause) {
				break
			}
		}
		l.renewed <- struct{}{}
	})
}

func (l *lane) renewAll(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	var errs []error
	for _, p := range l.producers {
		errs = append(errs, p.renew(ctx))
	}
	return errors.Join(errs...)
}

// storeFailed starts every partition over: the store is a cache.
func (l *lane) storeFailed(ctx context.Context, err error) {
	l.log.Error("store", "error", err)
	for _, p := range slices.Clone(l.order) { // which changes meanwhile
		l.restart(ctx, p, err)
	}
}

// shutdown finishes what is open, writes the checkpoints, and leaves the group.
func (l *lane) shutdown() {
	ctx, cancel := context.WithTimeout(context.Background(), l.cfg.TurnTimeout+requestTimeout)
	defer cancel()
	l.stopping = true
	l.cancelRestores(nil)
	l.stopPoll(ctx)
	l.awaitTurn(ctx)
	l.cancelRestores(nil) // what its outcome has begun
	l.lastCheckpoints(ctx, l.order)
	for _, p := range l.order {
		if p.store != nil && p.live() && p.far() > 0 {
			p.dirty = true
			if err := l.sync(p); err != nil {
				l.log.Warn("store", "error", err)
			}
		}
	}
	l.leave(l.membership)
	// Callbacks of the leaving client do not wait any more; what they still hand over is nobody's.
	for {
		select {
		case <-l.handovers:
		case <-l.restored:
		case <-l.membership.done:
			return
		case <-ctx.Done():
			return
		}
	}
}

// lastCheckpoints writes the checkpoints of partitions that are about to be given up, so that
// their next owner has little or nothing to do again.
func (l *lane) lastCheckpoints(ctx context.Context, ps []*partition) {
	t := &turn{l: l, plain: true, member: l.membership.member()}
	for _, p := range ps {
		if !p.live() {
			continue
		}
		if pt := p.prepareCommit(); pt != nil {
			t.parts = append(t.parts, pt)
		}
	}
	if len(t.parts) == 0 || !t.member.valid() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout/2)
	defer cancel()
	if t.run(ctx); t.outcome != outcomeDone {
		l.log.Warn("last checkpoints not written", "error", t.err)
		return
	}
	l.tookDone(t)
}

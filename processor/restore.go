package processor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/wheel"
)

// restore brings back the state of partitions that were assigned, beside the lane, so that
// partitions that stay are not held up: fetch the checkpoint, fence whoever holds it open, claim
// it, open the store, find the end of the log. What is found goes to the lane as it is ready.
type restore struct {
	l      *lane
	member *membership
	left   map[topicPartition]bool // owned by the lane: not yet adopted
	cancel context.CancelFunc
	done   chan struct{}
	began  time.Time
}

// restored is one partition, ready to catch up or stopped. A nil partition is the restore's last
// word; lostMembership means that a claim was not answered.
type restored struct {
	from           *restore
	p              *partition
	lostMembership error
}

func (l *lane) restore(ctx context.Context, tps []topicPartition) {
	if len(tps) == 0 {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	r := &restore{l: l, member: l.membership, left: map[topicPartition]bool{}, cancel: cancel, done: make(chan struct{}), began: time.Now()}
	for _, tp := range tps {
		r.left[tp] = true
		l.remember(tp, nil)
	}
	l.restores[r] = struct{}{}
	l.wg.Go(func() {
		defer close(r.done)
		defer cancel()
		r.run(ctx, slices.Clone(tps))
	})
}

// cancelRestores ends every restore that works on one of the given partitions (nil: every one),
// and returns what else they were working on, and what other restores have handed over meanwhile.
// It waits until they have ended: a claim that is under way must be answered before the partition
// is given up.
func (l *lane) cancelRestores(tps []topicPartition) (again []topicPartition, others []restored) {
	for r := range l.restores {
		if tps != nil && !slices.ContainsFunc(tps, func(tp topicPartition) bool { return r.left[tp] }) {
			continue
		}
		r.cancel()
		for ended := false; !ended; {
			select {
			case got := <-l.restored:
				if got.from != r {
					others = append(others, got)
				}
			case <-r.done:
				ended = true
			}
		}
		delete(l.restores, r)
		for tp := range r.left {
			if !slices.Contains(tps, tp) {
				again = append(again, tp)
			}
		}
	}
	return again, others
}

const (
	fencePatience = 100 * time.Millisecond // how long the markers of a transaction that ended well may take
	restorePause  = 10 * time.Millisecond
	fenceAgain    = time.Second
)

func (r *restore) run(ctx context.Context, left []topicPartition) {
	var fencedAt time.Time
	for pause := restorePause; len(left) > 0; {
		ready, unstable, err := r.checkpoints(ctx, left)
		if err == nil && len(ready) > 0 {
			err = r.bring(ctx, ready)
			if err == nil {
				left = slices.DeleteFunc(left, func(tp topicPartition) bool { _, ok := ready[tp]; return ok })
				continue
			}
			if errors.Is(err, errUnanswered) {
				r.tell(ctx, restored{from: r, lostMembership: err})
				return
			}
		}
		if err == nil && len(unstable) > 0 && time.Since(r.began) > fencePatience && time.Since(fencedAt) > fenceAgain {
			fencedAt = time.Now()
			err = r.fence(ctx, unstable)
		}
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			r.l.log.Warn("restore partitions", "partitions", left, "error", err)
			pause = min(2*pause, time.Second)
		}
		if !sleep(ctx, pause) {
			return
		}
	}
	r.tell(ctx, restored{from: r})
}

func (r *restore) tell(ctx context.Context, what restored) {
	select {
	case r.l.restored <- what:
	case <-ctx.Done():
	}
}

// found is a partition's checkpoint as it stands in the group, and where its log is.
type found struct {
	id      topicID
	fetched fetched
	bounds  logBounds
}

// checkpoints fetches the checkpoints of partitions; those that an open transaction may still
// change are unstable. The end of the log is asked for after the checkpoint (design rule 2).
// Partitions that are in trouble (without a leader, or their topic is gone) are left out, so that
// they hold up no other; when all are, the error says why.
func (r *restore) checkpoints(ctx context.Context, tps []topicPartition) (ready map[topicPartition]found, unstable map[topicPartition]topicID, err error) {
	ids, trouble := topicIDs(ctx, r.l.reader, tps)
	if len(ids) == 0 {
		return nil, nil, trouble
	}
	got, err := r.l.coordinator.fetch(ctx, r.l.reader, ids, true)
	if err != nil {
		return nil, nil, err
	}
	ready, unstable = map[topicPartition]found{}, map[topicPartition]topicID{}
	for tp, id := range ids {
		f, ok := got[tp]
		switch {
		case !ok:
			trouble = fmt.Errorf("checkpoint of %s: not in the answer", tp)
		case f.unstable:
			unstable[tp] = id
		case f.err != nil:
			trouble = fmt.Errorf("checkpoint of %s: %w", tp, f.err)
		default:
			ready[tp] = found{id: id, fetched: f}
		}
	}
	bounds, err := askBounds(ctx, r.l.reader, slices.Collect(maps.Keys(ready)))
	if err != nil {
		return nil, nil, err
	}
	for tp, f := range ready {
		b, ok := bounds[tp]
		if !ok || b.err != nil {
			trouble = fmt.Errorf("ends of %s: %w", tp, cmpErr(b.err, kerr.LeaderNotAvailable))
			delete(ready, tp)
			continue
		}
		f.bounds = b
		ready[tp] = f
	}
	if len(ready)+len(unstable) == 0 {
		return nil, nil, trouble
	}
	return ready, unstable, nil
}

// cmpErr returns err, or otherwise other.
func cmpErr(err, other error) error {
	if err != nil {
		return err
	}
	return other
}

// fence ends the transactions of the writers that hold the checkpoints of partitions. An
// unstable fetch shows the last committed checkpoint, which names the writer: it claimed the
// partition before its first transaction (design rule 9).
func (r *restore) fence(ctx context.Context, unstable map[topicPartition]topicID) error {
	got, err := r.l.coordinator.fetch(ctx, r.l.reader, unstable, false)
	if err != nil {
		return err
	}
	fenced := map[string]bool{r.l.writer: true, "": true} // our own producers have been renewed already
	for tp, f := range got {
		c, err := state.ParseCheckpoint(f.offset, f.metadata)
		if err != nil || fenced[c.Writer] {
			continue
		}
		fenced[c.Writer] = true
		r.l.log.Info("fencing the writer of an open transaction", "topic", tp.topic, "partition", tp.partition, "writer", c.Writer)
		r.l.p.counters.fenced.Add(1)
		if err := fence(ctx, r.l.reader, c.Writer, r.l.cfg.TransactionTimeout); err != nil {
			return err
		}
	}
	return nil
}

// bring claims partitions and hands them to the lane.
func (r *restore) bring(ctx context.Context, ready map[topicPartition]found) error {
	// A disk that failed takes the store with it; nothing happens here while it is well.
	if err := r.l.p.store.Reopen(); err != nil {
		return fmt.Errorf("open the store again: %w", err)
	}
	var claims []commitEntry
	var parts []*partition
	for tp, f := range ready {
		p, claim, err := r.judge(tp, f)
		if err != nil {
			p.phase, p.err = PhaseStopped, err
		} else if claim {
			e, err := entry(tp, f.id, p.committed)
			if err != nil {
				return err
			}
			claims = append(claims, e)
		}
		parts = append(parts, p)
	}
	if len(claims) > 0 {
		// Not cut short when the partition is revoked meanwhile: it has to be answered.
		if err := r.l.coordinator.commit(context.WithoutCancel(ctx), r.l.reader, r.member.member(), claims); err != nil {
			return fmt.Errorf("claim: %w", err)
		}
	}
	for _, p := range parts { // all of them before the first is handed over: on an error all are brought again
		if p.phase == PhaseStopped {
			continue
		}
		if err := r.open(p); err != nil {
			return err
		}
	}
	for _, p := range parts {
		r.tell(ctx, restored{from: r, p: p})
	}
	return nil
}

// judge makes a partition of what was found, and says whether it has to be claimed. The error is
// one that a person must decide on.
func (r *restore) judge(tp topicPartition, f found) (p *partition, claim bool, err error) {
	l := r.l
	p = &partition{
		tp: tp, id: f.id, route: l.p.routes[tp.topic], stats: l.p.counters.topics[tp.topic], since: r.began,
		log:      l.log.With("topic", tp.topic, "partition", tp.partition),
		phase:    PhaseCatchUp,
		logStart: f.bounds.start, endAsked: f.bounds.asked,
	}
	c, err := l.p.checkpointOf(p, f)
	if err != nil {
		return p, false, err
	}
	claim = f.fetched.offset < 0 || c.Writer != l.writer
	c.Writer = l.writer
	if parsers := withParser(c, p.route.Spec()); !slices.Equal(parsers, c.Parsers) {
		was := c.Parsers
		c.Parsers = parsers
		if _, err := c.Metadata(); errors.Is(err, state.ErrMetadataTooLong) {
			p.log.Error("records are read as before until fewer of the old ones are pending: the checkpoint has no room for one more way of reading them",
				"now", was[len(was)-1].Spec, "wanted", p.route.Spec(), "error", err)
			c.Parsers = was
		} else {
			claim = true
		}
	}
	for _, e := range c.Parsers {
		parser, err := p.route.ParserFor(e.Spec)
		if err != nil {
			return p, false, p.describe("checkpoint of", err)
		}
		p.parsers = append(p.parsers, parserFrom{e.From, parser})
	}
	p.logEnd = f.bounds.end(c.Appended)
	if c.Appended {
		p.ownEnd = p.logEnd
	}
	p.committed, p.done, p.planned, p.judge = c, c, c, c.Watermark
	p.accepted, p.position, p.start = c.Offset, c.LowWater, c.LowWater
	if p.route.Delay > 0 && c.LowWater == c.Offset {
		p.queue = &queue{}
	}
	return p, claim, nil
}

// withParser returns the parsers of a checkpoint when spec is to hold from its offset on. What
// would hold from there by an earlier configuration never held for any record.
func withParser(c state.Checkpoint, spec string) []state.ParserEpoch {
	out := slices.Clone(c.Parsers)
	if n := len(out); n > 0 && out[n-1].From == c.Offset {
		out = out[:n-1]
	}
	if n := len(out); n == 0 || out[n-1].Spec != spec {
		out = append(out, state.ParserEpoch{From: c.Offset, Spec: spec})
	}
	return out
}

// checkpointOf sorts what can be wrong with a checkpoint.
func (pr *Processor) checkpointOf(p *partition, f found) (state.Checkpoint, error) {
	short := f.id.short()
	fresh := state.Checkpoint{TopicID: short, Offset: f.bounds.start, LowWater: f.bounds.start}
	if f.fetched.offset < 0 {
		return pr.fromStore(p, fresh), nil
	}
	c, err := state.ParseCheckpoint(f.fetched.offset, f.fetched.metadata)
	switch {
	case errors.Is(err, state.ErrNotOurs):
		return fresh, fmt.Errorf("%w: %s is at offset %d; stop the group, then choose: `duewheel checkpoints reset -t %s -p %d --to-beginning` "+
			"delivers everything that the log holds, with `--to-offset %d` instead it goes on from there", ErrForeignCheckpoint, p.tp, f.fetched.offset, p.tp.topic, p.tp.partition, f.fetched.offset)
	case err != nil:
		return fresh, p.describe("checkpoint of", err)
	case c.TopicID != short:
		p.log.Warn("the topic was made anew; its old checkpoint is of no use", "old", fmt.Sprintf("%x", c.TopicID), "new", fmt.Sprintf("%x", short))
		return fresh, nil
	case c.Offset > f.bounds.high:
		return c, fmt.Errorf("%w: %s is at offset %d and the log ends at %d; records that were accepted are gone (unclean leader election, or a restored broker)",
			ErrBeyondLog, p.tp, c.Offset, f.bounds.high)
	case c.LowWater < f.bounds.start && pr.storeCovers(p, c, f.bounds.start):
		p.log.Warn("the log has lost pending records that the local store still holds; they are delivered from there, by this process alone",
			"low_water", c.LowWater, "log_start", f.bounds.start)
	case c.LowWater < f.bounds.start:
		if !pr.cfg.AcceptLoss {
			return c, fmt.Errorf("%w: %s is needed from offset %d on and begins at %d; give the topic retention.ms=-1, and go on with `--accept-loss`",
				ErrLogTruncated, p.tp, c.LowWater, f.bounds.start)
		}
		p.log.Error("going on although the log has lost pending records", "low_water", c.LowWater, "log_start", f.bounds.start)
		c.LowWater = f.bounds.start
		c.Offset = max(c.Offset, c.LowWater)
	}
	return c, nil
}

// fromStore is the way on without a checkpoint (a new group, or one whose offsets have expired):
// what a store of this topic and group knows, else the log's beginning.
func (pr *Processor) fromStore(p *partition, fresh state.Checkpoint) state.Checkpoint {
	part, err := pr.store.Partition(pr.partitionID(p))
	if err != nil {
		return fresh
	}
	pos, ok := part.Position()
	if !ok || min(pos.Offset, pos.Resume) < fresh.LowWater {
		return fresh
	}
	p.log.Warn("no checkpoint; going on from the local store", "offset", pos.Offset, "resume", pos.Resume)
	fresh.Offset = min(pos.Offset, pos.Resume)
	fresh.LowWater = min(pos.LowWater, fresh.Offset) // which may be below the log's start: the store has what the log has not
	fresh.Watermark = pos.Watermark
	return fresh
}

// storeCovers reports whether the local store holds everything that is pending below the log's
// start, so that nothing has been lost yet.
func (pr *Processor) storeCovers(p *partition, c state.Checkpoint, logStart int64) bool {
	part, err := pr.store.Partition(pr.partitionID(p))
	if err != nil {
		return false
	}
	pos, ok := part.Position()
	return ok && min(pos.Offset, pos.Resume) >= logStart && pos.Offset <= c.Offset && !c.Watermark.Less(pos.Watermark)
}

func (pr *Processor) partitionID(p *partition) state.PartitionID {
	return state.PartitionID{Group: pr.cfg.Group, Topic: p.tp.topic, TopicID: p.id, Partition: p.tp.partition}
}

// forgetAtMost is how many records are deleted from a store one by one before it is cheaper, and
// takes less memory, to build it anew.
const forgetAtMost = 200_000

// open makes what a partition holds in memory, and looks what the store can spare it.
func (r *restore) open(p *partition) (err error) {
	p.near = newNear()
	p.ledger = state.NewLedger(p.committed.LowWater)
	p.wheel = wheel.New(wheel.Tick(p.judge.Due))
	if p.queue != nil {
		p.position, p.start = p.committed.Offset, p.committed.Offset
		return nil
	}
	now := max(r.l.p.clock.now(), p.judge.Due)
	p.horizon = state.Key{Due: now + r.l.windowMax, Seq: math.MaxInt64}
	if p.store, err = r.l.p.store.Partition(r.l.p.partitionID(p)); err != nil {
		return p.describe("open the store of", err)
	}
	pos, ok := p.store.Position()
	c := p.committed
	if !ok || pos.Resume < c.LowWater || pos.Resume > p.logEnd || c.Watermark.Less(pos.Watermark) || pos.Offset > c.Offset {
		if ok {
			p.log.Info("local store is of no use here; rebuilding from the log", "resume", pos.Resume, "low_water", c.LowWater)
		}
		if err := p.store.Drop(); err != nil {
			return p.describe("empty the store of", err)
		}
		return nil
	}
	// What the store took in before O had passed it may have been read by a parser, or under a
	// configuration, that has never held: it is forgotten and read again. What else it holds from
	// start on is read again, too, gets the same key, and is counted then.
	p.start = max(min(pos.Offset, pos.Resume), c.LowWater)
	p.position = p.start
	var corrupt error
	forgotten := 0
	err = p.store.Scan(c.Watermark, func(k state.Key, run []byte) bool {
		var rec record
		if corrupt = decodeRecord(run, &rec); corrupt != nil {
			return false
		}
		switch {
		case rec.offset < c.LowWater, rec.offset >= pos.Offset:
			// Below L it was resolved while the route had a fixed delay, which leaves W alone.
			if forgotten++; forgotten > forgetAtMost {
				corrupt = errors.New("most of what it holds was never accepted")
				return false
			}
			p.dirty = true
			return p.store.Delete(k) == nil
		case rec.offset < p.start:
			p.ledger.Add(k, rec.offset, len(run), true)
		}
		return true
	})
	if err = errors.Join(err, corrupt); err != nil {
		p.log.Warn("local store cannot be used; rebuilding from the log", "error", err)
		if err := p.store.Drop(); err != nil {
			return p.describe("empty the store of", err)
		}
		p.ledger = state.NewLedger(c.LowWater)
		p.start, p.position = c.LowWater, c.LowWater
	}
	return nil
}

// topicIDs looks up the ids of topics. The error is about those that it leaves out.
func topicIDs(ctx context.Context, cl *kgo.Client, tps []topicPartition) (map[topicPartition]topicID, error) {
	names := map[string]bool{}
	for _, tp := range tps {
		names[tp.topic] = true
	}
	md, err := kadm.NewClient(cl).Metadata(ctx, slices.Collect(maps.Keys(names))...)
	if err != nil {
		return nil, fmt.Errorf("metadata: %w", err)
	}
	ids := map[topicPartition]topicID{}
	for _, tp := range tps {
		d, ok := md.Topics[tp.topic]
		if !ok || d.Err != nil {
			err = fmt.Errorf("metadata of %s: %w", tp.topic, cmpErr(d.Err, kerr.UnknownTopicOrPartition))
			continue
		}
		ids[tp] = topicID(d.ID)
	}
	return ids, err
}

// logBounds is where a log begins and ends.
type logBounds struct {
	start  int64
	stable int64 // the last stable offset
	high   int64 // the high watermark
	asked  time.Time
	err    error
}

// end is up to where a catch-up must read: the last stable offset, or the high watermark where
// records of ours may lie in transactions whose markers are still on their way (design rule 2).
func (b logBounds) end(appended bool) int64 {
	if appended {
		return b.high
	}
	return b.stable
}

// askBounds asks where the logs of partitions begin and end. A partition whose leader does not
// answer is missing from what it returns.
func askBounds(ctx context.Context, cl *kgo.Client, tps []topicPartition) (map[topicPartition]logBounds, error) {
	out := make(map[topicPartition]logBounds, len(tps))
	if len(tps) == 0 {
		return out, nil
	}
	names := map[string]bool{}
	for _, tp := range tps {
		names[tp.topic] = true
	}
	list := slices.Collect(maps.Keys(names))
	adm := kadm.NewClient(cl)
	asked := time.Now()
	starts, err := answered(adm.ListStartOffsets(ctx, list...))
	if err != nil {
		return nil, fmt.Errorf("start of logs: %w", err)
	}
	stables, err := answered(adm.ListCommittedOffsets(ctx, list...))
	if err != nil {
		return nil, fmt.Errorf("last stable offsets: %w", err)
	}
	highs, err := answered(adm.ListEndOffsets(ctx, list...))
	if err != nil {
		return nil, fmt.Errorf("high watermarks: %w", err)
	}
	for _, tp := range tps {
		s, ok1 := starts.Lookup(tp.topic, tp.partition)
		c, ok2 := stables.Lookup(tp.topic, tp.partition)
		h, ok3 := highs.Lookup(tp.topic, tp.partition)
		if !ok1 || !ok2 || !ok3 {
			continue
		}
		out[tp] = logBounds{start: s.Offset, stable: c.Offset, high: h.Offset, asked: asked, err: errors.Join(s.Err, c.Err, h.Err)}
	}
	return out, nil
}

// answered makes do with the brokers that have answered, if any has.
func answered(listed kadm.ListedOffsets, err error) (kadm.ListedOffsets, error) {
	if some, ok := errors.AsType[*kadm.ShardErrors](err); ok && !some.AllFailed {
		return listed, nil
	}
	return listed, err
}

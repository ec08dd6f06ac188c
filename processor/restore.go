package processor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/local"
	"github.com/duewheel/duewheel/processor/producer"
	"github.com/duewheel/duewheel/processor/turn"
	"github.com/duewheel/duewheel/processor/wait"
	"github.com/duewheel/duewheel/state"
)

// restore brings back the state of partitions that were assigned, beside the lane, so that
// partitions that stay are not held up: fetch the checkpoint, fence the writer that holds it open, claim
// it, open the store, find the end of the log. What is found goes to the lane as it is ready.
type restore struct {
	*kit
	to     chan<- restored
	member membership
	left   map[kafka.TopicPartition]bool // owned by the lane: not yet adopted
	cancel context.CancelFunc
	done   chan struct{}
	began  time.Time
	rest   time.Duration // before the first look
	asked  wait.Backoff  // for a rebalance
	asks   time.Time     // when that is done again

	// Owned by run.
	fences   int // how often writers were fenced
	fencedAt time.Time
	fenced   []string // writers of which it was said
	refused  error    // why the last try to fence was in vain
	hangs    bool     // it was said that a transaction hangs
}

// restored is one partition, ready to catch up or stopped. A nil partition is the restore's last
// word; lostMembership means that a claim was not answered.
type restored struct {
	from           *restore
	p              *partition
	lostMembership error
}

const (
	fencePatience = 100 * time.Millisecond // how long the markers of a transaction that ended well may take
	restorePause  = 10 * time.Millisecond
	fenceMost     = 2 * time.Second
	hangsAfter    = 10 * time.Second // beyond its timeout no transaction is open any more
)

// fenceAgain is the pause before writers are fenced that were fenced so often before. The first pauses are short, because a coordinator
// refuses an id that it is writing down, and then the transaction goes on.
func fenceAgain(fences int) time.Duration {
	return wait.Growing(2*max(fences-1, 0), 20*time.Millisecond, fenceMost)
}

func (r *restore) run(ctx context.Context, left []kafka.TopicPartition) {
	logged := ""
	if r.rest > 0 && !wait.For(ctx, r.rest) {
		return
	}
	for pause := restorePause; len(left) > 0; {
		ready, unstable, err := r.checkpoints(ctx, left)
		if err == nil && len(ready) > 0 {
			var brought []kafka.TopicPartition
			brought, err = r.bring(ctx, ready)
			left = slices.DeleteFunc(left, func(tp kafka.TopicPartition) bool { return slices.Contains(brought, tp) })
			if err == nil {
				continue
			}
			if errors.Is(err, kafka.ErrUnanswered) {
				r.tell(ctx, restored{from: r, lostMembership: err})
				return
			}
		}
		if err == nil && len(unstable) > 0 && time.Since(r.began) > fencePatience && time.Since(r.fencedAt) > fenceAgain(r.fences) {
			err = r.free(ctx, unstable)
		}
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			if logged != err.Error() {
				logged = err.Error()
				r.log.Warn("partitions cannot be restored yet; trying again", "partitions", left, "error", err)
			}
			r.assigned.Explain(r.n, left, "waiting: "+err.Error())
			r.sharedOut(err)
			pause = min(2*pause, time.Second)
		} else {
			pause = max(pause, min(time.Since(r.began)/4, 10*restorePause)) // a transaction that is held open is no matter of ms any more
		}
		if !wait.For(ctx, pause) {
			return
		}
	}
	r.tell(ctx, restored{from: r})
}

// sharedOut has the group share its partitions out anew where one is assigned that does not exist: it goes by how many there were when it did so last.
func (r *restore) sharedOut(err error) {
	if errors.Is(err, kafka.ErrNoPartition) && r.cfg.Protocol == ProtocolClassic && time.Now().After(r.asks) {
		r.asks = time.Now().Add(max(r.asked.Failed(), wait.MostRest))
		r.uneven.Ask()
	}
}

// free fences the writers of checkpoints that are unstable, and says what they wait for. A transaction
// that is open for longer than it may be is one that a person has to end.
func (r *restore) free(ctx context.Context, unstable map[kafka.TopicPartition]kafka.TopicID) error {
	r.fences++
	r.fencedAt = time.Now()
	held := slices.SortedFunc(maps.Keys(unstable), kafka.Compare)
	why := "the checkpoint is held by an open transaction; fencing its writer"
	if time.Since(r.began) > r.cfg.TransactionTimeout+hangsAfter {
		why = fmt.Sprintf("%v: find it with `kafka-transactions.sh find-hanging` on __consumer_offsets and end it with `kafka-transactions.sh abort`", ErrHangingTransaction)
		if !r.hangs {
			r.log.Error("partitions wait until a person ends a transaction", "partitions", held, "error", why)
		}
		r.hangs = true
	}
	if r.hangs || r.refused == nil { // else the answer to the last try says more
		r.assigned.Explain(r.n, held, why)
	}
	r.refused = r.fence(ctx, unstable)
	return r.refused
}

func (r *restore) tell(ctx context.Context, what restored) {
	select {
	case r.to <- what:
	case <-ctx.Done():
	}
}

// checkpoints fetches the checkpoints of partitions; those that an open transaction may still
// change are unstable. The end of the log is asked for after the checkpoint (design rule 2).
// Partitions that are in trouble (without a leader, or their topic is gone) are left out, so that
// they hold up no other; when all are, the error says why.
func (r *restore) checkpoints(ctx context.Context, tps []kafka.TopicPartition) (ready map[kafka.TopicPartition]found, unstable map[kafka.TopicPartition]kafka.TopicID, err error) {
	ids, trouble := kafka.TopicIDs(ctx, r.reader, tps)
	if len(ids) == 0 {
		return nil, nil, trouble
	}
	got, err := r.coordinator.Fetch(ctx, r.reader, ids, true)
	if err != nil {
		return nil, nil, err
	}
	ready, unstable = map[kafka.TopicPartition]found{}, map[kafka.TopicPartition]kafka.TopicID{}
	for tp, id := range ids {
		f, ok := got[tp]
		switch {
		case !ok:
			trouble = fmt.Errorf("checkpoint of %s: not in the answer", tp)
		case f.Unstable:
			unstable[tp] = id
		case f.Err != nil:
			trouble = fmt.Errorf("checkpoint of %s: %w", tp, f.Err)
		default:
			ready[tp] = found{id: id, fetched: f}
		}
	}
	lacking, err := r.lookUp(ctx, ready)
	if err != nil {
		return nil, nil, err
	}
	if len(ready)+len(unstable) == 0 {
		return nil, nil, cmp.Or(lacking, trouble)
	}
	return ready, unstable, nil
}

// lookUp asks where the logs of partitions are that were found, and takes out those of which that is not known; lacking says why.
func (r *restore) lookUp(ctx context.Context, of map[kafka.TopicPartition]found) (lacking, err error) {
	epochs := map[kafka.TopicPartition]int32{}
	for tp, f := range of {
		if f.fetched.Offset < 0 { // the way on is what the store knows
			f.fetched.Epoch = r.storeEpoch(tp, f.id)
			of[tp] = f
		}
		epochs[tp] = r.epochs.Comparable(f.fetched.Epoch)
	}
	var ends map[kafka.TopicPartition]int64
	var unknown error
	var asking sync.WaitGroup
	asking.Go(func() { ends, unknown = kafka.AskEpochs(ctx, r.reader, epochs) })
	bounds, err := kafka.AskBounds(ctx, r.reader, slices.Collect(maps.Keys(of)))
	if asking.Wait(); err != nil {
		return nil, err
	}
	for tp, f := range of {
		end, known := ends[tp]
		f.bounds = bounds[tp]
		why := f.bounds.Err
		switch {
		case why != nil || epochs[tp] < 0:
		case !known:
			why = unknown
		case end >= 0:
			f.ended, why = r.believed(ctx, tp, f, end)
		case f.bounds.Epoch >= 0 && f.bounds.Epoch < f.fetched.Epoch && time.Since(r.began) < deposedPatience:
			why = fmt.Errorf("where %s ends is said by a leader of epoch %d, and records of epoch %d were read: %w", tp, f.bounds.Epoch, f.fetched.Epoch, kerr.NotLeaderForPartition)
			r.reader.ForceMetadataRefresh()
		}
		if why != nil {
			lacking = why
			delete(of, tp)
			continue
		}
		of[tp] = f
	}
	return lacking, nil
}

// deposedPatience is for how long a leader is not believed that is of an older epoch than the checkpoint: there is another one, and this one is cut off from
// the other brokers and does not know. Some services have epochs of their own, so not for ever.
const deposedPatience = 3 * time.Second

// believed is where an epoch ends, or nil where its leader does not tell how it is: what says that a log was cut is worth a second question.
func (r *restore) believed(ctx context.Context, tp kafka.TopicPartition, f found, end int64) (*int64, error) {
	if f.fetched.Offset >= 0 && f.fetched.Offset <= end || end >= f.bounds.High {
		return &end, nil
	}
	tells, err := kafka.TellsEpochs(ctx, r.reader, tp, f.bounds.High)
	if err != nil || !tells {
		return nil, err
	}
	return &end, nil
}

// fence ends the transactions of the writers that hold the checkpoints of partitions. An
// unstable fetch shows the last committed checkpoint, which names the writer: it claimed the
// partition before its first transaction (design rule 9).
func (r *restore) fence(ctx context.Context, unstable map[kafka.TopicPartition]kafka.TopicID) error {
	got, err := r.coordinator.Fetch(ctx, r.reader, unstable, false)
	if err != nil {
		return err
	}
	fenced := map[string]bool{r.writer: true, "": true} // our own producers have been renewed already
	r.show(ctx, unstable, got)
	for tp, f := range got {
		c, err := state.ParseCheckpoint(f.Offset, f.Epoch, f.Metadata)
		if err != nil || fenced[c.Writer] {
			continue
		}
		fenced[c.Writer] = true
		if !slices.Contains(r.fenced, c.Writer) {
			r.fenced = append(r.fenced, c.Writer)
			r.log.Info("fencing the writer of an open transaction", "topic", tp.Topic, "partition", tp.Partition, "writer", c.Writer)
			r.counters.fenced.Add(1)
			r.events.tell(Event{Kind: EventFenced, Writer: c.Writer}, tp)
		}
		if err := kafka.Fence(ctx, r.reader, producer.IDsOf(c.Writer), r.cfg.emptyTimeout()); err != nil {
			return err
		}
	}
	return nil
}

// bring claims partitions and hands them to the lane, each as soon as it is open: looking what the
// store holds takes a while for each million records, which the first need not wait for. Those that
// it does not return are to be brought again.
func (r *restore) bring(ctx context.Context, ready map[kafka.TopicPartition]found) (brought []kafka.TopicPartition, err error) {
	parts, claimErr := r.claim(ctx, ready)
	for _, p := range parts {
		if p.phase != PhaseStopped {
			if err := r.open(ctx, p); err != nil {
				return brought, err
			}
		}
		r.tell(ctx, restored{from: r, p: p})
		brought = append(brought, p.tp)
	}
	return brought, claimErr
}

// claim makes the partitions, and commits the checkpoints of those that do not bear this lane's name.
// What is refused of one of them alone stops that one; where others are refused, the error says why,
// and they are left out.
func (r *restore) claim(ctx context.Context, ready map[kafka.TopicPartition]found) ([]*partition, error) {
	var claims []kafka.Commit
	var ps []*partition
	for tp, f := range ready {
		p, claim, err := r.make(tp, f)
		if err != nil {
			p.phase, p.err = PhaseStopped, err
		} else if claim {
			e, err := turn.CommitOf(tp, f.id, p.Marks().Committed)
			if err != nil {
				p.phase, p.err = PhaseStopped, fmt.Errorf("%w; nothing was changed: the checkpoint is as it was found", err)
			} else {
				claims = append(claims, e)
			}
		}
		ps = append(ps, p)
	}
	if len(claims) == 0 {
		return ps, nil
	}
	// Not cut short when the partition is revoked meanwhile: it has to be answered.
	err := r.coordinator.Commit(r.until, r.reader, r.member.Member(), claims)
	if err == nil {
		return ps, nil
	}
	refused := kafka.RefusedOf(err)
	if refused == nil {
		return nil, fmt.Errorf("claim: %w", err)
	}
	return r.claimed(ps, refused)
}

// claimed sorts partitions of which some could not be claimed.
func (r *restore) claimed(ps []*partition, refused map[kafka.TopicPartition]error) (brought []*partition, again error) {
	for _, p := range ps {
		switch why := refused[p.tp]; {
		case why == nil:
			brought = append(brought, p)
		case kafka.IsPartitions(why):
			p.phase, p.err = PhaseStopped, p.describe("claim", why)
			brought = append(brought, p)
		default:
			again = fmt.Errorf("claim: %w", why)
		}
	}
	return brought, again
}

// open looks what the local store can spare a partition. Without a store everything is read again, and
// kept as memory allows.
func (r *restore) open(ctx context.Context, p *partition) error {
	if !p.Ordered() {
		err := r.openStore(ctx, p)
		if errors.Is(err, local.ErrNoStore) || errors.Is(err, state.ErrFailed) {
			r.store.Failed(err)
		} else if err != nil {
			return err
		}
	}
	p.known = true
	return nil
}

// openStore gives a partition its part of the store, and what that spares it.
func (r *restore) openStore(ctx context.Context, p *partition) error {
	warm := r.standbys.Take(p.tp, p.id)
	store, err := r.store.Partition(r.store.ID(p.tp, p.id))
	if err != nil {
		return p.describe("open the store of", err)
	}
	now, c := r.clock.Now(), p.Marks().Committed
	if warm != nil {
		got, ok, err := warm.HandOver(store, c)
		if err != nil {
			return p.describe("take over the standby of", err)
		}
		if ok {
			r.counters.warm.Add(1)
			got.Start = max(got.Start, lostBelow(p, c))
			p.Use(store, got, now, r.windowMax)
			return r.bearStart(p, c)
		}
	}
	heir := local.Heir{TP: p.tp, Route: p.route, Store: store, Reader: r.reader, Epochs: &r.epochs, Log: p.log}
	if err := heir.ForgetLost(ctx, c, p.told, p.logEnd); err != nil {
		return p.describe("open the store of", err)
	}
	got, err := heir.Inherit(ctx, c, p.logStart, p.logEnd)
	if err != nil {
		return p.describe("open the store of", err)
	}
	p.Use(store, got, now, r.windowMax)
	return r.bearStart(p, c)
}

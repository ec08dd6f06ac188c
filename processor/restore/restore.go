package restore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/wait"
)

// Member is a stay in the group. Who claims is the member of that moment.
type Member interface{ Member() kafka.Member }

// Restored is one partition, ready to catch up or stopped; or that a claim was not answered, so that the membership is lost.
type Restored struct {
	*Partition
	LostMembership error
	from           *restore
}

// restore brings back the state of partitions that were assigned, beside their lane, so that
// partitions that stay are not held up: fetch the checkpoint, fence the writer that holds it open, claim
// it, open the store, find the end of the log. What is found goes to the lane as it is ready.
type restore struct {
	*Env
	to     chan<- Restored
	member Member
	left   map[kafka.TopicPartition]bool // owned by the Set: not yet taken
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

// leastPause is how soon it is looked again, at first.
const leastPause = 10 * time.Millisecond

func (r *restore) run(ctx context.Context, left []kafka.TopicPartition) {
	logged := ""
	if r.rest > 0 && !wait.For(ctx, r.rest) {
		return
	}
	for pause := leastPause; len(left) > 0; {
		ready, unstable, err := r.checkpoints(ctx, left)
		if err == nil && len(ready) > 0 {
			var brought []kafka.TopicPartition
			brought, err = r.bring(ctx, ready)
			left = slices.DeleteFunc(left, func(tp kafka.TopicPartition) bool { return slices.Contains(brought, tp) })
			if err == nil {
				continue
			}
			if errors.Is(err, kafka.ErrUnanswered) {
				r.tell(ctx, Restored{LostMembership: err, from: r})
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
				r.Log.Warn("partitions cannot be restored yet; trying again", "partitions", left, "error", err)
			}
			r.Assigned.Explain(r.Lane, left, "waiting: "+err.Error())
			r.sharedOut(err)
			pause = min(2*pause, time.Second)
		} else {
			pause = max(pause, min(time.Since(r.began)/4, 10*leastPause)) // a transaction that is held open is no matter of ms any more
		}
		if !wait.For(ctx, pause) {
			return
		}
	}
}

// sharedOut has the group share its partitions out anew where one is assigned that does not exist: it goes by how many there were when it did so last.
func (r *restore) sharedOut(err error) {
	if errors.Is(err, kafka.ErrNoPartition) && !r.Consumer && time.Now().After(r.asks) {
		r.asks = time.Now().Add(max(r.asked.Failed(), wait.MostRest))
		r.Uneven.Ask()
	}
}

func (r *restore) tell(ctx context.Context, what Restored) {
	select {
	case r.to <- what:
	case <-ctx.Done():
	}
}

// bring claims partitions and hands them to the lane, each as soon as it is open: looking what the
// store holds takes a while for each million records, which the first need not wait for. Those that
// it does not return are to be brought again.
func (r *restore) bring(ctx context.Context, ready map[kafka.TopicPartition]Found) (brought []kafka.TopicPartition, err error) {
	ps, claimErr := r.claim(ctx, ready)
	for _, p := range ps {
		if p.Stopped == nil {
			if err := r.Open(ctx, p); err != nil {
				return brought, err
			}
		}
		p.Since = r.began
		r.tell(ctx, Restored{Partition: p, from: r})
		brought = append(brought, p.TP)
	}
	return brought, claimErr
}

// claim makes the partitions, and commits the checkpoints of those that do not bear this lane's name.
// What is refused of one of them alone stops that one; where others are refused, the error says why,
// and they are left out.
func (r *restore) claim(ctx context.Context, ready map[kafka.TopicPartition]Found) ([]*Partition, error) {
	var claims []kafka.Commit
	var ps []*Partition
	for tp, f := range ready {
		p, claim, err := r.Make(tp, f)
		ps = append(ps, p)
		if err != nil {
			p.stop(err)
		} else if claim {
			c := p.Marks().Committed
			if md, err := c.Metadata(); err != nil {
				p.stop(fmt.Errorf("%w; nothing was changed: the checkpoint is as it was found", p.describe("checkpoint of", err)))
			} else {
				claims = append(claims, kafka.Commit{TP: tp, ID: f.ID, Offset: c.Offset, Epoch: c.Epoch, Metadata: md})
			}
		}
	}
	if len(claims) == 0 {
		return ps, nil
	}
	// Not cut short when the partition is revoked meanwhile: it has to be answered.
	err := r.Coordinator.Commit(r.Until, r.Reader, r.member.Member(), claims)
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
func (r *restore) claimed(ps []*Partition, refused map[kafka.TopicPartition]error) (brought []*Partition, again error) {
	for _, p := range ps {
		switch why := refused[p.TP]; {
		case why == nil:
			brought = append(brought, p)
		case kafka.IsPartitions(why):
			p.stop(p.describe("claim", why))
			brought = append(brought, p)
		default:
			again = fmt.Errorf("claim: %w", why)
		}
	}
	return brought, again
}

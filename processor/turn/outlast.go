package turn

import (
	"context"
	"errors"

	"github.com/duewheel/duewheel/processor/pending"
	"github.com/duewheel/duewheel/topics"
)

// outlasting has what cannot be dead-lettered outlast what its topic keeps.
type outlasting struct{ *Renderer }

// undeliverable renders the dead letter of a record. While its dead letter topic takes none it waits where it is, and so does its partition; but where the
// delay topic would delete it meanwhile, it is carried on, as what waits for its target is: it comes back at the end of the log, and the others go on.
func (r outlasting) undeliverable(ctx context.Context, pt *Part, it *pending.Item, tried topics.Retry, now int64, refusal *topics.Refusal) error {
	err := r.deadLetter(ctx, pt, it, refusal)
	if stuck := (StuckError{}); !errors.As(err, &stuck) || pt.Ordered() || !r.ages(pt, now) {
		return err
	}
	if _, again, retried := pt.Mark.Written(r.rec.Headers, r.rec.Offset); retried {
		tried = again
	}
	tried.Due = max(retryDue(now+retryPause(r.Env, r.rec.Offset, tried.Attempt).Milliseconds()), tried.Origin.Due) // its target may be allowed by then
	if appended, failed := r.append(ctx, pt, it, OutRetry, tried); failed != nil || !appended {
		return err
	}
	if it.Resolve && !it.Overtakes() { // another configuration would take it in, beside what stands for it now; of what overtakes render says that it is resolved
		r.resolve(pt, it, topics.Resolve(pt.Mark, r.rec.Offset, it.Key.Due, it.Key.Seq))
	}
	return nil
}

// refused renders the dead letter of what was refused when it was read. It may be carried on only where that is judged anew of what stands for it: what
// is refused for its form would be delivered, since the time that it is carried on for takes the place of what is wrong.
func (r outlasting) refused(ctx context.Context, pt *Part, it *pending.Item, now int64) error {
	if it.Refusal.Code != topics.CodeTargetNotAllowed {
		return r.deadLetter(ctx, pt, it, it.Refusal)
	}
	first := topics.Origin{Offset: r.rec.Offset, Timestamp: r.rec.Timestamp, Due: pt.DueOf(it)}
	if first.Due == 0 && pt.RequestOf(&r.req, it, &r.rec) == nil { // it came at a time that is not known, and is due after its pause
		first.Due = now + r.req.Pause
	}
	return r.undeliverable(ctx, pt, it, topics.Retry{Origin: first}, now, it.Refusal)
}

// triedAs is how the request that is rendered was tried so far.
func (r outlasting) triedAs(req *topics.Request) topics.Retry {
	return topics.Retry{Attempt: req.Attempt, Origin: req.First(r.rec.Offset, r.rec.Timestamp)}
}

// ages reports whether the record that is rendered is older than a twentieth of what its topic keeps. While it waits O does, so no copy that was read since
// lets L rise: that must be over long before what they were copied from is deleted.
func (r outlasting) ages(pt *Part, now int64) bool {
	keeps := pt.Keeps.Load()
	return keeps > 0 && now-r.rec.Timestamp >= keeps/20
}

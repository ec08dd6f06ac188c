package turn

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/duewheel/duewheel/processor/pending"
	"github.com/duewheel/duewheel/processor/targets"
	"github.com/duewheel/duewheel/topics"
)

// deniedBy is what is known of a target that dead-letters a record: waiting does not mend it. Of
// the route's target no header is to blame. source is the partition of the request.
func deniedBy(t *targets.Target, st *targets.State, req *topics.Request, route *topics.Route, source int32) *topics.Refusal {
	switch {
	case st.Status == targets.Missing:
		return blaming(req.TargetBy, t.Name, produceRefusal(topics.CodeUnknownTarget, "the topic %s does not exist", t.Name))
	case st.Status == targets.Forbidden:
		return blaming(req.TargetBy, t.Name, produceRefusal(topics.CodeForbiddenTarget, "the topic %s may not be written to", t.Name))
	case st.Writable() && req.Partition >= st.Partitions:
		return blaming(route.Said(req, topics.HeaderTargetPartition), strconv.Itoa(int(req.Partition)),
			produceRefusal(topics.CodeInvalidPartition, "the topic %s has partitions 0 to %d", t.Name, st.Partitions-1))
	case st.Writable() && req.Partition < 0 && route.Partitioner == topics.PartitionerSource && source >= st.Partitions:
		return produceRefusal(topics.CodeInvalidPartition, "the partitioner of the route is %s, the request was in partition %d, and the topic %s has partitions 0 to %d",
			route.Partitioner, source, t.Name, st.Partitions-1)
	}
	return nil
}

// blaming says which header is to blame for a refusal, if one is.
func blaming(header, value string, r *topics.Refusal) *topics.Refusal {
	if header != "" {
		r.Header, r.Value = strings.Clone(header), []byte(value) // it may lie in the record, which is gone before this is
	}
	return r
}

// outdated reports whether the brokers were asked before the record could be delivered, as first asked
// for. When an attempt was made says less: a retry may carry the time of a broker, which is later than
// the answer that the attempt led to. When brokers were asked is told by the clock that counts, as the
// other times are, which the machine's may be far from.
func (r *Renderer) outdated(st *targets.State, pt *Part, it *pending.Item, first topics.Origin, now int64) bool {
	asked := r.Clock.Now() - time.Since(st.Asked).Milliseconds()
	since := deliverable(first, now)
	if pt.Ordered() {
		since = it.Key.Due
	}
	return since <= now && asked <= since
}

// deliverable is since when a record could be delivered: since it was due, as first asked for, or
// since it was written, if that was later. A time of writing that has not come yet says nothing.
func deliverable(first topics.Origin, now int64) int64 {
	if first.Timestamp > now {
		return first.Due
	}
	return max(first.Due, first.Timestamp)
}

// takes reports whether records for a target may go into this turn. One on trial gets a single
// record; or all, where they can go nowhere else.
func (r *Renderer) takes(t *targets.Target, st *targets.State, all bool) bool {
	switch {
	case st.Status != targets.OnTrial:
		return st.Status == targets.Ready
	case slices.Contains(r.trials, t):
		return all
	case t.Trying.Swap(true):
		return false
	}
	r.trials = append(r.trials, t)
	return true
}

// pause is after what time the record at an offset is tried again: when it is known what has to
// become of it, if that is sooner than its next try.
func (r *Renderer) pause(offset int64, attempts int) time.Duration {
	pause := retryPause(r.Env, offset, attempts)
	if r.state.Denied != 0 {
		pause = min(pause, max(time.Until(r.state.Verdict)+2*targets.RefreshQuick, r.RetryBackoff))
	}
	return pause
}

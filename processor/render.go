package processor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/pending"
	"github.com/duewheel/duewheel/processor/producer"
	"github.com/duewheel/duewheel/processor/targets"
	"github.com/duewheel/duewheel/topics"
)

// lookupWait is how long a turn waits for the first look at a target that was not asked
// for before; then its records are carried on.
const lookupWait = 300 * time.Millisecond

// renderer turns items into records to produce. Its memory is used again by the next turn that
// the same producer runs, so that a delivered record costs no allocation.
type renderer struct {
	*kit
	rec pending.Record
	req topics.Request // what rec asks for
	recordBlocks
	headers []kgo.RecordHeader
	buf     []byte
	outputs []output
	auditor auditor       // what becomes of requests: its outputs follow
	acked   []*kgo.Record // scratch of produce
	now     time.Time     // the timestamp of what is delivered
	parts   []*part       // that are rendered together
	named   bool          // the targets of all its records have been named

	resolves bool // the last item has a resolve record

	delivered topics.Delivered // of the last record: neighbours mostly share most of it

	// What the last record's target was found to be: neighbours mostly share it.
	target  *targets.Target
	state   *targets.State
	allowed *topics.Route // by this route

	trials []*targets.Target // that this turn has on trial

	touched byte // keeps what Touch reads from being left out
}

func (r *renderer) reset() {
	r.back(0)
	r.auditor.reset()
	r.headers, r.buf, r.outputs = r.headers[:0], r.buf[:0], r.outputs[:0]
	r.target, r.state, r.allowed, r.trials = nil, nil, nil, nil
	r.parts, r.named = nil, false
}

// forget gives up memory that a client may still be looking at.
func (r *renderer) forget() { *r = renderer{kit: r.kit} }

func (r *renderer) newRecord() *kgo.Record {
	rec := r.next()
	rec.Partition, rec.Timestamp = producer.AnyPartition, r.now
	return rec
}

// nameTargets names the targets of all records of the turn, so that those of which nothing is
// known, as all after a restart, are looked up together and not one after the other.
func (r *renderer) nameTargets() {
	if r.named {
		return
	}
	r.named = true
	var rec pending.Record
	var req topics.Request
	for _, pt := range r.parts {
		p := pt.p
		for i := range pt.Items {
			it := &pt.Items[i]
			if it.Refusal != nil || it.Effect != pending.EffectNone || rec.Decode(it.Run) != nil {
				continue
			}
			if p.RequestOf(&req, it, &rec) == nil && p.route.Allowed(req.Target) {
				r.targets.Of(req.Target)
			}
		}
	}
}

// errHeld means that a part cannot be tried now, because a record in it can go nowhere.
type errHeld struct{ why string }

func (e errHeld) Error() string { return e.why }

// errAsking means that a part waits for what brokers answer next of a target: no trouble, and nothing
// to speak of.
var errAsking = errors.New("a target is looked up again")

// errBehind means that a part comes after one of its partition that is held up, and is tried when that is.
var errBehind = errors.New("what comes before it is held up")

// part renders every item of a part, or none: an errHeld, or errAsking. Then it says, too, how many there
// are before the one that can go nowhere.
func (r *renderer) part(ctx context.Context, pt *part, now int64) (before int, err error) {
	if err := r.openAudit(ctx, pt); err != nil {
		return 0, err
	}
	outputs, audits, used, headers, buf := len(r.outputs), len(r.auditor.outputs), r.used, len(r.headers), len(r.buf)
	overtakes := false
	for i := range pt.Items {
		r.touched |= pt.Touch(i)
		it := &pt.Items[i]
		if it.Overtakes() && !overtakes && !it.Acked {
			_, _, err = r.delayTopic(ctx, pt.p)
			overtakes = true
		}
		if r.resolves = false; err == nil && it.Acked {
			renderAgain(r, pt, it)
		} else if err == nil {
			err = r.item(ctx, pt, it, now)
		}
		if err == nil && r.resolves {
			err = mayResolve(r, pt.p)
		}
		if err != nil {
			r.back(used)
			r.auditor.back(audits)
			r.outputs, r.headers, r.buf = r.outputs[:outputs], r.headers[:headers], r.buf[:buf]
			return i, err
		}
		if it.Overtakes() && !it.Dead && !it.Acked { // else a dead letter has brought it
			r.resolve(pt, it, topics.Resolve(pt.p.mark, r.rec.Offset, it.Key.Due, it.Key.Seq))
		}
	}
	return 0, nil
}

func (r *renderer) item(ctx context.Context, pt *part, it *pending.Item, now int64) error {
	p, rec := pt.p, &r.rec
	if r.auditor.noted(pt, it); it.Effect.Pending() || it.Effect == pending.EffectForgotten {
		return nil
	}
	it.Dead = false
	if err := rec.Decode(it.Run); err != nil {
		panic("processor: BUG: " + err.Error()) // written by this process, or checked when it was loaded
	}
	switch {
	case it.Effect == pending.EffectStale:
		r.resolve(pt, it, stale(p.mark, it))
		return nil
	case it.By > 0:
		r.takenAway(pt, it)
		return nil
	case it.Refusal != nil:
		return outlasting{r}.refused(ctx, pt, it, now)
	case it.Effect == pending.EffectIgnored:
		r.auditor.duplicate(pt, it)
		r.resolved(pt, it)
		return nil
	case it.Effect != pending.EffectNone:
		return r.cancel(ctx, pt, it)
	}
	req := &r.req
	if err := p.RequestOf(req, it, rec); err != nil {
		return r.deadLetter(ctx, pt, it, err.(*topics.Refusal))
	}
	if req.Kind != topics.KindRequest { // a copy of what was given up, by the parser of today
		return r.deadLetter(ctx, pt, it, &topics.Refusal{Code: topics.CodeUnsupportedHeader, Stage: topics.StageParse, Message: "it was carried as a request, and by the headers that its route knows now it asks for something else"})
	}
	if why := it.Blame(); why != nil {
		return outlasting{r}.undeliverable(ctx, pt, it, outlasting{r}.triedAs(req), now, refusalOf(req.Target, why))
	}
	if req.AtOnce {
		return r.postpone(ctx, pt, it, req, now)
	}
	if expired := p.route.Expired(req, req.First(rec.Offset, rec.Timestamp).Due, now); expired != nil {
		return outlasting{r}.undeliverable(ctx, pt, it, outlasting{r}.triedAs(req), now, expired)
	}
	if r.target == nil || r.allowed != p.route || string(req.Target) != r.target.Name {
		if refusal := p.route.RefuseTarget(req); refusal != nil { // what was allowed when it was accepted may not be any more
			return outlasting{r}.undeliverable(ctx, pt, it, outlasting{r}.triedAs(req), now, refusal)
		}
		r.target, r.allowed = r.targets.Of(req.Target), p.route
		if r.target.State.Load().Status == targets.Unknown {
			r.nameTargets()
		}
		r.state = r.targets.Await(ctx, r.target, lookupWait)
	}
	t, st := r.target, r.state
	if refusal := deniedBy(t, st, req, p.route, p.tp.Partition); refusal != nil {
		// It may have been made, or grown, since the brokers were asked: ask again, and try later.
		if r.outdated(st, p, it, req.First(rec.Offset, rec.Timestamp), now) {
			r.targets.Hurry(t)
			if p.Ordered() {
				return errAsking
			}
			return r.carryOn(ctx, pt, it, req, now, "target "+t.Name+" is looked up again")
		}
		return outlasting{r}.undeliverable(ctx, pt, it, outlasting{r}.triedAs(req), now, refusal)
	}
	if !r.takes(t, st, p.Ordered()) {
		return r.carryOn(ctx, pt, it, req, now, fmt.Sprintf("target %s: %s", t.Name, notReady(st)))
	}
	return r.deliver(ctx, pt, it, req, now)
}

// deliver renders a record for its target, or a dead letter when the target does not take it as it is.
func (r *renderer) deliver(ctx context.Context, pt *part, it *pending.Item, req *topics.Request, now int64) error {
	p, rec, t, st := pt.p, &r.rec, r.target, r.state
	first := req.First(rec.Offset, rec.Timestamp)
	out := r.newRecord()
	out.Topic, out.Key, out.Value, out.Partition = t.Name, rec.Key, rec.Value, req.Partition
	if req.HasKey {
		out.Key = req.Key
	}
	if req.Partition < 0 {
		out.Partition = p.route.Partitioner.Of(out.Key, p.tp.Partition, st.Partitions)
	}
	if at := p.route.Timestamp.Of(first, now); at != now {
		out.Timestamp = time.UnixMilli(at)
	}
	d := &r.delivered
	d.Topic, d.Partition, d.Origin, d.Fired = p.tp.Topic, p.tp.Partition, first, now
	d.Attempt, d.Round, d.Emit, d.Strip = req.Attempt, 0, p.route.Emit, nil
	d.Preset, d.Prefix = req.Preset, p.route.HeaderPrefix()
	d.Asked = pt.ParserOf(rec).Name(topics.HeaderPrefix)
	if p.route.Retry != nil {
		d.Round, d.Strip = req.Round+1, p.route.Retry.Strip
	}
	at := len(r.headers)
	r.headers, r.buf = topics.AppendDelivered(r.headers, rec.Headers, d, r.buf)
	out.Headers = r.headers[at:len(r.headers):len(r.headers)]
	size := topics.RecordSize(out.Key, out.Value, out.Headers)
	switch how, ok := r.fits(out, size, st); {
	case !ok:
		r.drop(out)
		return outlasting{r}.undeliverable(ctx, pt, it, outlasting{r}.triedAs(req), now, produceRefusal(topics.CodeTooLarge,
			"%s with the headers that are added, and the topic %s takes %d", how, t.Name, st.Takes.MaxBytes))
	case st.Takes.Compacted && out.Key == nil:
		r.drop(out)
		return outlasting{r}.undeliverable(ctx, pt, it, outlasting{r}.triedAs(req), now, produceRefusal(topics.CodeRejected, "the topic %s is compacted and takes no record without a key", t.Name))
	}
	r.outputs = append(r.outputs, output{rec: out, kind: outDelivered, item: it, part: pt, target: t, since: deliverable(first, now), size: size})
	r.auditor.delivered(pt, it, rec, first, out)
	return nil
}

// drop takes back the last new record.
func (r *renderer) drop(rec *kgo.Record) {
	r.headers = r.headers[:len(r.headers)-len(rec.Headers)]
	r.back(r.used - 1)
}

func produceRefusal(code topics.Code, format string, args ...any) *topics.Refusal {
	return &topics.Refusal{Code: code, Stage: topics.StageProduce, Message: fmt.Sprintf(format, args...)}
}

// deadLetter renders an item that cannot be delivered, and with it the resolve record that it
// may need. The dead letter is the request as it was written, whatever was tried since, and names it.
func (r *renderer) deadLetter(ctx context.Context, pt *part, it *pending.Item, refusal *topics.Refusal) error {
	p, rec := pt.p, &r.rec
	t := r.targets.Of([]byte(p.route.LetterBox(refusal)))
	st := r.targets.Await(ctx, t, lookupWait)
	if !r.takes(t, st, true) {
		return errHeld{fmt.Sprintf("a record has to go to the dead letter topic %s: %s", t.Name, notReady(st))}
	}
	out := r.newRecord()
	out.Topic, out.Key, out.Value = t.Name, rec.Key, rec.Value
	written, tried, retried := p.mark.Written(rec.Headers, rec.Offset)
	if !retried {
		tried.Origin = topics.Origin{Offset: rec.Offset, Timestamp: rec.Timestamp}
	}
	at := len(r.headers)
	r.headers, r.buf = topics.AppendDeadLetter(r.headers, written, topics.DeadLetter{
		Topic: p.tp.Topic, Partition: p.tp.Partition, Offset: tried.Origin.Offset, Timestamp: tried.Origin.Timestamp,
		Refusal: refusal, Instance: r.cfg.Instance, Attempts: tried.Attempt,
	}, r.buf)
	out.Headers = r.headers[at:len(r.headers):len(r.headers)]
	size, cut := topics.RecordSize(out.Key, out.Value, out.Headers), false
	if _, ok := r.fits(out, size, st); !ok || it.Cuts() > 0 {
		cut = topics.FitDeadLetter(out, st.Takes.RecordBytes()>>max(it.Cuts()-1, 0))
		size = topics.RecordSize(out.Key, out.Value, out.Headers)
	}
	r.outputs = append(r.outputs, output{rec: out, kind: outDeadLetter, item: it, part: pt, refusal: refusal, offset: tried.Origin.Offset, cut: cut, size: size})
	r.auditor.deadLettered(pt, it, rec, tried.Origin, refusal, out)
	r.resolved(pt, it)
	if first := tried.Origin; retried && pt.Remembers(first.Offset) { // it has left its stub when it was carried on
		r.resolve(pt, it, topics.Resolve(p.mark, first.Offset, first.Due, first.Offset))
	}
	return nil
}

// notReady is why nothing may be produced to a target now.
func notReady(st *targets.State) string {
	if st.Status == targets.Unknown {
		return "not looked up yet"
	}
	return st.Why
}

// carryOn renders a record whose target is in trouble as a new request for later. On a
// fixed-delay route it waits where it is, and so do those behind it.
func (r *renderer) carryOn(ctx context.Context, pt *part, it *pending.Item, req *topics.Request, now int64, why string) error {
	p, rec := pt.p, &r.rec
	if p.Ordered() {
		return errHeld{why}
	}
	appended, err := r.append(ctx, pt, it, outRetry, topics.Retry{
		Due:     retryDue(now + r.pause(rec.Offset, req.Attempt).Milliseconds()),
		Attempt: req.Attempt + 1,
		Origin:  req.First(rec.Offset, rec.Timestamp),
	})
	switch {
	case err != nil:
		return errHeld{why + "; and " + err.Error()}
	case !appended:
		return errHeld{fmt.Sprintf("%s; record %d is too large to be appended again", why, rec.Offset)}
	}
	return nil
}

// postpone renders a record of a retry route that came at a time that is not known as one that is due after its backoff.
func (r *renderer) postpone(ctx context.Context, pt *part, it *pending.Item, req *topics.Request, now int64) error {
	due := now + req.Pause
	appended, err := r.append(ctx, pt, it, outPostponed, topics.Retry{Due: due, Origin: topics.Origin{Offset: r.rec.Offset, Timestamp: r.rec.Timestamp, Due: due}})
	switch {
	case err != nil:
		return errHeld{err.Error()}
	case !appended:
		return r.deadLetter(ctx, pt, it, produceRefusal(topics.CodeTooLarge,
			"the topic %s does not take it once more, with a header that says when it is due: with message.timestamp.type LogAppendTime it need not", pt.p.tp.Topic))
	}
	return nil
}

// append renders a record that is written to its delay topic again. It reports whether that takes it.
func (r *renderer) append(ctx context.Context, pt *part, it *pending.Item, kind outputKind, as topics.Retry) (bool, error) {
	p, rec := pt.p, &r.rec
	t, st, err := r.delayTopic(ctx, p)
	if err != nil {
		return false, err
	}
	out := r.newRecord()
	out.Topic, out.Partition, out.Key, out.Value = t.Name, p.tp.Partition, rec.Key, rec.Value
	written, _, _ := p.mark.Written(rec.Headers, rec.Offset)
	as.Names = topics.NamesOf(pt.ParserOf(rec))
	at := len(r.headers)
	r.headers, r.buf = topics.AppendRetry(r.headers, written, p.mark, as, r.buf)
	out.Headers = r.headers[at:len(r.headers):len(r.headers)]
	size := topics.RecordSize(out.Key, out.Value, out.Headers)
	if _, ok := r.fits(out, size, st); !ok || it.Stays {
		r.drop(out)
		return false, nil
	}
	r.outputs = append(r.outputs, output{rec: out, kind: kind, item: it, part: pt, size: size})
	r.auditor.retried(pt, it, rec, as)
	return true, nil
}

// delayTopic is the delay topic of a partition as a target, if it can be written to.
func (r *renderer) delayTopic(ctx context.Context, p *partition) (*targets.Target, *targets.State, error) {
	t := r.targets.Of([]byte(p.tp.Topic))
	st := r.targets.Await(ctx, t, lookupWait)
	if !r.takes(t, st, true) {
		return nil, nil, errHeld{fmt.Sprintf("delay topic %s: %s", t.Name, notReady(st))}
	}
	return t, st, nil
}

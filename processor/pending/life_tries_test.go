package pending

import (
	"bytes"
	"cmp"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/topics"
)

// triesAgain is when something is tried again, in ms.
const triesAgain = 5_000

// deliverable reports whether a turn would deliver an item.
func deliverable(it *Item) bool {
	return it.Refusal == nil && it.By == 0 && it.Effect == EffectNone && !it.Dead
}

// carriedOn are the records that a turn appends since their targets are in trouble, or since it was not known when they came: each is another request,
// without an id.
func (v *life) carriedOn(pt *Part) (all []entry) {
	for i := range pt.Items {
		it := &pt.Items[i]
		if !deliverable(it) || !v.tries && v.log[v.seqOf(it.Offset)].what != atOnce {
			continue
		}
		var rec Record
		v.must(rec.Decode(bytes.Clone(it.Run)))
		if req := (topics.Request{}); v.p.RequestOf(&req, it, &rec) == nil && v.owns().Route.Allowed(req.Target) { // else it is found by now that it is refused
			all = append(all, v.triedAgain(pt, it, &rec))
		}
	}
	return all
}

func (v *life) triedAgain(pt *Part, it *Item, rec *Record) entry {
	v.note("carried on")
	written, last, retried := testMark.Written(rec.Headers, rec.Offset)
	next := topics.Retry{Due: v.now + triesAgain, Attempt: last.Attempt + 1, Origin: last.Origin, Names: topics.NamesOf(pt.ParserOf(rec))}
	if !retried {
		next.Origin = topics.Origin{Offset: rec.Offset, Timestamp: rec.Timestamp, Due: it.Key.Due}
	}
	r := &kgo.Record{Key: rec.Key, Value: rec.Value, Timestamp: time.UnixMilli(v.now)}
	r.Headers, _ = topics.AppendRetry(nil, written, testMark, next, nil)
	is := &v.log[v.seqOf(it.Offset)]
	return entry{Record: r, sort: carriedOn, what: carriedOn, due: next.Due, tried: cmp.Or(is.tried, is.what)}
}

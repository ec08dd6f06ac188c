package pending

import (
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/topics"
)

// What a request asks for is what it asked for when it was accepted, whatever its route has become since, and however often it was carried or tried again.

// meaning is what a request asks for beside its due time and its target, which a route may give it.
type meaning struct {
	expires   int64
	round     int
	partition int32
	hasKey    bool
	key       string
	preset    topics.Preset
}

func meaningOf(q *topics.Request) meaning {
	return meaning{q.Expires, q.Round, q.Partition, q.HasKey, string(q.Key), q.Preset}
}

// mean notes what a record asks for that a partition accepts for the first time.
func (r *replaying) mean(p *Partition, rec *kgo.Record) {
	if rec.Offset < p.accepted {
		return
	}
	if r.meant == nil {
		r.meant = map[int64]meaning{}
	}
	delete(r.meant, rec.Offset)
	parser := p.parsers.at(rec.Offset)
	if _, _, is := p.Mark.Copied(rec.Headers, rec.Offset); is {
		return
	}
	q, err := parser.Parse(rec.Headers, topics.StampOf(rec), rec.Offset, p.Mark)
	if err == nil && q.Kind == topics.KindRequest && !q.Retry {
		r.meant[rec.Offset] = meaningOf(&q)
	}
}

// meansStill fails unless what is to be delivered asks for what it did.
func (r *replaying) meansStill(it *Item) {
	if !deliverable(it) {
		return
	}
	rec, req := r.read(it)
	if req == nil {
		return
	}
	of := req.First(rec.Offset, rec.Timestamp).Offset
	was, known := r.meant[of]
	if got := meaningOf(req); known && got != was {
		r.Fatalf("record %d, which stands for %d, asks for %+v, and has asked for %+v\n%s", rec.Offset, of, got, was, rec.Headers)
	}
	if known && req.Retry {
		r.note("what is tried again asks for the same")
	}
}

package pending

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
)

// What is tried again asks for what it was written for, whatever prefix its route has by the time that it is read again; also where it was carried since, and
// where the parser of its request is gone.
func TestRetryIsReadByTheNamesOfItsRequest(t *testing.T) {
	former, spec := state.ParserEpoch{From: 0, Spec: "p1^x-wheel-"}, testOwner(t).route.Spec()
	for _, c := range []struct {
		what    string
		parsers []state.ParserEpoch
		carried bool
	}{
		{"tried", []state.ParserEpoch{former, {From: 1, Spec: spec}}, false},
		{"tried, and the parser is gone", []state.ParserEpoch{{From: 0, Spec: spec}}, false},
		{"tried and carried", []state.ParserEpoch{former, {From: 1, Spec: spec}}, true},
	} {
		o := testOwner(t)
		r := &kgo.Record{Offset: 3, Timestamp: time.UnixMilli(testNow), Value: []byte("v"), Headers: []kgo.RecordHeader{
			{Key: "x-wheel-until", Value: []byte("1000000000000")}, {Key: "x-wheel-target-topic", Value: []byte("orders")},
		}}
		mark := o.env().Mark
		r.Headers, _ = topics.AppendRetry(nil, r.Headers, mark, topics.Retry{Due: ms(5), Attempt: 1, Origin: topics.Origin{Offset: 0, Timestamp: testNow, Due: ms(0)}, Names: "^x-wheel-"}, nil)
		if c.carried {
			r.Headers, _ = topics.AppendCopy(nil, r.Headers, mark, topics.Copy{Seq: 2, Due: ms(5), Timestamp: testNow, From: 2}, nil)
		}
		at := checkpointAt(1, 0, state.Key{}, c.parsers...)
		if c.carried {
			at = checkpointAt(3, 3, state.Key{}, c.parsers...)
			at.GivenUp = 3
		}
		p, err := o.assign(at, 0, 4, 4)
		must(t, err)
		o.read(t, p, testNow, r)
		must(t, p.goLive(o.room))
		must(t, p.Load(testNow, o.room))
		pt := p.Take(ms(10), nil, 10, 1<<20)
		it := &pt.Items[len(pt.Items)-1] // before it, what tells that it was carried
		var rec Record
		must(t, rec.Decode(it.Run))
		var req topics.Request
		must(t, p.RequestOf(&req, it, &rec))
		equal(t, c.what+": target", string(req.Target), "orders")
		equal(t, c.what+": names", topics.NamesOf(pt.ParserOf(&rec)), "^x-wheel-")
	}
}

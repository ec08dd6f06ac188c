package processor

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/state"
)

// When the checkpoint of a group has expired and the parser of the route changes at once, what only memory held is read by the parser that it was
// written for: the store names it. What comes later is read by the new one.
func TestOldParserFromTheStore(t *testing.T) {
	l := testLane(t)
	p := livePartition(t, l)
	near := req(1, ms(2000), "orders")
	l.read(t, p, testNow, req(0, ms(farMs), "orders"), near)
	l.happened(p.prepareCommit())
	if err := p.Flush(); err != nil {
		t.Fatal(err)
	}
	r := testRoute(true)
	r.Prefix = "y-later-"
	l.routes[testTopic] = mustRoute(r)
	p, err := l.assign(state.Checkpoint{Offset: -1}, 0, 3, 3)
	if err != nil {
		t.Fatal(err)
	}
	fresh := req(2, ms(1000), "orders")
	fresh.Headers = []kgo.RecordHeader{{Key: "y-later-for", Value: []byte("1s")}, {Key: "y-later-target-topic", Value: []byte("orders")}}
	fresh.Timestamp = time.UnixMilli(testNow)
	l.read(t, p, testNow, near, fresh)
	if err := p.goLive(l.memory.room(len(l.order))); err != nil {
		t.Fatal(err)
	}
	if pt := p.prepareCommit(); pt != nil {
		l.happened(pt)
	}
	equals(t, "parsers", p.Marks().Committed.Parsers, []state.ParserEpoch{{From: 0, Spec: "p1"}, {From: 2, Spec: l.routes[testTopic].Spec()}})
	equals(t, "delivered", p.take(ms(2000), nil, 10, anyBytes).offsets(), []int64{2, 1})
}

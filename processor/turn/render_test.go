package turn

import (
	"testing"
	"unsafe"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/duewheel/duewheel/processor/pending"
	"github.com/duewheel/duewheel/processor/targets"
	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
)

// Why a record is dead-lettered is told of when the memory of the record is used again.
func TestDeniedOutlivesItsRecord(t *testing.T) {
	name := []byte(topics.HeaderTargetTopic)
	req := &topics.Request{Target: []byte("orders"), TargetBy: unsafe.String(&name[0], len(name))}
	refusal := deniedBy(&targets.Target{Name: "orders"}, &targets.State{Status: targets.Missing}, req, &topics.Route{}, 0)
	clear(name)
	equal(t, "the header to blame", refusal.Header, topics.HeaderTargetTopic)
}

// That a copy stands for nothing any more is heard by a group that is new, whether or not its owner knows by what.
func TestStaleCopyIsHeardByANewGroup(t *testing.T) {
	id := [4]byte{1, 2, 3, 4}
	p, err := topics.ParserFor(topics.Adopting("p1", 10))
	if err != nil {
		t.Fatal(err)
	}
	for _, by := range []int64{0, 9} {
		headers := stale(topics.NewMark(id, "others", 3), &pending.Item{Offset: 12, Key: state.Key{Due: testNow, Seq: 3}, By: by})
		q, err := p.Parse(headers, topics.Stamp{Millis: testNow}, 15, topics.NewMark(id, "ours", 3))
		if err != nil || q.Kind != topics.KindResolve || q.ResolveSeq != 3 || q.ResolveDue != testNow || q.ResolveOffset == q.ResolveSeq {
			t.Errorf("by %d: %+v, %v", by, q, err)
		}
	}
}

// What was refused by itself may have another form, and then its target is not to blame.
func TestAnotherForm(t *testing.T) {
	for _, kind := range []Kind{OutForward, OutPostponed} {
		o := Output{Kind: kind, Item: &pending.Item{}}
		equal(t, "there is something else to write", o.another(kerr.MessageTooLarge), true)
		equal(t, "when it is refused otherwise", o.another(kerr.InvalidRecord), false)
	}
	equal(t, "when it was made smaller", (&Output{Kind: OutForward, Item: &pending.Item{Stays: true}}).another(kerr.MessageTooLarge), false)
}

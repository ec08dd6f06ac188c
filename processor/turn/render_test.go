package turn

import (
	"testing"
	"unsafe"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/duewheel/duewheel/processor/pending"
	"github.com/duewheel/duewheel/processor/targets"
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

// What was refused by itself may have another form, and then its target is not to blame.
func TestAnotherForm(t *testing.T) {
	for _, kind := range []Kind{OutForward, OutPostponed} {
		o := Output{Kind: kind, Item: &pending.Item{}}
		equal(t, "there is something else to write", o.another(kerr.MessageTooLarge), true)
		equal(t, "when it is refused otherwise", o.another(kerr.InvalidRecord), false)
	}
	equal(t, "when it was made smaller", (&Output{Kind: OutForward, Item: &pending.Item{Stays: true}}).another(kerr.MessageTooLarge), false)
}

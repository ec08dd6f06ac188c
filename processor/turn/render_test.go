package turn

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"
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

// What was refused by itself may have another form, and then its target is not to blame.
func TestAnotherForm(t *testing.T) {
	for _, kind := range []Kind{OutForward, OutPostponed} {
		o := Output{Kind: kind, Item: &pending.Item{}}
		equal(t, "there is something else to write", o.another(kerr.MessageTooLarge), true)
		equal(t, "when it is refused otherwise", o.another(kerr.InvalidRecord), false)
	}
	equal(t, "when it was made smaller", (&Output{Kind: OutForward, Item: &pending.Item{Stays: true}}).another(kerr.MessageTooLarge), false)
}

// A replay that does not read a record finds in its resolve record what a copy of it comes to, and by what that was taken away.
func TestStaleCopyNamesWhatHasTakenIt(t *testing.T) {
	it := pending.Item{Offset: 9, Key: state.Key{Due: testNow, Seq: 3}}
	for by, want := range map[int64]int64{0: -1, 7: 7} {
		it.By = by
		equal(t, "the resolve record", string(stale(topics.Mark{}, &it)[0].Value), string(topics.ResolveBy(topics.Mark{}, 9, testNow, 3, want)[0].Value))
	}
}

// All targets of a turn that nothing is known of are waited for together: brokers that are silent would hold it up once for each.
func TestLookupsAreAwaitedTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &Renderer{Env: &Env{Targets: targets.New(time.Second, time.Second, nil, nil)}}
		for range 2 {
			r.Reset()
			began := time.Now()
			for i := range 100 {
				equal(t, "status", r.lookups.await(t.Context(), r.Targets, r.Targets.Of([]byte(strconv.Itoa(i)))).Status, targets.Unknown)
			}
			if waited := time.Since(began); waited < lookupWait || waited > 2*lookupWait {
				t.Errorf("it waited %v", waited)
			}
		}
	})
}

//go:build synctests

package processor

import (
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Where the transaction coordinator cannot write (__transaction_state has too few replicas in sync), it is its answer that has to be
// known: a partition that waits for it names it, and so does the log of a process that begins.
func TestSimFenceNamesTheAnswer(t *testing.T) {
	scenario(t, worldConfig{}, func(w *world) {
		a := w.live("a")
		killed := a.killAt(kmsg.TxnOffsetCommit, true)
		b := w.start("b", nil)
		w.until("b is in the group", b.joined)
		w.send(request("k", in(0)))
		w.hit(killed)
		fault := w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.InitProducerID}, Err: kerr.CoordinatorNotAvailable, Count: -1})
		reason := ""
		w.within(session+6*time.Second, "the partition waits", func() bool {
			for _, p := range b.p.Stats().Partitions {
				reason = p.Reason
			}
			return strings.Contains(reason, "COORDINATOR_NOT_AVAILABLE")
		})
		for _, part := range []string{"fence", "transaction coordinator", "__transaction_state"} {
			if !strings.Contains(reason, part) {
				t.Errorf("not a word of %s in: %s", part, reason)
			}
		}
		c := w.start("c", nil)
		w.within(15*time.Second, "c says why it does not begin", func() bool {
			return strings.Contains(w.history(), "start producer g-0@c-2-0: the transaction coordinator answers COORDINATOR_NOT_AVAILABLE")
		})
		fault.Remove()
		w.until("c is in the group", c.joined)
		w.finish()
	})
}

//go:build synctests

package processor

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/duewheel/duewheel/processor/wait"
)

// A catch-up whose partition's leader does not say where the log ends asks it again after growing
// pauses, and is over soon after it says so.
func TestSimEndsRefusedInCatchUp(t *testing.T) {
	for _, e := range []*kerr.Error{kerr.UnknownTopicOrPartition, kerr.TopicAuthorizationFailed, kerr.OffsetNotAvailable} {
		t.Run(e.Message, func(t *testing.T) {
			scenario(t, worldConfig{partitions: 2}, func(w *world) {
				w.live("a").shut()
				w.send(request("read late", in(time.Second)))
				b := w.start("b", nil)
				release := make(chan struct{})
				w.hit(b.link.on(rule{key: kmsg.Fetch, count: -1, wait: release}))
				refused := w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.ListOffsets}, Topic: simTopic, Err: e, Count: -1})
				asked := b.requests()[kmsg.ListOffsets]
				time.Sleep(20 * time.Second)
				if n := b.requests()[kmsg.ListOffsets] - asked; refused.Hits() < 5 || n > 60 {
					t.Errorf("asked %d times, refused %d times", n, refused.Hits())
				}
				if b.live(2) {
					t.Error("live without knowing where the log ends")
				}
				refused.Remove()
				close(release)
				w.within(wait.MostRest+5*time.Second, "live", func() bool { return b.live(2) })
				w.finish()
			})
		})
	}
}

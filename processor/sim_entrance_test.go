//go:build synctests

package processor

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A process that does not get into its group says why within seconds, goes on trying without many
// words, and is in the group soon after that is mended.
func TestSimNotInTheGroup(t *testing.T) {
	const missing = "missing"
	fault := func(key kmsg.Key, err *kerr.Error) func(*world) func() {
		return func(w *world) func() {
			return w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{key}, Err: err, TopLevel: true, Count: -1}).Remove
		}
	}
	unplug := func(w *world) func() {
		w.unplugged.Store(true)
		return func() { w.unplugged.Store(false) }
	}
	for _, c := range []struct {
		name      string
		guarantee Guarantee
		bar       func(w *world) (mend func())
		tune      func(*Config)
		says      string
	}{
		{name: "a right to transactional ids is missing", bar: fault(kmsg.InitProducerID, kerr.TransactionalIDAuthorizationFailed), says: "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"},
		{name: "the group may not be read", bar: fault(kmsg.JoinGroup, kerr.GroupAuthorizationFailed), says: "not allowed to read group"},
		{name: "no broker can be reached", bar: unplug, says: "dial fake: unplugged"},
		{name: "no broker can be reached, at least once", guarantee: AtLeastOnce, bar: unplug, says: "dial fake: unplugged"},
		{name: "the delay topic is missing", says: "delay topic " + missing + " does not exist",
			tune: func(c *Config) { c.Routes[0].Topic = missing },
			bar: func(w *world) func() {
				return func() {
					if _, err := kadm.NewClient(w.client).CreateTopic(context.Background(), 1, 1, nil, missing); err != nil {
						w.fail("%v", err)
					}
				}
			}},
	} {
		t.Run(c.name, func(t *testing.T) {
			scenario(t, worldConfig{guarantee: c.guarantee, tune: c.tune}, func(w *world) {
				mend := c.bar(w)
				a := w.start("a", nil)
				w.within(8*time.Second, "the cause is named", func() bool {
					ready, _ := a.p.Ready()
					return !ready && len(a.p.Stats().Outside) == 1 && strings.Contains(a.p.Stats().Outside[0], c.says)
				})
				before := strings.Count(w.history(), "\n")
				time.Sleep(time.Minute)
				if n := strings.Count(w.history(), "\n") - before; n > 15 {
					t.Errorf("%d lines in a minute", n)
				}
				mend()
				w.within(40*time.Second, "it is in the group", func() bool {
					ready, _ := a.p.Ready()
					return ready && len(a.p.Stats().Outside) == 0
				})
			})
		})
	}
}

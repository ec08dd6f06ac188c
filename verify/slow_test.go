package verify

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// What a quota keeps back, or an answer that takes long, is waited for: it is not taken for what a log does not have.
func TestSlowFetchesAreWaitedFor(t *testing.T) {
	for name, slow := range map[string]func(*stage, string){
		"by a quota": func(s *stage, topic string) {
			var over atomic.Bool
			s.hold(topic, &over)
			time.AfterFunc(3*quiet, func() { over.Store(true) })
		},
		"in answering": func(s *stage, topic string) {
			var slept atomic.Bool
			s.fake.ControlKey(int16(kmsg.Fetch), func(kmsg.Request) (kmsg.Response, error, bool) {
				s.fake.KeepControl()
				if !slept.Swap(true) {
					s.fake.SleepControl(func() { time.Sleep(3 * quiet) })
				}
				return nil, nil, false
			})
		},
	} {
		for _, topic := range []string{"delays", "orders"} {
			t.Run(name+"/"+topic, func(t *testing.T) {
				t.Parallel()
				s := newStage(t)
				s.many(0, 3)
				s.resolve("delays", 0, 3, 30, 3)
				v := s.verifier()
				slow(s, topic)
				s.expect(s.pass(v), nil, "all is well")
			})
		}
	}
}

//go:build synctests

package processor

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// What is due while its target is away for longer than the topic keeps its log is carried on again and again, ahead of retention: nothing is lost, also
// where the process dies meanwhile and leaves nothing but Kafka.
func TestSimCarryTargetAway(t *testing.T) {
	const keeps = time.Minute
	guarantees(t, worldConfig{retries: 1000, tune: func(c *Config) { c.NearWindow = 2 * time.Second }}, func(w *world) {
		w.set("retention.ms", fmt.Sprint(keeps.Milliseconds()))
		a := w.live("a")
		for i := range 20 {
			w.send(request(fmt.Sprint("due", i), in(time.Duration(10+i)*time.Second)))
		}
		for i := range 20 {
			w.send(addressed("bills", request(fmt.Sprint("bill", i), in(time.Duration(10+20*i)*time.Second))))
		}
		mend := w.leaderless("orders")
		went := w.ages(keeps, 3*keeps)
		a.kill()
		b := w.start("b", nil)
		w.within(soonEnough, "live from nothing", func() bool { return b.live(1) })
		went += w.ages(keeps, 2*keeps)
		if went < 60 {
			t.Errorf("%d offsets went", went)
		}
		mend()
		w.finish()
	})
}

// What is neither delivered nor dead-lettered, since its dead letter topic is away for longer than the topic keeps its log, is not lost, nor is what is
// pending beside it, and that does not wait for long.
func TestSimCarryDeadLetterTopicAway(t *testing.T) {
	const keeps = time.Minute
	for name, bad := range map[string]func() *kgo.Record{
		"too large": func() *kgo.Record {
			r := addressed("bills", request("too large", in(10*time.Second)))
			r.Value = incompressible(1000)
			return r
		},
		"not allowed": func() *kgo.Record { return addressed("elsewhere", request("not allowed", in(100*time.Second))) },
	} {
		t.Run(name, func(t *testing.T) {
			guarantees(t, worldConfig{billBytes: 500, retries: 1000, tune: func(c *Config) { c.NearWindow = 2 * time.Second }}, func(w *world) {
				w.set("retention.ms", fmt.Sprint(keeps.Milliseconds()))
				a := w.live("a")
				mend := w.leaderless(simTopic + ".dead")
				time.Sleep(time.Second)
				w.send(bad())
				for i := range 20 {
					w.send(request(fmt.Sprint("far", i), in(time.Duration(10+20*i)*time.Second)))
				}
				w.ages(keeps, 3*keeps)
				if n := w.outstanding(); n > 15 {
					t.Errorf("%d are outstanding", n)
				}
				a.kill()
				b := w.start("b", nil)
				w.within(soonEnough, "live from nothing", func() bool { return b.live(1) })
				w.ages(keeps, 2*keeps)
				mend()
				w.finish()
				if late := w.late(); late > keeps/4 {
					t.Errorf("what is pending beside it waited for %v", late)
				}
			})
		})
	}
}

//go:build synctests

package processor

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// What is old is carried in time although brokers take long for each answer, and something is due all the time: then more of it goes into one turn.
func TestSimCarryFarAway(t *testing.T) {
	const far, keeps = 20_000, time.Minute
	scenario(t, worldConfig{latency: 100 * milli, partitions: 2, late: time.Hour, tune: func(c *Config) {
		c.NearWindow, c.SessionTimeout, c.HeartbeatInterval = 2*time.Second, 10*time.Second, time.Second
	}}, func(w *world) {
		w.set("retention.ms", fmt.Sprint(keeps.Milliseconds()))
		a := w.start("a", nil)
		w.within(2*time.Minute, "live", func() bool { return a.live(2) })
		var rs []*kgo.Record
		for i := range far {
			rs = append(rs, request(fmt.Sprint("far", i), in(200*time.Second)))
		}
		w.send(rs...)
		sent := time.Now()
		for i := 0; a.carried() < far; i++ {
			w.send(request(fmt.Sprint(i), in(time.Second)))
			if time.Since(sent) > 3*keeps/4 {
				w.fail("%d of %d were carried within three quarters of what the topic keeps", a.carried(), far)
			}
		}
		t.Logf("all were carried %v after they came", time.Since(sent))
		w.finish()
	})
}

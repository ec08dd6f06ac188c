//go:build synctests

package processor

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/duewheel/duewheel/processor/kafka"
)

// Brokers that are far away, or have much to do, are not in trouble: a replica becomes live, and delivers what becomes due, within a number of answers,
// and takes no target for one that is silent. A connection takes five of them before it serves, and none is there at first.
func TestSimFarAway(t *testing.T) {
	for _, latency := range []time.Duration{200 * milli, 400 * milli} {
		for _, classic := range []bool{false, true} {
			t.Run(fmt.Sprint(latency, " classic ", classic), func(t *testing.T) {
				cfg := worldConfig{latency: latency, brokers: 3, partitions: 2, audit: true, late: time.Hour, tune: func(c *Config) { c.SessionTimeout, c.HeartbeatInterval = 10*time.Second, time.Second }}
				if classic {
					cfg.versions = kversion.V3_9_0()
				}
				guarantees(t, cfg, func(w *world) {
					a := w.start("a", nil)
					w.within(90*latency, "live", func() bool { return a.live(2) })
					for i := range 60 {
						w.send(addressed([]string{"orders", "bills"}[i%2], request(fmt.Sprint("k", i%5), in(time.Duration(i)*100*milli))))
					}
					w.within(6*time.Second+20*latency, "delivered", func() bool { return w.outstanding() == 0 })
					for line := range strings.Lines(w.history()) {
						if strings.Contains(line, "a WARN: ") || strings.Contains(line, "a ERROR: ") {
							t.Errorf("it complains: %s", line)
						}
					}
					w.finish()
				})
			})
		}
	}
}

// Brokers that take more than a second for each answer do not keep a process from starting: what has been answered is not asked again.
func TestSimStartWhereAnswersTakeLong(t *testing.T) {
	guarantees(t, worldConfig{late: time.Hour, tune: func(c *Config) { c.SessionTimeout, c.HeartbeatInterval = 10*time.Second, time.Second }}, func(w *world) {
		a := w.start("a", nil)
		by := 2 * time.Second
		if w.cfg.guarantee == AtLeastOnce {
			by = 1200 * milli // a commit waits behind other questions to the same broker, and is to be answered within two times BrokerPatience
		}
		mend := a.link.slows(by, "")
		w.within(3*time.Minute, "live", func() bool { return a.live(1) })
		w.send(request("k", in(0)))
		w.within(time.Minute, "delivered", func() bool { return w.outstanding() == 0 })
		mend()
		w.finish()
	})
}

// A producer that has begun is not begun again because another one of its lane has not.
func TestSimProducersBeginOnce(t *testing.T) {
	scenario(t, worldConfig{}, func(w *world) {
		a := w.start("a", nil)
		of := func(producer string) func(kmsg.Request) bool {
			return func(r kmsg.Request) bool {
				return strings.HasSuffix(*r.(*kmsg.InitProducerIDRequest).TransactionalID, producer)
			}
		}
		answer, asked := make(chan struct{}), 0
		a.link.on(rule{key: kmsg.InitProducerID, match: of("-0-1"), after: true, wait: answer})
		a.link.on(rule{key: kmsg.InitProducerID, match: of("-0-0"), count: -1, call: func() { asked++ }})
		time.Sleep(2*kafka.RequestTimeout + time.Second)
		close(answer)
		w.within(15*time.Second, "live", func() bool { return a.live(1) })
		equal(t, "times that the other was asked for", asked, 2)
		w.finish()
	})
}

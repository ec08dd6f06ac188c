//go:build synctests

package processor

import (
	"fmt"
	"testing"
	"time"
)

// A topic that takes smaller batches than before gets no larger ones, also of what is told when all else of a turn is acknowledged.
func TestSimAuditLessThanBefore(t *testing.T) {
	for _, guarantee := range []Guarantee{ExactlyOnce, AtLeastOnce} {
		t.Run(string(guarantee), func(t *testing.T) {
			scenario(t, worldConfig{guarantee: guarantee, audit: true}, func(w *world) {
				a := w.live("a")
				w.send(request("first", in(500*time.Millisecond)), request("second", in(time.Second))) // so both producers know the topic
				w.within(2*time.Second, "both are delivered", func() bool { return w.outstanding() == 0 })
				w.configure(simAudit, "max.message.bytes", fmt.Sprint(small))
				w.until("it is seen", func() bool { return a.p.targets.Of([]byte(simAudit)).State.Load().Takes.MaxBytes == small })
				refusing := w.tooLarge(simAudit, small)
				due := in(3 * time.Second)
				for i := range 5000 {
					w.send(request(fmt.Sprint(i), due))
				}
				time.Sleep(time.Until(due))
				w.within(2*time.Second, "all are delivered", func() bool { return w.outstanding() == 0 })
				if n := refusing.Hits(); n > 0 {
					t.Errorf("%d batches were too large", n)
				}
				w.finish()
			})
		})
	}
}

// A turn does not wait in vain for what follows its deliveries: that is found out as soon as for a target.
func TestSimAuditInVain(t *testing.T) {
	for _, guarantee := range []Guarantee{ExactlyOnce, AtLeastOnce} {
		t.Run(string(guarantee), func(t *testing.T) {
			scenario(t, worldConfig{guarantee: guarantee, audit: true, late: time.Minute, brokers: 3}, func(w *world) {
				w.live("a")
				w.give(2, roles{topics: []string{simAudit}})
				w.send(request("first", in(500*time.Millisecond)), request("second", in(time.Second))) // so both producers know the topic
				w.within(2*time.Second, "both are delivered", func() bool { return w.outstanding() == 0 })
				thaw := w.freezeBroker(2)
				for i := range 20 { // that is more than the other broker has a partition for
					w.send(request(fmt.Sprint(i), in(0)))
				}
				w.within(12*time.Second, "it is found to be in vain", func() bool {
					return w.lines("nothing acknowledged for 1s, when others have acknowledged all") > 0
				})
				thaw()
				w.within(20*time.Second, "all are delivered", func() bool { return w.outstanding() == 0 })
				w.finish()
			})
		})
	}
}

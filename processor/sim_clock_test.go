//go:build synctests

package processor

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/duewheel/duewheel/processor/clock"
)

// clockIsWrong reports whether a process says of its clock what it should, and is ready, since it delivers by the brokers'.
func (p *process) clockIsWrong(how string) bool {
	ready, _ := p.p.Ready()
	return ready && strings.Contains(p.p.Stats().ClockTrouble, how)
}

// clockIsRight is the opposite.
func (p *process) clockIsRight() bool {
	ready, _ := p.p.Ready()
	return ready && p.p.Stats().ClockTrouble == ""
}

// notAhead fails when a watermark is ahead of the brokers' time, which is the world's.
func (w *world) notAhead() {
	w.t.Helper()
	if c, ok := w.checkpoint(0); ok && c.Watermark.Due > time.Now().UnixMilli() {
		w.fail("the watermark is %v ahead", time.Until(time.UnixMilli(c.Watermark.Due)))
	}
}

// late is how late the latest record was that has arrived, by the checker's clock.
func (w *world) late() time.Duration { return w.watch.Report().Lateness.Quantile(1) }

// soon is how late a record may be while all is well.
const soon = 200 * time.Millisecond

// Design rule 1: a clock that is wrong for a while, and then killed, makes nothing early: neither
// what is pending nor what healthy replicas are asked for afterwards.
func TestSimClockWrongOnce(t *testing.T) {
	for _, guarantee := range []Guarantee{ExactlyOnce, AtLeastOnce} {
		for _, by := range []time.Duration{3 * time.Second, 10 * time.Minute, 24 * time.Hour} {
			t.Run(fmt.Sprint(guarantee, by), func(t *testing.T) {
				scenario(t, worldConfig{guarantee: guarantee}, func(w *world) {
					a := w.live("a")
					w.send(request("pending", in(time.Minute)), request("due while it is wrong", in(4*time.Second)))
					time.Sleep(2 * time.Second)
					a.skew.Store(int64(by))
					w.within(time.Second, "the clock is named", func() bool { return a.clockIsWrong("ahead") })
					if off := time.Until(a.p.Stats().Now).Abs(); off > time.Second {
						t.Errorf("what is overdue is counted by a clock that is %v off", off)
					}
					time.Sleep(6 * time.Second) // more than a step has to last
					if w.outstanding() != 1 || w.late() > soon {
						t.Errorf("%d records are outstanding, %v late", w.outstanding(), w.late())
					}
					w.notAhead()
					a.skew.Store(0)
					w.within(time.Second, "the clock is right again", a.clockIsRight)
					a.kill()
					b := w.live("b")
					for i := range 10 {
						w.send(request(fmt.Sprint("new", i), in(20*time.Second)))
					}
					time.Sleep(3 * time.Second)
					if n := w.outstanding(); n != 11 {
						t.Errorf("%d records of 11 are outstanding", n)
					}
					if !b.clockIsRight() {
						t.Errorf("the healthy one says %q", b.p.Stats().ClockTrouble)
					}
					w.finish()
				})
			})
		}
	}
}

// A clock that is wrong from the start delivers by the brokers' time, and says that it is wrong
// until it is set right.
func TestSimClockWrongAtStart(t *testing.T) {
	for _, guarantee := range []Guarantee{ExactlyOnce, AtLeastOnce} {
		for _, by := range []time.Duration{10 * time.Minute, -time.Hour, -50 * 365 * 24 * time.Hour} {
			t.Run(fmt.Sprint(guarantee, by), func(t *testing.T) {
				scenario(t, worldConfig{guarantee: guarantee}, func(w *world) {
					w.send(request("before", in(time.Second)))
					a := w.startAt("a", by)
					w.until("live", func() bool { return a.live(1) })
					for i := range 20 {
						w.send(request(fmt.Sprint(i), in(time.Duration(5+i)*time.Second)))
					}
					how := "ahead"
					if by < 0 {
						how = "behind"
					}
					w.within(time.Second, "the clock is named", func() bool { return a.clockIsWrong(how) })
					time.Sleep(26 * time.Second)
					if w.outstanding() != 0 || w.late() > 2*time.Second { // the first one came before the process did
						t.Errorf("%d records are outstanding, %v late", w.outstanding(), w.late())
					}
					w.clean()
					w.notAhead()
					a.skew.Store(0)
					w.within(time.Second, "the clock is right again", a.clockIsRight)
					w.finish()
				})
			})
		}
	}
}

// A clock that goes forward and back makes nothing early, and late only by what brokers take to answer.
func TestSimClockFlaps(t *testing.T) {
	for _, by := range []time.Duration{500 * time.Millisecond, time.Minute, 24 * time.Hour} {
		t.Run(by.String(), func(t *testing.T) {
			scenario(t, worldConfig{}, func(w *world) {
				a := w.live("a")
				asked := a.link.on(rule{key: kmsg.DescribeTransactions, timekeeper: true, count: -1})
				for i := range 60 {
					w.send(request("k", in(time.Duration(i)*500*time.Millisecond)))
				}
				for i := range 8 {
					a.skew.Store(int64(by))
					time.Sleep(2 * time.Second)
					a.skew.Store(-int64(by) * int64(i%2))
					time.Sleep(2 * time.Second)
				}
				a.skew.Store(0)
				w.within(time.Second, "the clock is right again", a.clockIsRight)
				if most := time.Second; w.outstanding() != 0 || w.late() > most {
					t.Errorf("%d records are outstanding, %v late", w.outstanding(), w.late())
				}
				if n := len(asked); n < 8 || n > 40 { // once a step, and not more than once a second
					t.Errorf("brokers were asked %d times", n)
				}
				w.finish()
			})
		})
	}
}

// dumb makes brokers keep to themselves when a transaction began, until the function that it
// returns is called.
func (w *world) dumb() (mend func()) {
	return w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.DescribeTransactions}, Err: kerr.TransactionalIDAuthorizationFailed, Count: -1}).Remove
}

// Design rule 1: a W that is ahead says nothing of the time. What is requested for times before it
// waits until it is due, whichever replica has the partition, and readiness names it until it is over.
func TestSimWatermarkAhead(t *testing.T) {
	const ahead = 2 * time.Minute
	for _, guarantee := range []Guarantee{ExactlyOnce, AtLeastOnce} {
		t.Run(string(guarantee), func(t *testing.T) {
			scenario(t, worldConfig{guarantee: guarantee, skew: ahead, tune: func(c *Config) { c.Standbys = 1 }}, func(w *world) {
				mend := w.dumb()
				a := w.startAt("a", ahead)
				w.until("live", func() bool { return a.live(1) })
				w.send(request("k", in(ahead-time.Second)))
				w.within(2*time.Second, "delivered by a wrong clock that nothing contradicts", func() bool { return w.outstanding() == 0 })
				b := w.start("b", nil)
				w.until("b has a standby", func() bool { return len(b.p.Stats().Standbys) == 1 })
				mend()
				due := in(30 * time.Second)
				named := func(p *process) func() bool {
					return func() bool {
						_, not := p.p.Ready()
						return len(not) == 1 && strings.Contains(not[0].Error, "the watermark is")
					}
				}
				a.kill()
				w.within(soonEnough, "b has it, and names the watermark", named(b))
				w.send(request("late", due), request("waits for the one before", due.Add(-5*time.Second)), request("pending", in(ahead+10*time.Second)))
				time.Sleep(5 * time.Second)
				c := w.start("c", nil)
				b.kill()
				w.within(soonEnough, "c has it, and names the watermark", named(c))
				time.Sleep(time.Until(due) - time.Millisecond)
				if n := w.outstanding(); n != 3 {
					t.Errorf("%d records of 3 are outstanding", n)
				}
				w.within(soon, "delivered when they are due", func() bool { return w.outstanding() == 1 })
				w.inspect()
				cp, _ := w.checkpoint(0)
				time.Sleep(time.Until(time.UnixMilli(cp.Watermark.Due)))
				w.within(time.Second, "it is over", c.clockIsRight)
				w.finish()
			})
		})
	}
}

// Of three brokers' clocks one that is wrong decides nothing, and of two the earlier one counts. It is named.
func TestSimBrokerClocksDiffer(t *testing.T) {
	for _, c := range []struct {
		brokers int
		off     time.Duration
		late    time.Duration
	}{{3, time.Hour, 0}, {3, -time.Hour, 0}, {2, time.Hour, 0}, {2, -5 * time.Second, 5 * time.Second}} {
		t.Run(fmt.Sprint(c.brokers, c.off), func(t *testing.T) {
			scenario(t, worldConfig{brokers: c.brokers}, func(w *world) {
				w.setClock(1, c.off)
				a := w.live("a")
				due := in(2 * time.Second)
				w.send(request("k", due))
				time.Sleep(time.Until(due) + c.late - time.Millisecond)
				if w.outstanding() == 0 {
					t.Errorf("delivered %v after it was due", w.late())
				}
				w.within(soon, "delivered", func() bool { return w.outstanding() == 0 })
				s := a.p.Stats()
				if !strings.Contains(s.BrokersApart, "the clock of broker") || len(s.BrokerClocks) != c.brokers {
					t.Errorf("of the brokers it says %q, %v", s.BrokersApart, s.BrokerClocks)
				}
				if right := c.late == 0; a.clockIsRight() != right {
					t.Errorf("of its own clock it says %q", s.ClockTrouble)
				}
				w.setClock(1, 0)
				w.within(clock.AskInterval+time.Second, "they agree again", func() bool { return a.p.Stats().BrokersApart == "" && a.clockIsRight() })
				w.finish()
			})
		})
	}
}

// A machine that slept, whose brokers went on: their time is asked for at once, and what became due
// meanwhile is delivered.
func TestSimClockWakesUp(t *testing.T) {
	scenario(t, worldConfig{}, func(w *world) {
		a := w.live("a")
		w.send(request("k", in(time.Minute)))
		time.Sleep(10 * time.Second)
		const slept = time.Minute
		w.setClock(0, slept)
		a.skew.Store(int64(slept))
		began := time.Now()
		w.within(2*clock.AskPause, "delivered", func() bool { return w.watch.Counts().Faults > 0 }) // early, by the world's clock
		if took := time.Since(began); took >= clock.StepPersists || !a.clockIsRight() {
			t.Errorf("delivered after %v; of the clock it says %q", took, a.p.Stats().ClockTrouble)
		}
	})
}

// Where brokers do not say what time it is, the clock of the machine is all there is. That is said
// once, and they are asked again, not often, until they do.
func TestSimClockUnknown(t *testing.T) {
	scenario(t, worldConfig{}, func(w *world) {
		mend := w.dumb()
		a := w.start("a", nil)
		asked := a.link.on(rule{key: kmsg.DescribeTransactions, timekeeper: true, count: -1})
		w.within(2*time.Second, "live without", func() bool { return a.live(1) })
		w.send(request("k", in(time.Second)))
		w.within(time.Second+soon, "delivered", func() bool { return w.outstanding() == 0 })
		time.Sleep(3 * time.Minute)
		if n := len(asked); n < 6 || n > 10 { // after 1, 2, 4 … s, and then once a minute
			t.Errorf("brokers were asked %d times in three minutes", n)
		}
		if n := strings.Count(w.history(), "brokers do not say what time it is"); n != 1 || !strings.Contains(a.p.Stats().ClockUnknown, "TRANSACTIONAL_ID_AUTHORIZATION_FAILED") {
			t.Errorf("said %d times; it is %q", n, a.p.Stats().ClockUnknown)
		}
		mend()
		w.within(clock.AskInterval+time.Second, "known", func() bool { return a.p.Stats().ClockUnknown == "" })
		for len(asked) > 0 {
			<-asked
		}
		time.Sleep(3 * clock.AskInterval)
		if n := len(asked); n < 2 || n > 4 {
			t.Errorf("brokers were asked %d times in three minutes", n)
		}
		w.finish()
	})
}

// A process that has just been started delivers nothing before it knows what time it is; but brokers
// that answer everything else are not waited for long.
func TestSimClockAwaited(t *testing.T) {
	scenario(t, worldConfig{}, func(w *world) {
		w.send(request("k", in(20*time.Second)))
		release := make(chan struct{})
		a := w.startAt("a", time.Hour)
		held := a.link.on(rule{key: kmsg.DescribeTransactions, timekeeper: true, count: -1, wait: release})
		w.hit(held)
		time.Sleep(clock.SettleAfter / 2)
		if a.joined() {
			t.Error("it takes part and does not know what time it is")
		}
		close(release)
		w.within(2*clock.AskPatience, "live", func() bool { return a.live(1) })
		time.Sleep(time.Second)
		w.clean()
		w.finish()
	})
	scenario(t, worldConfig{}, func(w *world) {
		a := w.start("a", nil)
		a.link.on(rule{key: kmsg.DescribeTransactions, timekeeper: true, count: -1, cut: true})
		w.within(clock.SettleAfter+2*clock.AskPatience, "live", func() bool { return a.live(1) })
		if a.p.Stats().ClockUnknown == "" {
			t.Error("it does not say that it goes by its own clock")
		}
		w.send(request("k", in(time.Second)))
		w.finish()
	})
}

// What was put back before the clock is set back does not wait until the clock has come to where it was.
func TestSimClockSetBackWhileHeldUp(t *testing.T) {
	guarantees(t, worldConfig{late: time.Hour, billBytes: 500}, func(w *world) {
		w.dumb()
		a := w.live("a")
		a.skew.Store(int64(2 * time.Hour))
		time.Sleep(2 * clock.StepPersists)
		mend := w.leaderless(simTopic + ".dead")
		large := addressed("bills", request("too large", in(0)))
		large.Value = incompressible(1000)
		w.send(large)
		time.Sleep(3 * time.Second)
		a.skew.Store(0)
		w.send(request("behind it", in(0)))
		time.Sleep(3 * time.Second)
		equal(t, "outstanding", w.outstanding(), 2)
		asked := a.requests()
		time.Sleep(3 * time.Second)
		if n := total(a.requests(), asked); n > 200 {
			t.Errorf("%d requests in three seconds", n)
		}
		mend()
		w.within(8*time.Second, "both arrive", func() bool { return w.outstanding() == 0 })
		w.clean()
		a.kill()
	})
}

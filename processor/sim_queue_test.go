//go:build synctests

package processor

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/targets"
	"github.com/duewheel/duewheel/topics"
)

// delayed is a record of the fixed-delay route.
func delayed(key string, stamp time.Time) *kgo.Record {
	return &kgo.Record{Topic: simFixed, Key: []byte(key), Value: []byte("value of " + key), Timestamp: stamp}
}

// fixedLive starts a process and waits until it has everything.
func (w *world) fixedLive(name string) *process {
	w.t.Helper()
	p := w.start(name, nil)
	w.until(name+" is live", func() bool {
		live := 0
		for _, s := range p.p.Stats().Partitions {
			if s.Phase == PhaseLive {
				live++
			}
		}
		return live == int(w.cfg.partitions)+2
	})
	return p
}

// What waits on a fixed-delay route keeps the delay that it was written for when the configuration
// is given another one, or none.
func TestSimFixedDelayTakenAway(t *testing.T) {
	for _, delay := range []time.Duration{0, time.Second, time.Minute} {
		for _, guarantee := range []Guarantee{ExactlyOnce, AtLeastOnce} {
			t.Run(fmt.Sprint(delay, " ", guarantee), func(t *testing.T) {
				scenario(t, worldConfig{fixed: true, guarantee: guarantee}, func(w *world) {
					a := w.fixedLive("a")
					for i := range 20 {
						w.send(delayed(fmt.Sprint(i), time.Now()))
						time.Sleep(100 * time.Millisecond)
					}
					a.shut()
					if w.outstanding() < 10 {
						t.Errorf("only %d were waiting", w.outstanding())
					}
					w.cfg.tune = func(c *Config) { c.Routes[1].Delay = delay }
					w.fixedLive("b").kill()
					w.fixedLive("c")
					w.within(5*time.Second, "all arrive", func() bool { return w.outstanding() == 0 })
					w.clean()
					if n := w.watch.Counts().DeadLettered; n > 0 {
						t.Errorf("%d were dead-lettered", n)
					}
				})
			})
		}
	}
}

// A record whose timestamp is ahead of the clock counts as written when it was seen in the log. It
// holds nothing up for longer than the delay, and not much longer when owners change meanwhile.
func TestSimFixedDelayTimestampAhead(t *testing.T) {
	for _, c := range []struct {
		name     string
		change   func(w *world, p *process, n int) *process
		most     time.Duration // until all have arrived
		everyone bool          // all timestamps are ahead, a little
	}{
		{"one owner", nil, 5 * time.Second, false},
		{"all of them are ahead", nil, 5 * time.Second, true},
		{"owners are told to stop", func(w *world, p *process, n int) *process { p.shut(); return w.fixedLive(fmt.Sprint("b", n)) }, 7 * time.Second, false},
		{"owners are killed", func(w *world, p *process, n int) *process { p.kill(); return w.fixedLive(fmt.Sprint("b", n)) }, 10 * time.Second, false},
	} {
		for _, guarantee := range []Guarantee{ExactlyOnce, AtLeastOnce} {
			t.Run(c.name+"/"+string(guarantee), func(t *testing.T) {
				scenario(t, worldConfig{fixed: true, guarantee: guarantee, late: time.Minute}, func(w *world) {
					p := w.fixedLive("a")
					w.send(delayed("wrong clock", in(300*24*time.Hour)))
					began := time.Now()
					for i := range 10 {
						stamp := time.Now()
						if c.everyone {
							stamp = in(time.Hour)
						}
						w.send(delayed(fmt.Sprint(i), stamp))
					}
					w.send(delayed("behind them", began))
					for n := 0; w.outstanding() > 0; n++ {
						if time.Since(began) > c.most {
							w.fail("%d are waiting after %v", w.outstanding(), time.Since(began))
						}
						if c.change != nil {
							p = c.change(w, p, n)
						}
						time.Sleep(500 * time.Millisecond)
					}
					w.clean()
				})
			})
		}
	}
}

// Partitions of several topics that are taken over are read at once: the reader knows their leaders
// before it is given the partitions.
func TestSimTopicsAreReadAtOnce(t *testing.T) {
	scenario(t, worldConfig{fixed: true, late: time.Minute}, func(w *world) {
		for n := range 40 {
			name := fmt.Sprint("a", n)
			w.send(delayed(name, in(-time.Minute)), request(name, in(0)))
			p := w.fixedLive(name)
			w.within(kafka.FetchMaxWait+100*time.Millisecond, name+" has delivered all", func() bool { return w.outstanding() == 0 })
			p.kill()
		}
	})
}

// A target that is made while records wait on a fixed-delay route takes all that is due after that,
// however long ago the brokers were last asked. While there is none its records are dead-lettered in
// good time, and not a word is said of each look.
func TestSimFixedDelayTargetMadeLate(t *testing.T) {
	guarantees(t, worldConfig{fixed: true, tune: func(c *Config) { c.Routes[1].Target, c.Routes[1].Delay = "gone", 10*time.Second }}, func(w *world) {
		a := w.fixedLive("a")
		missing := func() *targets.State { return a.p.targets.Of([]byte("gone")).State.Load() }
		w.until("it is known to be missing", func() bool { return missing().Status == targets.Missing })
		send := func(n int) {
			for i := range n {
				w.client.Produce(context.Background(), delayed(fmt.Sprint(i), time.Now()), nil)
				time.Sleep(50 * time.Millisecond)
			}
		}
		lines := a.lines.Load()
		send(400)
		w.within(11*time.Second, "all are dead-lettered", func() bool { return a.deadLettered(string(topics.CodeUnknownTarget)) == 400 })
		if n := a.lines.Load() - lines; n > 5 {
			t.Errorf("%d lines in the log", n)
		}
		asked := missing().Asked
		w.until("brokers are asked seldom", func() bool {
			before := asked
			asked = missing().Asked
			return asked.Sub(before) > 12*time.Second
		})
		send(20)
		time.Sleep(8 * time.Second)
		equal(t, "status", missing().Status, targets.Missing)
		w.unread("gone")
		w.within(4*time.Second, "delivered", func() bool { return a.deliveredTo("gone") == 20 })
		equal(t, "records dead-lettered", a.deadLettered(string(topics.CodeUnknownTarget)), 400)
	})
}

// A record that has to wait where it is holds up those behind it, and none that was due with it and comes
// before it.
func TestSimFixedDelayHeldUp(t *testing.T) {
	guarantees(t, worldConfig{fixed: true, tune: func(c *Config) { c.Routes[1].Allow = []string{"bills"} }}, func(w *world) {
		a := w.fixedLive("a")
		mend := w.leaderless("bills")
		now := time.Now()
		waits := delayed("waits", now)
		waits.Headers = append(waits.Headers, kgo.RecordHeader{Key: topics.HeaderTargetTopic, Value: []byte("bills")})
		w.send(delayed("first", now), delayed("second", now), waits, delayed("behind", now))
		time.Sleep(3 * time.Second)
		w.within(50*time.Millisecond, "those before it are delivered", func() bool { return w.outstanding() <= 2 })
		asked := a.requests()
		time.Sleep(10 * time.Second)
		equal(t, "outstanding", w.outstanding(), 2)
		if n := total(a.requests(), asked); n > 500 {
			t.Errorf("%d requests in ten seconds", n)
		}
		mend()
		w.within(10*time.Second, "all arrive", func() bool { return w.outstanding() == 0 })
		a.kill()
	})
}

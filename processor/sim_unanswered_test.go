//go:build synctests

package processor

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/duewheel/duewheel/processor/kafka"
)

// In at_least_once commits that are not answered for less than a session cost nothing: what is due is
// delivered, and delivered once. A coordinator that is silent altogether, and for longer, costs no more
// than what was delivered until the session had ended.
func TestSimSilentCoordinator(t *testing.T) {
	const each = 50 * time.Millisecond
	for _, c := range []struct {
		silent, most time.Duration
		frozen       bool
	}{
		{5 * time.Second, 0, false},
		{8 * time.Second, 0, false},
		{2 * time.Second, 0, true},
		{30 * time.Second, 10*time.Second + kafka.BrokerPatience, true},
	} {
		t.Run(fmt.Sprint(c.silent, " frozen ", c.frozen), func(t *testing.T) {
			scenario(t, worldConfig{guarantee: AtLeastOnce, brokers: 3, late: time.Minute, tune: func(c *Config) { c.SessionTimeout = 10 * time.Second }}, func(w *world) {
				w.give(1, roles{group: true})
				a := w.live("a")
				stream := func(d time.Duration) {
					for until := in(d); time.Now().Before(until); time.Sleep(each) {
						w.client.Produce(context.Background(), request("k", in(2*each)), nil)
						w.sent++
					}
				}
				stream(2 * time.Second)
				silence := w.freezeBroker
				if !c.frozen {
					silence = a.holdCommits
				}
				mend := silence(1)
				stream(c.silent)
				delivered := w.watch.Counts().Delivered
				mend()
				stream(5 * time.Second)
				w.within(20*time.Second, "all has arrived", func() bool { c := w.watch.Counts(); return c.Delivered-c.Doubled == w.sent })
				n := w.watch.Counts()
				if n.Doubled > int64(c.most/each) {
					t.Errorf("%d of %d doubled, at most %d are expected", n.Doubled, n.Delivered, c.most/each)
				}
				if least := int64((2*time.Second + c.silent) / each * 9 / 10); c.most == 0 && delivered < least {
					t.Errorf("%d were delivered until the coordinator spoke again, at least %d are expected", delivered, least)
				}
				if c.silent > kafka.BrokerPatience && w.lines("checkpoints were not written") == 0 {
					t.Error("no commit went unanswered")
				}
				w.committed(w.sent)
				w.finish()
			})
		})
	}
}

// holdCommits keeps the commits of checkpoints from the coordinator, and nothing else.
func (p *process) holdCommits(int32) (mend func()) {
	release := make(chan struct{})
	p.link.on(rule{key: kmsg.OffsetCommit, wait: release, count: -1})
	return func() { p.link.clear(); close(release) }
}

// A commit that was not answered and is carried out late, after newer ones, sets the checkpoint back for
// a moment only, although nothing is due any more, whatever becomes of the partition.
func TestSimLateCommit(t *testing.T) {
	scenario(t, worldConfig{guarantee: AtLeastOnce, tune: func(c *Config) { c.SessionTimeout = 10 * time.Second }}, func(w *world) {
		a := w.live("a")
		w.send(request("first", in(0)))
		w.committed(1)
		release := make(chan struct{})
		held := a.link.on(rule{key: kmsg.OffsetCommit, wait: release})
		w.send(request("second", in(0)))
		w.hit(held)
		for i := range 100 {
			w.send(request(fmt.Sprint(i), in(0)))
			time.Sleep(100 * time.Millisecond)
		}
		w.committed(102)
		w.inspect()
		close(release)
		w.within(soonEnough, "the checkpoint is set back", func() bool { c, _ := w.checkpoint(0); return c.Offset == 2 })
		w.inspect() // as schedules do, which know of this
		w.within(time.Second, "it is right again", func() bool { c, _ := w.checkpoint(0); return c.Offset == 102 })
		time.Sleep(lateCommit)
		before := a.requests()[kmsg.OffsetCommit]
		time.Sleep(10 * time.Second)
		if n := a.requests()[kmsg.OffsetCommit] - before; n > 0 {
			t.Errorf("%d commits of what the group has", n)
		}
		a.kill()
		w.start("b", nil).until(1)
		time.Sleep(time.Second)
		if n := w.watch.Counts().Doubled; n != 0 {
			t.Errorf("%d doubled", n)
		}
	})
}

//go:build synctests

package processor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/retention"
)

// set changes a setting of the delay topic.
func (w *world) set(name, value string) {
	w.t.Helper()
	w.note("---- %s is %s", name, value)
	r, err := kadm.NewClient(w.client).AlterTopicConfigs(context.Background(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: name, Value: &value}}, simTopic)
	if err == nil {
		_, err = r.On(simTopic, nil)
	}
	if err != nil {
		w.fail("set %s: %v", name, err)
	}
}

// blames reports whether a process says this of its partition, and is ready, since no other could do better.
func (p *process) blames(what string) bool {
	ok, not := p.p.Ready()
	return ok && len(not) > 0 && strings.Contains(not[0].Error, what) && strings.Contains(p.p.Stats().Topics[0].Trouble, what)
}

// A delay topic that begins to lose what is pending, by compaction or by its retention, is noticed
// within a minute and by a replica that is given a partition of it. Delivery goes on with what is there. What is carried needs no long retention.
func TestSimTopicLosesRecords(t *testing.T) {
	for _, c := range []struct{ name, value, back string }{
		{"cleanup.policy", "compact", "delete"},
		{"cleanup.policy", "compact,delete", "delete"},
		{"retention.ms", "180000", "-1"},
		{"retention.bytes", "1000000000", "-1"},
	} {
		t.Run(c.value, func(t *testing.T) {
			guarantees(t, worldConfig{tune: func(cfg *Config) { cfg.Routes[0].Carry = new(bool) }}, func(w *world) {
				a := w.live("a")
				for i := range 20 {
					w.send(request(fmt.Sprint(i), in(10*time.Second*time.Duration(i+1))))
				}
				w.send(request("far", in(10*time.Minute)))
				time.Sleep(2 * time.Second)
				lines := a.lines.Load()
				w.set(c.name, c.value)
				w.within(retention.LookInterval+time.Second, "it is noticed", func() bool { return a.blames(c.name) })
				time.Sleep(3 * time.Minute)
				if n := a.lines.Load() - lines; n > 3 {
					t.Errorf("%d lines in the log", n)
				}
				if n := w.watch.Counts().Delivered; n < 18 {
					t.Errorf("%d delivered", n)
				}
				disk := a.kill()
				b := w.start("b", disk)
				w.within(soonEnough, "the next one notices", func() bool { return b.blames(c.name) })
				w.set(c.name, c.back)
				w.within(retention.LookInterval+time.Second, "it is well again", func() bool { ok, not := b.p.Ready(); return ok && len(not) == 0 })
				w.finish()
			})
		})
	}
}

// What is due before the topic would delete it is in no danger, nor is what is carried before.
func TestSimRetentionThatSuffices(t *testing.T) {
	for _, c := range []struct {
		name, retention string
		carry           *bool
	}{{"longer", "660000", new(bool)}, {"shorter, and carried", "180000", nil}} {
		t.Run(c.name, func(t *testing.T) {
			scenario(t, worldConfig{tune: func(cfg *Config) { cfg.Routes[0].Carry = c.carry }}, func(w *world) {
				a := w.live("a")
				w.send(request("far", in(10*time.Minute)))
				w.set("retention.ms", c.retention)
				time.Sleep(2 * retention.LookInterval)
				if ok, not := a.p.Ready(); !ok {
					t.Errorf("not ready: %+v", not)
				}
				time.Sleep(8 * time.Minute)
				w.finish()
			})
		})
	}
}

// Brokers that lack what the guarantee rests on are refused by name, and nothing is taken in.
func TestSimBrokersTooOld(t *testing.T) {
	for _, c := range []struct {
		name      string
		key, most int16
		guarantee Guarantee
		want      []string
	}{
		{"no topic ids", 3, 9, ExactlyOnce, []string{"Metadata", "version 10", "2.8"}},
		{"no topic ids either way", 3, 9, AtLeastOnce, []string{"Metadata", "version 10", "2.8"}},
		{"no stable offsets", 9, 6, ExactlyOnce, []string{"OffsetFetch", "version 7", "2.5"}},
		{"no group metadata", 28, 2, ExactlyOnce, []string{"TxnOffsetCommit", "version 3", "2.5"}},
		{"no stable offsets needed", 9, 6, AtLeastOnce, nil},
		{"no group metadata needed", 28, 2, AtLeastOnce, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := kversion.Stable()
			v.SetMaxKeyVersion(c.key, c.most)
			scenario(t, worldConfig{guarantee: c.guarantee, versions: v, brokers: 3}, func(w *world) {
				a := w.start("a", nil)
				if c.want == nil {
					w.until("live", func() bool { return a.live(1) })
					return
				}
				select {
				case <-a.done:
				case <-time.After(5 * time.Second):
					w.fail("it runs")
				}
				a.ended.Store(true)
				if !errors.Is(a.err, kafka.ErrBrokersTooOld) {
					t.Fatalf("it ended with %v", a.err)
				}
				for _, want := range c.want {
					if !strings.Contains(a.err.Error(), want) {
						t.Errorf("not a word of %s in: %v", want, a.err)
					}
				}
				if _, ok := w.checkpoint(0); ok {
					t.Error("it has written a checkpoint")
				}
			})
		})
	}
}

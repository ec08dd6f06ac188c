//go:build synctests

package processor

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/duewheel/duewheel/processor/targets"
)

// Each timer has its test here: that it comes, and not much later than it says.

// A partition that has stopped looks again whether a person has mended what stopped it.
func TestSimStoppedLooksAgain(t *testing.T) {
	scenario(t, worldConfig{}, func(w *world) {
		w.live("z").shut()
		ours := w.cluster.GroupInfo(simGroup).Commits[simTopic][0]
		w.commit(ours.Offset, "not ours")
		p := w.start("a", nil)
		w.send(request("waits", in(0)))
		w.within(5*time.Second, "stopped", func() bool {
			s := p.p.Stats().Partitions
			return len(s) == 1 && s[0].Phase == PhaseStopped
		})
		time.Sleep(5 * time.Second)
		w.commit(ours.Offset, ours.Metadata)
		w.within(31*time.Second, "live", func() bool { return p.live(1) })
		w.finish()
	})
}

// commit writes a checkpoint of partition 0 for the group as it is.
func (w *world) commit(offset int64, metadata string) {
	w.t.Helper()
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group = simGroup
	if g := w.cluster.GroupInfo(simGroup); len(g.Members) > 0 {
		req.MemberID, req.Generation = g.Members[0].MemberID, g.Epoch
	}
	topic, partition := kmsg.NewOffsetCommitRequestTopic(), kmsg.NewOffsetCommitRequestTopicPartition()
	partition.Offset, partition.Metadata = offset, &metadata
	topic.Topic, topic.Partitions = simTopic, append(topic.Partitions, partition)
	topic.TopicID = w.cluster.TopicInfo(simTopic).TopicID
	req.Topics = append(req.Topics, topic)
	resp, err := req.RequestWith(context.Background(), w.client)
	if err == nil {
		err = kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode)
	}
	if err != nil {
		w.fail("commit %q: %v", metadata, err)
	}
}

// A target that is missing is looked up again and again, ever more rarely, but every half minute at least.
func TestSimMissingTargetIsLookedUpAgain(t *testing.T) {
	scenario(t, worldConfig{}, func(w *world) {
		p := w.live("a")
		p.p.targets.Keep("gone", false)
		look := func() *targets.State { return p.p.targets.Of([]byte("gone")).State.Load() }
		missing := func() bool { return look().Status == targets.Missing }
		w.within(10*time.Second, "missing", missing)
		for range 400 {
			time.Sleep(time.Second)
			if ago := time.Since(look().Asked); ago > 31*time.Second {
				w.fail("looked up %v ago", ago)
			}
		}
		if _, err := kadm.NewClient(w.client).CreateTopic(context.Background(), 2, 1, nil, "gone"); err != nil {
			w.fail("%v", err)
		}
		w.within(31*time.Second, "there", func() bool { return !missing() })
		w.finish()
	})
}

// A loop that stands still is not alive, and is again when it goes on.
func TestSimStandsStill(t *testing.T) {
	gate := make(chan struct{})
	close(gate)
	var now func() time.Time
	scenario(t, worldConfig{tune: func(c *Config) {
		now, c.Routes[0].Carry = c.Now, new(bool) // nothing but the loop asks what time it is
		c.Now = func() time.Time { <-gate; return now() }
	}}, func(w *world) {
		p := w.live("a")
		time.Sleep(time.Minute)
		if !p.p.Alive() {
			t.Error("a loop with nothing to do is taken for dead")
		}
		open := gate
		gate = make(chan struct{})
		time.Sleep(29 * time.Second)
		if !p.p.Alive() {
			t.Error("a loop is taken for dead after 29 s")
		}
		time.Sleep(3 * time.Second)
		if p.p.Alive() {
			t.Error("a loop that has stood still for 32 s is taken for alive")
		}
		close(gate)
		gate = open
		w.within(time.Second, "alive", p.p.Alive)
		w.finish()
	})
}

// The group takes a partition away from a silent member when the session is over that this one has asked for, not before.
func TestSimOwnSession(t *testing.T) {
	const long = 6 * time.Second
	scenario(t, worldConfig{tune: func(c *Config) { c.SessionTimeout = long }}, func(w *world) {
		a := w.live("a")
		b := w.start("b", nil)
		w.until("b has joined", b.joined)
		time.Sleep(2 * time.Second)
		if !a.live(1) {
			a, b = b, a
		}
		thaw := a.link.freeze()
		time.Sleep(long - time.Second)
		thaw()
		time.Sleep(time.Second)
		if b.live(1) {
			t.Errorf("taken over from a member that was silent for less than its session")
		}
		a.kill()
		time.Sleep(long - time.Second)
		if b.live(1) {
			t.Errorf("taken over before the session was over")
		}
		w.within(1*time.Second+session, "taken over", func() bool { return b.live(1) })
		w.finish()
	})
}

//go:build synctests

package processor

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// In at_least_once the checkpoint is written beside the turns, so a backlog that fills one after the
// other doubles no more after a crash than one that does not.
func TestSimCheckpointWhileTurnsAreFull(t *testing.T) {
	const (
		records   = 6000
		delivered = 5000                                        // when it is killed: all turns so far were full
		promised  = 250*time.Millisecond + 200*time.Millisecond // the interval, and a commit and a turn that are under way
	)
	scenario(t, worldConfig{guarantee: AtLeastOnce, latency: 20 * time.Millisecond, tune: func(c *Config) { c.BatchRecords = 20 }}, func(w *world) {
		a := w.live("a")
		due := in(10 * time.Second)
		for i := range records {
			w.client.Produce(context.Background(), request(fmt.Sprint(i), due), nil)
		}
		w.client.Flush(context.Background())
		time.Sleep(time.Until(due))
		var worst time.Duration
		moved, was := time.Now(), int64(-1)
		for w.watch.Counts().Delivered < delivered {
			c, _ := w.checkpoint(0)
			if worst = max(worst, time.Since(moved)); c.Watermark.Seq != was {
				moved, was = time.Now(), c.Watermark.Seq
			}
			time.Sleep(time.Millisecond)
		}
		if took := time.Since(due); took < 3*promised {
			t.Fatalf("the backlog took only %v", took)
		}
		if worst > promised {
			t.Errorf("the checkpoint stood still for %v, promised are %v", worst, promised)
		}
		c, _ := w.checkpoint(0)
		after := w.watch.Counts().Delivered - c.Watermark.Seq
		a.kill()
		w.start("b", nil)
		w.until("all have arrived", func() bool { return w.watch.Counts().Delivered-w.watch.Counts().Doubled >= records })
		if n := w.watch.Counts(); n.Doubled > after+40 {
			t.Errorf("%d doubled; %d had been delivered after the checkpoint", n.Doubled, after)
		}
	})
}

// In exactly_once a partition with nothing due has its checkpoint written too, while another one fills
// turn after turn.
func TestSimCheckpointOfAQuietPartition(t *testing.T) {
	scenario(t, worldConfig{partitions: 2, latency: 20 * time.Millisecond, tune: func(c *Config) { c.BatchRecords = 20 }}, func(w *world) {
		w.live("a")
		due := in(5 * time.Second)
		for i := range 2000 {
			w.client.Produce(context.Background(), request(fmt.Sprint(i), due), nil)
		}
		w.client.Flush(context.Background())
		time.Sleep(time.Until(due) + 500*time.Millisecond)
		quiet := request("far", in(24*time.Hour))
		quiet.Partition = 1
		w.send(quiet)
		w.within(2*time.Second, "the quiet partition's checkpoint", func() bool { c, _ := w.checkpoint(1); return c.Offset == 1 })
		if n := w.watch.Counts().Delivered; n >= 1900 {
			t.Fatalf("%d were delivered: there is no backlog", n)
		}
		w.until("delivered", func() bool { return w.watch.Counts().Delivered == 2000 })
		w.clean()
	})
}

// A checkpoint that is refused for longer than a session is an error that says why, in readiness, in
// Stats and once in the log, although records are delivered; and it is written as soon as it may be.
func TestSimCheckpointRefused(t *testing.T) {
	for _, e := range []*kerr.Error{kerr.NotCoordinator, kerr.CoordinatorNotAvailable, kerr.CoordinatorLoadInProgress,
		kerr.GroupAuthorizationFailed, kerr.TopicAuthorizationFailed, kerr.OffsetMetadataTooLarge, kerr.InvalidCommitOffsetSize} {
		for _, g := range []Guarantee{AtLeastOnce, ExactlyOnce} {
			t.Run(fmt.Sprint(g, " ", e.Message), func(t *testing.T) {
				scenario(t, worldConfig{guarantee: g}, func(w *world) {
					a := w.live("a")
					w.send(request("first", in(0)))
					w.committed(1)
					h := w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: e, Count: -1})
					due := in(24 * time.Hour)
					if g == AtLeastOnce {
						due = in(0) // in exactly_once a delivery would write it
					}
					began := time.Now()
					for i := 0; time.Since(began) < 20*time.Second; i++ {
						w.send(request(fmt.Sprint(i), due))
						time.Sleep(50 * time.Millisecond)
					}
					ok, why := a.p.Ready()
					if ok || len(why) != 1 || !strings.Contains(why[0].Error, e.Message) {
						t.Errorf("ready %v: %+v", ok, why)
					} else if age := time.Since(why[0].CheckpointAt); age < 19*time.Second {
						t.Errorf("the checkpoint is said to be %v old", age)
					}
					if n := h.Hits(); n < 5 || n > 100 {
						t.Errorf("%d commits were tried", n)
					}
					if n := strings.Count(w.history(), e.Message); n < 1 || n > 5 {
						t.Errorf("%d lines in the log name %s", n, e.Message)
					}
					h.Remove()
					w.within(stoppedRetry+5*time.Second, "ready again", func() bool {
						ok, _ := a.p.Ready()
						c, _ := w.checkpoint(0)
						return ok && c.Offset >= w.sent
					})
					before := w.watch.Counts().Doubled
					a.kill()
					w.start("b", nil).until(1)
					time.Sleep(time.Second)
					if n := w.watch.Counts().Doubled - before; n != 0 {
						t.Errorf("%d doubled", n)
					}
				})
			})
		}
	}
}

// In at_least_once a checkpoint that is refused for what its partition is rests between two tries, as one does that is refused with all others, and the log says it once: those of the
// other partitions are written as before.
func TestSimCheckpointOfOneRefused(t *testing.T) {
	scenario(t, worldConfig{guarantee: AtLeastOnce, partitions: 2}, func(w *world) {
		a := w.live("a")
		h := w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Partitions: []int32{1}, Err: kerr.TopicAuthorizationFailed, Count: -1})
		began := time.Now()
		for i := 0; time.Since(began) < 20*time.Second; i++ {
			r := request(fmt.Sprint(i), in(0))
			r.Partition = int32(i % 2)
			w.send(r)
			time.Sleep(50 * time.Millisecond)
		}
		_, why := a.p.Ready()
		if len(why) != 1 || why[0].Partition != 1 || time.Since(why[0].CheckpointAt) < 19*time.Second {
			t.Errorf("not ready: %+v", why)
		}
		if n := h.Hits(); n < 5 || n > 15 {
			t.Errorf("%d commits were tried", n)
		}
		if n := w.lines("checkpoints were not written"); n != 1 {
			t.Errorf("%d lines in the log", n)
		}
		h.Remove()
		w.within(5*time.Second, "ready again", func() bool { ok, _ := a.p.Ready(); return ok })
	})
}

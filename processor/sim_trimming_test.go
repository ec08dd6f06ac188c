//go:build synctests

package processor

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// logLength is how many offsets of the delay topic there are.
func (w *world) logLength() (n int64) {
	for partition := range w.cfg.partitions {
		info := w.cluster.PartitionInfo(simTopic, partition)
		n += info.HighWatermark - info.LogStartOffset
	}
	return n
}

// untrimmed is why a process says that its topic is not trimmed.
func (p *process) untrimmed() string { return p.p.Stats().Topics[0].Untrimmed }

// A topic that keeps everything is trimmed: the log begins with what is pending. What is pending
// is there after a crash that leaves nothing but Kafka, and a process that starts with nothing finds no loss.
func TestSimTrim(t *testing.T) {
	guarantees(t, worldConfig{tune: func(c *Config) { c.NearWindow, c.TrimInterval = 2*time.Second, 5*time.Second }}, func(w *world) {
		w.set("retention.ms", "-1")
		a := w.live("a")
		for i := range 400 {
			if i == 200 {
				w.send(request("far", in(4*time.Minute)))
			}
			w.send(request(fmt.Sprint(i), in(time.Duration(3+i%7)*time.Second)))
			time.Sleep(100 * time.Millisecond)
		}
		w.within(soonEnough, "delivered", func() bool { return w.outstanding() == 1 })
		time.Sleep(2*time.Minute + time.Second)
		trimmed := a.p.Stats().Topics[0].Trimmed
		if n := w.logLength(); trimmed < 200 || n < 201 {
			t.Errorf("%d offsets were deleted, and the log has %d", trimmed, n)
		}
		a.kill()
		b := w.start("b", nil)
		w.within(soonEnough, "live from nothing", func() bool { return b.live(1) })
		w.finish()
	})
}

// What is against it is said once, and it goes on when that is over. What a route says leaves a topic alone.
func TestSimTrimRefused(t *testing.T) {
	yes, no := true, false
	var noDelete atomic.Bool
	for _, c := range []struct {
		name   string
		trim   *bool
		begin  func(w *world)
		why    string
		end    func(w *world)
		within time.Duration
	}{
		{
			name: "another group", why: "other groups have committed offsets of it (copier)", within: 10 * time.Second,
			begin: func(w *world) {
				var o kadm.Offsets
				o.AddOffset(simTopic, 0, 0, -1)
				if err := kadm.NewClient(w.client).CommitAllOffsets(context.Background(), "copier", o); err != nil {
					w.fail("commit: %v", err)
				}
			},
			end: func(w *world) {
				if _, err := kadm.NewClient(w.client).DeleteGroup(context.Background(), "copier"); err != nil {
					w.fail("delete: %v", err)
				}
			},
		},
		{
			name: "no right", trim: &yes, why: "give this user the right to Delete the topic", within: 10 * time.Second,
			begin: func(w *world) {
				w.cluster.ControlKey(int16(kmsg.DeleteRecords), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
					w.cluster.KeepControl()
					req := kreq.(*kmsg.DeleteRecordsRequest)
					resp := req.ResponseKind().(*kmsg.DeleteRecordsResponse)
					for _, rt := range req.Topics {
						st := kmsg.NewDeleteRecordsResponseTopic()
						st.Topic = rt.Topic
						for _, rp := range rt.Partitions {
							sp := kmsg.NewDeleteRecordsResponseTopicPartition()
							sp.Partition, sp.ErrorCode = rp.Partition, kerr.TopicAuthorizationFailed.Code
							st.Partitions = append(st.Partitions, sp)
						}
						resp.Topics = append(resp.Topics, st)
					}
					return resp, nil, noDelete.Load()
				})
				noDelete.Store(true)
			},
			end: func(w *world) { noDelete.Store(false) },
		},
		{name: "a retention", begin: func(w *world) { w.set("retention.ms", "3600000") }, end: func(w *world) { w.set("retention.ms", "-1") }, within: 10 * time.Second},
		{name: "told not to", trim: &no},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "-"), func(t *testing.T) {
			scenario(t, worldConfig{tune: func(cfg *Config) { cfg.TrimInterval, cfg.Routes[0].Trim = 5*time.Second, c.trim }}, func(w *world) {
				w.set("retention.ms", "-1")
				a := w.live("a")
				if c.begin != nil {
					c.begin(w)
				}
				for i := range 50 {
					w.send(request(fmt.Sprint(i), in(time.Second)))
				}
				w.within(soonEnough, "delivered", func() bool { return w.outstanding() == 0 })
				lines := a.lines.Load()
				time.Sleep(3 * time.Minute)
				if n := a.p.Stats().Topics[0].Trimmed; n != 0 || w.logLength() < 50 {
					t.Errorf("%d offsets were deleted, and the log has %d", n, w.logLength())
				}
				if why := a.untrimmed(); !strings.Contains(why, c.why) || (c.why == "") != (why == "") {
					t.Errorf("it says %q, and not %q", why, c.why)
				}
				if n := a.lines.Load() - lines; n > 1 {
					t.Errorf("%d lines in the log", n)
				}
				if c.end != nil {
					c.end(w)
					w.within(c.within+time.Minute, "trimmed", func() bool { return a.p.Stats().Topics[0].Trimmed >= 50 && a.untrimmed() == "" })
				}
				w.finish()
			})
		})
	}
}

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

	"github.com/duewheel/duewheel/processor/retention"
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
	var noDelete, noList, noConfigs, noRecords atomic.Bool
	for _, c := range []struct {
		name   string
		trim   *bool
		begin  func(w *world)
		why    string
		end    func(w *world)
		within time.Duration
		after  time.Duration // for how long it goes on; a minute before it is over nothing is said. 0: three minutes, and it is said at once
		also   int64         // lines that others write of it
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
		{
			name: "groups are not listed", trim: &yes, why: "it cannot be asked whether other groups read it", within: 10 * time.Second, after: retention.Unsaid + time.Minute,
			begin: func(w *world) { failing(w, kmsg.ListGroups, &noList) },
			end:   func(w *world) { noList.Store(false) },
		},
		{
			name: "settings are not told", why: "its settings cannot be read", within: 10 * time.Second, after: retention.Unsaid + time.Minute, also: 2,
			begin: func(w *world) { failing(w, kmsg.DescribeConfigs, &noConfigs) },
			end:   func(w *world) { noConfigs.Store(false) },
		},
		{
			name: "records are not deleted", why: "brokers do not answer DeleteRecords: NOT_LEADER_FOR_PARTITION", within: 10 * time.Second, after: retention.Unsaid + time.Minute,
			begin: func(w *world) { failing(w, kmsg.DeleteRecords, &noRecords) },
			end:   func(w *world) { noRecords.Store(false) },
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
				if c.after > 0 {
					time.Sleep(c.after - 2*time.Minute)
					if why := a.untrimmed(); why != "" {
						t.Errorf("it says at once %q", why)
					}
					time.Sleep(2 * time.Minute)
				} else {
					time.Sleep(3 * time.Minute)
				}
				if n := a.p.Stats().Topics[0].Trimmed; n != 0 || w.logLength() < 50 {
					t.Errorf("%d offsets were deleted, and the log has %d", n, w.logLength())
				}
				if why := a.untrimmed(); !strings.Contains(why, c.why) || (c.why == "") != (why == "") {
					t.Errorf("it says %q, and not %q", why, c.why)
				}
				if n := a.lines.Load() - lines; n > 1+c.also {
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

// A partition of which something is held up is not trimmed, which is said when it lasts, and trimmed when that is over.
func TestSimTrimHeldUp(t *testing.T) {
	scenario(t, worldConfig{late: time.Hour, tune: func(cfg *Config) { cfg.TrimInterval = 10 * time.Second }}, func(w *world) {
		w.set("retention.ms", "-1")
		a := w.live("a")
		mend := w.leaderless(simTopic + ".dead")
		for i := range 50 {
			w.send(request(fmt.Sprint(i), in(0)))
		}
		w.within(soonEnough, "delivered", func() bool { return w.outstanding() == 0 })
		bad := request("bad", in(0))
		bad.Headers = bad.Headers[:1] // it says nothing of when it is due, or where it goes
		w.send(bad)
		time.Sleep(retention.Unsaid - time.Minute)
		equal(t, "said at first", a.untrimmed(), "")
		w.within(2*time.Minute, "it is said", func() bool {
			return strings.Contains(a.untrimmed(), "nothing of partition 0 is deleted, so its log grows, while something else is wrong with it")
		})
		equal(t, "deleted", a.p.Stats().Topics[0].Trimmed, 0)
		mend()
		w.within(2*time.Minute, "trimmed", func() bool { return a.p.Stats().Topics[0].Trimmed >= 50 && a.untrimmed() == "" })
		w.finish()
	})
}

// failing has brokers answer a request with an error that asks to try again, while on.
func failing(w *world, key kmsg.Key, on *atomic.Bool) {
	on.Store(true)
	w.cluster.ControlKey(int16(key), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		w.cluster.KeepControl()
		var resp kmsg.Response
		switch req := kreq.(type) {
		case *kmsg.ListGroupsRequest:
			r := req.ResponseKind().(*kmsg.ListGroupsResponse)
			r.ErrorCode, resp = kerr.CoordinatorLoadInProgress.Code, r
		case *kmsg.DescribeConfigsRequest:
			r := req.ResponseKind().(*kmsg.DescribeConfigsResponse)
			for _, of := range req.Resources {
				one := kmsg.NewDescribeConfigsResponseResource()
				one.ResourceType, one.ResourceName, one.ErrorCode = of.ResourceType, of.ResourceName, kerr.RequestTimedOut.Code
				r.Resources = append(r.Resources, one)
			}
			resp = r
		case *kmsg.DeleteRecordsRequest:
			r := req.ResponseKind().(*kmsg.DeleteRecordsResponse)
			for _, rt := range req.Topics {
				st := kmsg.NewDeleteRecordsResponseTopic()
				st.Topic = rt.Topic
				for _, rp := range rt.Partitions {
					sp := kmsg.NewDeleteRecordsResponseTopicPartition()
					sp.Partition, sp.ErrorCode = rp.Partition, kerr.NotLeaderForPartition.Code
					st.Partitions = append(st.Partitions, sp)
				}
				r.Topics = append(r.Topics, st)
			}
			resp = r
		}
		return resp, nil, on.Load()
	})
}

// Brokers that take 400 ms for each answer, and know thousands of groups, are asked for as long as it takes, which is longer than one answer may take at most.
func TestSimTrimSlow(t *testing.T) {
	scenario(t, worldConfig{tune: func(cfg *Config) { cfg.TrimInterval = 5 * time.Second }}, func(w *world) {
		w.set("retention.ms", "-1")
		for i := range 7000 {
			var o kadm.Offsets
			o.AddOffset("orders", 0, 0, -1)
			if err := kadm.NewClient(w.client).CommitAllOffsets(context.Background(), fmt.Sprint("reader-", i), o); err != nil {
				w.fail("commit: %v", err)
			}
		}
		a := w.live("a")
		defer a.link.slows(400*time.Millisecond, "")()
		for i := range 50 {
			w.send(request(fmt.Sprint(i), in(time.Second)))
		}
		w.within(3*time.Minute, "trimmed", func() bool { return a.p.Stats().Topics[0].Trimmed >= 50 && a.untrimmed() == "" })
		w.finish()
	})
}

// That nothing is told of a topic's settings is said, and what they have become meanwhile when they are.
func TestSimSettingsUnseen(t *testing.T) {
	scenario(t, worldConfig{}, func(w *world) {
		a := w.live("a")
		topic := func() TopicStats { return a.p.Stats().Topics[0] }
		var no atomic.Bool
		failing(w, kmsg.DescribeConfigs, &no)
		time.Sleep(retention.Unsaid)
		if topic().Unseen != "" {
			t.Errorf("it says at once %q", topic().Unseen)
		}
		w.within(2*retention.LookInterval, "it is said", func() bool { return strings.Contains(topic().Unseen, "REQUEST_TIMED_OUT") })
		w.set("cleanup.policy", "compact")
		no.Store(false)
		w.within(2*retention.LookInterval, "it is seen", func() bool {
			return topic().Unseen == "" && strings.Contains(topic().Trouble, "cleanup.policy is compact")
		})
		w.set("cleanup.policy", "delete")
		w.within(2*retention.LookInterval, "it is mended", func() bool { return topic().Trouble == "" })
		w.finish()
	})
}

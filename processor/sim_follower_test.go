//go:build synctests

package processor

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/duewheel/duewheel/processor/kafka"
)

// rackReplica is a replica of the delay topic's only partition that readers of its rack are sent to (KIP-392).
type rackReplica struct {
	w       *world
	node    int32
	inSync  atomic.Bool // its leader sends readers there
	stopped atomic.Bool // it replicates no more, and answers
	sent    atomic.Int64
	asked   atomic.Int64
}

const followerRack = "rack"

func (w *world) rackReplica() *rackReplica {
	f := &rackReplica{w: w, node: 1 - w.cluster.LeaderFor(simTopic, 0)}
	f.inSync.Store(true)
	w.cluster.SetFollowers(simTopic, 0, []int32{f.node})
	w.cluster.ControlKey(int16(kmsg.Fetch), f.answer)
	return f
}

func (f *rackReplica) answer(kreq kmsg.Request) (kmsg.Response, error, bool) {
	f.w.cluster.KeepControl()
	req := kreq.(*kmsg.FetchRequest)
	resp := req.ResponseKind().(*kmsg.FetchResponse)
	resp.SessionID = req.SessionID
	preferred := int32(-1)
	switch here := f.w.cluster.CurrentNode() == f.node; {
	case req.Rack != followerRack:
		return nil, nil, false
	case here:
		f.asked.Add(1)
		if !f.stopped.Load() {
			return nil, nil, false
		}
		f.w.cluster.SleepControl(func() { time.Sleep(kafka.FetchMaxWait) })
	case f.inSync.Load():
		f.sent.Add(1)
		preferred = f.node
	default:
		return nil, nil, false
	}
	for _, t := range req.Topics {
		rt := kmsg.NewFetchResponseTopic()
		rt.Topic, rt.TopicID = t.Topic, t.TopicID
		for _, p := range t.Partitions {
			rp := kmsg.NewFetchResponseTopicPartition()
			rp.Partition, rp.PreferredReadReplica = p.Partition, preferred
			rp.HighWatermark, rp.LastStableOffset = p.FetchOffset, p.FetchOffset
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp, nil, true
}

// A follower that has stopped replicating, and answers, is noticed while its leader takes it for one in sync, and left soon after it does not.
func TestSimFollowerStops(t *testing.T) {
	scenario(t, worldConfig{brokers: 2, late: time.Hour, tune: func(c *Config) { c.Client = append(c.Client, kgo.Rack(followerRack)) }}, func(w *world) {
		f := w.rackReplica()
		a := w.live("a")
		w.send(request("by the follower", in(0)))
		w.until("it is read", func() bool { return w.outstanding() == 0 })
		if f.sent.Load() == 0 || f.asked.Load() == 0 {
			t.Fatalf("the reader was sent there %d times, and has asked %d times", f.sent.Load(), f.asked.Load())
		}
		f.stopped.Store(true)
		time.Sleep(time.Second) // a fetch that is under way has what it has
		w.send(request("not there", in(0)))
		w.within(time.Minute, "not ready", func() bool {
			ready, why := a.p.Ready()
			return !ready && strings.Contains(why[0].Error, "nothing has come for")
		})
		if w.outstanding() == 0 {
			t.Error("the follower has what it has not replicated")
		}
		time.Sleep(10 * session)
		if n := strings.Count(w.history(), "not read although its log goes on"); n != 1 {
			t.Errorf("%d lines in the log tell of it", n)
		}
		f.inSync.Store(false)
		w.within(kafka.FollowerRecheck+time.Second, "read from the leader", func() bool { return w.outstanding() == 0 })
		w.within(time.Second, "ready", func() bool { ready, _ := a.p.Ready(); return ready })
		w.finish()
	})
}

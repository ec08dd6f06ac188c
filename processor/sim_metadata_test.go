//go:build synctests

package processor

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/state"
)

// to sets the partition of a request.
func to(partition int32, r *kgo.Record) *kgo.Record {
	r.Partition = partition
	return r
}

// stopped says why a process has stopped a partition; empty: it has not.
func (p *process) stopped(partition int32) string {
	for _, s := range p.p.Stats().Partitions {
		if s.Topic == simTopic && s.Partition == partition && s.Phase == PhaseStopped {
			return s.Error
		}
	}
	return ""
}

// A coordinator that refuses the checkpoint of one partition holds up no other one, neither in a
// turn that has both nor in a restore.
func TestSimOnePartitionRefused(t *testing.T) {
	for _, e := range []*kerr.Error{kerr.OffsetMetadataTooLarge, kerr.InvalidCommitOffsetSize, kerr.TopicAuthorizationFailed} {
		t.Run(e.Message, func(t *testing.T) {
			scenario(t, worldConfig{partitions: 2}, func(w *world) {
				a := w.live("a")
				h := w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.TxnOffsetCommit, kmsg.OffsetCommit}, Topic: simTopic, Partitions: []int32{0}, Err: e, Count: -1})
				due := in(time.Second)
				w.send(to(0, request("refused", due)), to(1, request("other", due)))
				w.within(2*time.Second, "the other one is delivered", func() bool { return w.watch.Counts().Delivered == 1 })
				w.within(time.Second, "it is said why partition 0 is stopped", func() bool { return strings.Contains(a.stopped(0), e.Message) })
				for range 100 {
					w.send(to(1, request("more", in(0))))
					time.Sleep(50 * time.Millisecond)
				}
				if n := a.p.Stats().Transactions["aborted"]; n < 1 || n > 2 {
					t.Errorf("%d turns were given up", n)
				}
				a.kill()
				b := w.start("b", nil)
				w.within(soonEnough, "the other one is live elsewhere", func() bool { return b.live(1) })
				w.send(to(1, request("last", in(0))))
				w.within(time.Second, "and delivers", func() bool { return w.outstanding() == 1 })
				w.within(time.Second, "it is said why partition 0 is stopped", func() bool { return strings.Contains(b.stopped(0), e.Message) })
				h.Remove()
				w.within(stoppedRetry+5*time.Second, "all are delivered", func() bool { return w.outstanding() == 0 })
				w.finish()
			})
		})
	}
}

// A checkpoint that has no room to grow, which a person or a tool has written, stops its partition
// with the reason, and nothing else.
func TestSimCheckpointWithoutRoom(t *testing.T) {
	guarantees(t, worldConfig{partitions: 2}, func(w *world) {
		const offset = 400
		for i := range offset {
			w.client.Produce(context.Background(), to(0, &kgo.Record{Topic: simTopic, Value: []byte(fmt.Sprint("not a request ", i))}), nil)
		}
		w.client.Flush(context.Background())
		id := kafka.TopicID(w.cluster.TopicInfo(simTopic).TopicID).Short()
		md := fmt.Sprintf("dw1 t=%x w=0:0 l=0 x=%s-old-0 c=0:p1", id, simGroup)
		for from := 1; len(md) < state.MaxMetadata-20; from++ {
			md += fmt.Sprintf(";%d:p1", from)
		}
		if _, err := state.ParseCheckpoint(offset, state.NoEpoch, md); err != nil {
			t.Fatal(err)
		}
		os := kadm.Offsets{}
		os.Add(kadm.Offset{Topic: simTopic, Partition: 0, At: offset, LeaderEpoch: -1, Metadata: md})
		if resp, err := kadm.NewClient(w.client).CommitOffsets(context.Background(), simGroup, os); err != nil || resp.Error() != nil {
			t.Fatal(err, resp.Error())
		}
		a := w.start("a", nil)
		w.within(soonEnough, "the other one is live", func() bool { return a.live(1) && a.stopped(0) != "" })
		if why := a.stopped(0); !strings.Contains(why, "parser configurations") {
			t.Errorf("it is stopped: %s", why)
		}
		w.send(to(1, request("k", in(0))))
		w.within(2*time.Second, "delivered", func() bool { return w.watch.Counts().Delivered == 1 })
		if c, _ := w.checkpoint(0); c.Offset != offset || c.Writer != simGroup+"-old-0" {
			t.Errorf("the checkpoint was changed: %+v", c)
		}
		a.shut()
	})
}

// A lane with so many partitions, or so long checkpoints, that they do not fit into one request of
// what a coordinator writes, commits them all the same: in turns, alone, and when it claims them.
func TestSimManyLongCheckpoints(t *testing.T) {
	const partitions = 300
	guarantees(t, worldConfig{partitions: partitions}, func(w *world) {
		id := kafka.TopicID(w.cluster.TopicInfo(simTopic).TopicID).Short()
		md := fmt.Sprintf("dw1 t=%x w=0:0 l=0 x=%s-old-0 c=0:p1", id, simGroup)
		for from := 1; len(md) < 2000; from++ {
			md += fmt.Sprintf(";%d:p1", from)
		}
		os := kadm.Offsets{}
		for p := range int32(partitions) {
			os.Add(kadm.Offset{Topic: simTopic, Partition: p, At: 0, LeaderEpoch: -1, Metadata: md})
		}
		if resp, err := kadm.NewClient(w.client).CommitOffsets(context.Background(), simGroup, os); err != nil || resp.Error() != nil {
			t.Fatal(err, resp.Error())
		}
		largest := map[kmsg.Key]int{} // request by kind, in bytes
		for _, key := range []kmsg.Key{kmsg.OffsetCommit, kmsg.TxnOffsetCommit} {
			w.cluster.ControlKey(int16(key), func(req kmsg.Request) (kmsg.Response, error, bool) {
				w.cluster.KeepControl()
				n := len(req.AppendTo(nil))
				if largest[key] = max(largest[key], n); n > kafka.CommitBytes {
					t.Errorf("%s of %d bytes", key.Name(), n)
				}
				return nil, nil, false
			})
		}
		a := w.live("a")
		due := in(time.Second)
		for p := range int32(partitions) {
			w.send(to(p, request(fmt.Sprint(p), due)))
		}
		w.within(10*time.Second, "delivered", func() bool { return w.outstanding() == 0 })
		w.within(10*time.Second, "committed", func() bool {
			for p := range int32(partitions) {
				if c, _ := w.checkpoint(p); c.Offset == 0 || c.Watermark.Due == 0 {
					return false
				}
			}
			return true
		})
		a.shut()
		for key, n := range largest {
			if n < kafka.CommitBytes*9/10 {
				t.Errorf("no %s was cut: the largest has %d bytes", key.Name(), n)
			}
		}
		if len(largest) == 0 {
			t.Error("nothing was committed")
		}
		if n := w.watch.Counts(); n.Faults > 0 || n.Delivered != partitions { // a line in the log for each partition is no fault here
			t.Error(w.watch.Report())
		}
	})
}

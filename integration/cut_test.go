package integration

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/duewheel/duewheel/integration/brokers"
	"github.com/duewheel/duewheel/processor"
	"github.com/duewheel/duewheel/topics"
)

// The last replica of a delay topic dies, and one that lags becomes its leader: the log has lost its end, and is written on. What is written there is not
// taken for what was lost, whether a processor runs meanwhile or not: the partition stops, and with accept_loss it goes on from where the log was cut.
func logLosesItsEnd(t *testing.T, c *brokers.Cluster) {
	for name, runs := range map[string]bool{"while it is not read": false, "while it is read": true} {
		t.Run(name, func(t *testing.T) {
			delay := newDelay(t, c, 1, 2)
			s := newTenant(t, c, setting{topic: delay.topic})
			delay.to = s.targets[0]
			p := s.start(s.replica())
			s.awaitLive(p, 1)
			delay.write(0, 10) // seen by both
			s.awaitTarget(10)
			s.awaitInSync()
			if err := c.Node(2).Stop(t.Context()); err != nil {
				t.Fatal(err)
			}
			delay.write(10, 5) // by one alone
			s.awaitTarget(15)
			s.awaitCheckpoint(15)
			if !runs {
				p.stop()
			}
			if err := c.Node(1).Kill(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := c.Node(2).Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			delay.elect(2)
			delay.write(15, 20) // where the others have been, and beyond
			if !runs {
				p = s.start(s.replica())
			}
			s.awaitStopped(p)
			s.says("the log has lost what lay from 10 on", "checkpoints")
			p.stop()
			p = s.start(s.replica(func(c *replicaConfig) { c.AcceptLoss = true }))
			s.awaitTarget(35)
			p.stop()
			if err := c.Node(1).Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			s.awaitInSync()
		})
	}
}

// A log loses its end while a processor runs that may go on. L goes back, and what is written from there on is pending at offsets that L was beyond when it was
// looked at for trimming: none of that is deleted.
func logLosesItsEndAndIsTrimmed(t *testing.T, c *brokers.Cluster) {
	const interval = 20 * time.Second
	delay := newDelay(t, c, 1, 2)
	s := newTenant(t, c, setting{topic: delay.topic})
	delay.to = s.targets[0]
	trim, began := true, time.Now()
	p := s.start(s.replica(func(c *replicaConfig) { c.AcceptLoss, c.TrimInterval, c.Routes[0].Trim = true, interval, &trim }))
	s.awaitLive(p, 1)
	delay.write(0, 10) // seen by both
	s.awaitTarget(10)
	s.awaitInSync()
	if err := c.Node(2).Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	delay.write(10, 15) // by one alone
	s.awaitTarget(25)
	s.awaitCheckpoint(25)
	time.Sleep(time.Until(began.Add(interval + 4*time.Second))) // it is looked at
	if err := c.Node(1).Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.Node(2).Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	delay.elect(2)
	delay.writeDue(time.Now().Add(time.Hour), 100, 30)
	start := func() int64 {
		all, _ := kadm.NewClient(delay.cl).ListStartOffsets(t.Context(), delay.topic)
		of, _ := all.Lookup(delay.topic, 0)
		return of.Offset
	}
	eventually(t, func() string {
		if start() <= 0 {
			return "the log to be trimmed"
		}
		return ""
	})
	if at := start(); at != 10 {
		t.Errorf("the log begins at %d, and what lies from 10 on is pending", at)
	}
	p.stop()
	if err := c.Node(1).Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.awaitInSync()
}

// says runs a command, and fails if its answer lacks something.
func (s *tenant) says(what string, args ...string) {
	s.t.Helper()
	args = append(args, "-b", strings.Join(s.cluster.Addrs(), ","), "-g", s.name)
	out, _ := exec.CommandContext(s.t.Context(), buildBinary(s.t), args...).CombinedOutput()
	if !strings.Contains(string(out), what) {
		s.t.Errorf("%v does not say %q:\n%s", args, what, out)
	}
}

// awaitStopped waits until a partition is stopped because its log has lost what was accepted.
func (s *tenant) awaitStopped(p *running) {
	s.t.Helper()
	eventually(s.t, func() string {
		for _, of := range p.Stats().Partitions {
			if of.Phase == processor.PhaseStopped && strings.HasPrefix(of.Error, processor.ErrBeyondLog.Error()) {
				return ""
			}
		}
		return fmt.Sprintf("no partition is stopped: %+v", p.Stats().Partitions)
	})
}

// delay is a delay topic of one partition, with replicas that may be elected although they lag.
type delay struct {
	t     *testing.T
	cl    *kgo.Client
	topic string
	to    string // the target of what is written
	into  int32  // the partition that it is written to
}

func newDelay(t *testing.T, c *brokers.Cluster, replicas ...int32) *delay {
	t.Helper()
	d := &delay{t: t, topic: "cut-" + strconv.FormatInt(time.Now().UnixNano(), 36)}
	var err error
	if d.cl, err = kgo.NewClient(append(c.Opts(brokers.Plain), kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite())...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.cl.Close)
	req := kmsg.NewPtrCreateTopicsRequest()
	rt := kmsg.NewCreateTopicsRequestTopic()
	rt.Topic, rt.NumPartitions, rt.ReplicationFactor = d.topic, -1, -1
	rt.ReplicaAssignment = append(rt.ReplicaAssignment, kmsg.CreateTopicsRequestTopicReplicaAssignment{Partition: 0, Replicas: replicas})
	config := kmsg.NewCreateTopicsRequestTopicConfig()
	config.Name, config.Value = "min.insync.replicas", kmsg.StringPtr("1")
	rt.Configs = append(rt.Configs, config)
	req.Topics = append(req.Topics, rt)
	resp, err := req.RequestWith(t.Context(), d.cl)
	if err != nil || resp.Topics[0].ErrorCode != 0 {
		t.Fatal(err, resp)
	}
	return d
}

// write writes requests that are due at once, each with its number as value.
func (d *delay) write(first, n int) {
	d.t.Helper()
	d.writeDue(time.Now(), first, n)
}

func (d *delay) writeDue(due time.Time, first, n int) {
	d.t.Helper()
	var rs []*kgo.Record
	for i := range n {
		rs = append(rs, &kgo.Record{Topic: d.topic, Partition: d.into, Value: strconv.AppendInt(nil, int64(first+i), 10),
			Headers: []kgo.RecordHeader{{Key: topics.HeaderUntil, Value: strconv.AppendInt(nil, due.UnixMilli(), 10)}, {Key: topics.HeaderTargetTopic, Value: []byte(d.to)}}})
	}
	if err := d.cl.ProduceSync(d.t.Context(), rs...).FirstErr(); err != nil {
		d.t.Fatal(err)
	}
}

// elect makes the replica on a node the leader, whatever it lacks; no other is there.
func (d *delay) elect(node int32) {
	d.t.Helper()
	eventually(d.t, func() string {
		set := kadm.TopicsSet{}
		set.Add(d.topic, 0)
		got, err := kadm.NewClient(d.cl).ElectLeaders(d.t.Context(), kadm.ElectLiveReplica, set)
		md, failed := kadm.NewClient(d.cl).Metadata(d.t.Context(), d.topic)
		if failed != nil || md.Topics[d.topic].Partitions[0].Leader != node {
			return fmt.Sprintf("%d is not the leader: %v, %v", node, errors.Join(err, failed), got)
		}
		return ""
	})
}

// awaitCheckpoint waits until O is at an offset.
func (s *tenant) awaitCheckpoint(offset int64) {
	s.t.Helper()
	eventually(s.t, func() string {
		got, err := s.admin.FetchOffsets(s.t.Context(), s.name)
		if o, _ := got.Lookup(s.route.Topic, 0); err != nil || o.At != offset {
			return fmt.Sprintf("O is %d, want %d: %v", o.At, offset, err)
		}
		return ""
	})
}

// awaitTarget waits until the first target has the records up to a number, each once.
func (s *tenant) awaitTarget(n int) {
	s.t.Helper()
	cl, err := kgo.NewClient(append(s.opts(), kgo.ConsumeTopics(s.targets[0]), kgo.FetchIsolationLevel(kgo.ReadCommitted()))...)
	if err != nil {
		s.t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(s.t.Context(), s.patience)
	defer cancel()
	var got []int
	for ctx.Err() == nil && len(got) < n {
		cl.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
			number, _ := strconv.Atoi(string(r.Value))
			got = append(got, number)
		})
	}
	slices.Sort(got)
	if distinct := slices.Compact(slices.Clone(got)); len(got) != n || len(distinct) != n {
		s.t.Errorf("%d records in the target, want %d, each once: %v", len(got), n, got)
	}
}

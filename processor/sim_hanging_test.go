//go:build synctests

package processor

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// hang leaves a transaction open that may change a checkpoint, of a producer that no owner knows.
func (w *world) hang(partition int32) (end func()) {
	w.t.Helper()
	ctx := context.Background()
	cl, err := kgo.NewClient(append(w.outside, kgo.TransactionalID("hangs"), kgo.TransactionTimeout(10*time.Minute))...)
	defer cl.Close()
	if err != nil {
		w.fail("%v", err)
	}
	if err := cl.BeginTransaction(); err != nil {
		w.fail("%v", err)
	}
	id, epoch, err := cl.ProducerID(ctx)
	if err != nil {
		w.fail("%v", err)
	}
	c, _ := w.checkpoint(partition)
	metadata, err := c.Metadata()
	if err != nil {
		w.fail("%v", err)
	}
	add := kmsg.NewPtrAddOffsetsToTxnRequest()
	add.TransactionalID, add.ProducerID, add.ProducerEpoch, add.Group = "hangs", id, epoch, "g"
	if r, err := add.RequestWith(ctx, cl); err != nil || r.ErrorCode != 0 {
		w.fail("%v %v", err, r)
	}
	commit := kmsg.NewPtrTxnOffsetCommitRequest()
	commit.TransactionalID, commit.ProducerID, commit.ProducerEpoch, commit.Group, commit.Generation = "hangs", id, epoch, "g", -1
	of, p := kmsg.NewTxnOffsetCommitRequestTopic(), kmsg.NewTxnOffsetCommitRequestTopicPartition()
	p.Partition, p.Offset, p.LeaderEpoch, p.Metadata = partition, c.Offset, c.Epoch, &metadata
	of.Topic, of.TopicID, of.Partitions = simTopic, w.cluster.TopicInfo(simTopic).TopicID, append(of.Partitions, p)
	commit.Topics = append(commit.Topics, of)
	if r, err := commit.RequestWith(ctx, cl); err != nil || kerr.ErrorForCode(r.Topics[0].Partitions[0].ErrorCode) != nil {
		w.fail("%v %v", err, r)
	}
	return func() {
		w.t.Helper()
		end := kmsg.NewPtrEndTxnRequest()
		end.TransactionalID, end.ProducerID, end.ProducerEpoch = "hangs", id, epoch
		if r, err := end.RequestWith(ctx, w.client); err != nil || r.ErrorCode != 0 {
			w.fail("%v %v", err, r)
		}
	}
}

// A takeover that waits for a checkpoint which an open transaction may change carries nothing: that it is behind is said in time, and why, as of a partition that is live. Before it has lasted
// for a session nothing is asked for that.
func TestSimHangingTransactionIsBehind(t *testing.T) {
	const keeps = 40 * time.Second
	guarantees(t, worldConfig{late: time.Hour}, func(w *world) {
		w.set("retention.ms", fmt.Sprint(keeps.Milliseconds()))
		a := w.live("a")
		w.send(request("far", in(3*keeps)))
		w.committed(1)
		a.kill()
		end := w.hang(0)
		b := w.start("b", nil)
		of := func() (s PartitionStats) {
			if all := b.p.Stats().Partitions; len(all) > 0 {
				s = all[0]
			}
			return s
		}
		w.within(2*session, "its successor waits", func() bool { return strings.Contains(of().Reason, "held by an open transaction") })
		time.Sleep(keeps/2 - 5*time.Second)
		equal(t, "said soon", of().CarryBehind, "")
		w.within(keeps/4+keeps/10, "it is said", func() bool { return of().CarryBehind != "" })
		s := of()
		equal(t, "phase", s.Phase, PhaseRestoring)
		for _, part := range []string{"what is pending from offset 0 on is older than three quarters", "nothing is carried before the partition is live", "an open transaction"} {
			if !strings.Contains(s.CarryBehind, part) {
				t.Errorf("not a word of %q in: %s", part, s.CarryBehind)
			}
		}
		if !strings.Contains(w.history(), "carrying is behind") {
			t.Error("the log does not tell of it")
		}
		ready, not := b.p.Ready()
		if ready || len(not) != 1 || not[0].Error != s.CarryBehind {
			t.Errorf("ready: %v, %+v", ready, not)
		}
		end()
		w.within(2*session, "live", func() bool { return b.live(1) })
		w.within(keeps/4, "it is not behind", func() bool { return of().CarryBehind == "" })
		w.ages(keeps, 3*keeps)
		w.arrived()
		w.finish()
	})
}

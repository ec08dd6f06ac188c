//go:build synctests

package processor

import (
	"encoding/binary"
	"reflect"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// kfake refuses a stable fetch for a whole group as soon as any of its partitions has an offset
// in an open transaction, where Kafka refuses it partition by partition (KIP-447). The design
// depends on the difference: a lane must not fence healthy writers. So a stable fetch is made an
// unstable one before kfake sees it, with the numbers of those partitions marked that Kafka
// would refuse; kfake knows no such partition and answers that nothing is committed there; and
// on the way back the mark becomes the error.

const unstableMark = 1 << 24

// answerPartitionByPartition makes c answer OffsetFetch as Kafka does.
func answerPartitionByPartition(c *kfake.Cluster) {
	c.ControlKey(int16(kmsg.OffsetFetch), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		req := kreq.(*kmsg.OffsetFetchRequest)
		if !req.RequireStable {
			return nil, nil, false
		}
		req.RequireStable = false
		for _, g := range req.Groups {
			open := openOffsets(c, g.Group)
			for _, t := range g.Topics {
				topic := t.Topic
				if topic == "" {
					topic = c.TopicIDInfo(t.TopicID).Topic
				}
				for i, p := range t.Partitions {
					if open[topicPartition{topic, p}] {
						t.Partitions[i] = p | unstableMark
					}
				}
			}
		}
		return nil, nil, false
	})
}

// unstableAnswers turns marks into errors.
func unstableAnswers(f *frame, b []byte) []byte {
	resp := f.request().ResponseKind().(*kmsg.OffsetFetchResponse)
	head := 8
	if resp.IsFlexible() {
		head++
	}
	if err := resp.ReadFrom(b[head:]); err != nil {
		panic(err)
	}
	for _, g := range resp.Groups {
		for _, t := range g.Topics {
			for i := range t.Partitions {
				if p := &t.Partitions[i]; p.Partition&unstableMark != 0 {
					p.Partition &^= unstableMark
					p.ErrorCode, p.Offset = kerr.UnstableOffsetCommit.Code, -1
				}
			}
		}
	}
	b = resp.AppendTo(b[:head:head])
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

// openOffsets looks into kfake for the partitions of a group that open transactions have
// committed offsets of. It must be called by a control function, while kfake stands still.
func openOffsets(c *kfake.Cluster, group string) map[topicPartition]bool {
	open := map[topicPartition]bool{}
	txs := reflect.ValueOf(c).Elem().FieldByName("pids").FieldByName("txs")
	for _, tx := range txs.MapKeys() {
		topics := tx.Elem().FieldByName("txOffsets").MapIndex(reflect.ValueOf(group))
		if !topics.IsValid() {
			continue
		}
		for _, topic := range topics.MapKeys() {
			for _, p := range topics.MapIndex(topic).MapKeys() {
				open[topicPartition{topic.String(), int32(p.Int())}] = true
			}
		}
	}
	return open
}

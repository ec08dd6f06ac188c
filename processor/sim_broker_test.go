//go:build synctests

package processor

import (
	"cmp"
	"context"
	"encoding/binary"
	"hash/crc32"
	"reflect"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/duewheel/duewheel/processor/kafka"
)

// kfake refuses a stable fetch for a whole group as soon as any of its partitions has an offset
// in an open transaction, where Kafka refuses it partition by partition (KIP-447). The design
// depends on the difference: a lane must not fence healthy writers. So a stable fetch is made an
// unstable one before kfake sees it, with the numbers of those partitions marked that Kafka
// would refuse; kfake knows no such partition and answers that nothing is committed there; and
// on the way back the mark becomes the error.

// And kfake never lets the session of a member end whose connection broke while an answer to its
// JoinGroup or SyncGroup was on the way, where Kafka starts the session then. So a member that was not
// heard of for a session is made to leave.

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
					if open[kafka.TopicPartition{Topic: topic, Partition: p}] {
						t.Partitions[i] = p | unstableMark
					}
				}
			}
		}
		return nil, nil, false
	})
}

// countJoining makes c count who waits in a JoinGroup as Kafka does (GroupCoordinator.removeMemberAndUpdateGroup). kfake takes off a
// member whose session ends while it waits in SyncGroup, although that one has been counted already, and no rebalance of the
// group would ever end after that.
func countJoining(c *kfake.Cluster) {
	c.ControlKey(int16(kmsg.JoinGroup), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		name := kreq.(*kmsg.JoinGroupRequest).Group
		group := reflect.ValueOf(c).Elem().FieldByName("groups").FieldByName("gs").MapIndex(reflect.ValueOf(name))
		if !group.IsValid() {
			return nil, nil, false
		}
		joining := group.Elem().FieldByName("nJoining")
		waiting, members := 0, group.Elem().FieldByName("members")
		for _, id := range members.MapKeys() {
			reply := members.MapIndex(id).Elem().FieldByName("waitingReply")
			if reply.IsNil() {
				continue
			}
			if kreq := reply.Elem().FieldByName("kreq"); !kreq.IsNil() && kreq.Elem().Type() == reflect.TypeFor[*kmsg.JoinGroupRequest]() {
				waiting++
			}
		}
		*(*int)(joining.Addr().UnsafePointer()) = waiting
		return nil, nil, false
	})
}

// loseUnreplicated makes c lose what is produced with acks=1, after it was acknowledged: as if the leader had died each time before
// its followers had it.
func loseUnreplicated(c *kfake.Cluster) {
	c.ControlKey(int16(kmsg.Produce), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		req := kreq.(*kmsg.ProduceRequest)
		if req.Acks != 1 {
			return nil, nil, false
		}
		return produced(req, 0, -1), nil, true
	})
}

// appendTimes makes brokers set the timestamps of a topic's records (message.timestamp.type LogAppendTime): those of a batch are
// moved so that the first is the time of its arrival.
func (w *world) appendTimes(topic string) {
	w.cluster.ControlKey(int16(kmsg.Produce), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		w.cluster.KeepControl()
		for _, t := range kreq.(*kmsg.ProduceRequest).Topics {
			if cmp.Or(t.Topic, w.cluster.TopicIDInfo(t.TopicID).Topic) != topic {
				continue
			}
			for _, p := range t.Partitions {
				const crc, attributes, first, last = 17, 21, 27, 35 // where these stand in a batch
				was := binary.BigEndian.Uint64(p.Records[first:])
				now := uint64(time.Now().UnixMilli())
				binary.BigEndian.PutUint64(p.Records[first:], now)
				binary.BigEndian.PutUint64(p.Records[last:], binary.BigEndian.Uint64(p.Records[last:])-was+now)
				binary.BigEndian.PutUint32(p.Records[crc:], crc32.Checksum(p.Records[attributes:], crc32.MakeTable(crc32.Castagnoli)))
			}
		}
		return nil, nil, false
	})
}

// unstableAnswers turns marks into errors.
func unstableAnswers(f *frame, b []byte) []byte {
	return changed(f, b, func(resp *kmsg.OffsetFetchResponse) {
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
	})
}

// changed changes an answer on its way.
func changed[R kmsg.Response](f *frame, b []byte, change func(R)) []byte {
	resp := f.request().ResponseKind().(R)
	head := 8
	if resp.IsFlexible() {
		head++
	}
	if err := resp.ReadFrom(b[head:]); err != nil {
		panic(err)
	}
	change(resp)
	b = resp.AppendTo(b[:head:head])
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

// setClock sets the clock of a broker: what it says of when transactions began.
func (w *world) setClock(broker int, skew time.Duration) {
	w.note("---- the clock of broker %d is %v ahead", broker, skew)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.clocks == nil {
		w.clocks = map[string]time.Duration{}
	}
	w.clocks[w.cluster.ListenAddrs()[broker]] = skew
}

// byClockOf makes an answer that of a broker whose clock is off.
func (w *world) byClockOf(address string, f *frame, b []byte) []byte {
	w.mu.Lock()
	skew := w.clocks[address]
	w.mu.Unlock()
	if skew == 0 {
		return b
	}
	return changed(f, b, func(resp *kmsg.DescribeTransactionsResponse) {
		for i := range resp.TransactionStates {
			resp.TransactionStates[i].StartTimestamp += skew.Milliseconds()
		}
	})
}

// epochsOfEmptied says of a log of which all is cut that an epoch ended where the log does. kfake says that it ended at 0, and so
// that records are lost; Kafka keeps the start of the newest epoch (LeaderEpochFileCache.truncateFromStart).
func (w *world) epochsOfEmptied(f *frame, b []byte) []byte {
	return changed(f, b, func(resp *kmsg.OffsetForLeaderEpochResponse) {
		for _, t := range resp.Topics {
			for i := range t.Partitions {
				p := &t.Partitions[i]
				info := w.cluster.PartitionInfo(t.Topic, p.Partition)
				if p.ErrorCode == 0 && info != nil && p.EndOffset >= 0 && p.EndOffset < info.LogStartOffset {
					p.EndOffset = info.LogStartOffset
				}
			}
		}
	})
}

// openOffsets looks into kfake for the partitions of a group that open transactions have
// committed offsets of. It must be called by a control function, while kfake stands still.
func openOffsets(c *kfake.Cluster, group string) map[kafka.TopicPartition]bool {
	open := map[kafka.TopicPartition]bool{}
	txs := reflect.ValueOf(c).Elem().FieldByName("pids").FieldByName("txs")
	for _, tx := range txs.MapKeys() {
		topics := tx.Elem().FieldByName("txOffsets").MapIndex(reflect.ValueOf(group))
		if !topics.IsValid() {
			continue
		}
		for _, topic := range topics.MapKeys() {
			for _, p := range topics.MapIndex(topic).MapKeys() {
				open[kafka.TopicPartition{Topic: topic.String(), Partition: int32(p.Int())}] = true
			}
		}
	}
	return open
}

// heard is when the coordinator last heard of each member.
type heard struct {
	mu   sync.Mutex
	last map[string]time.Time
	on   map[string]*wire         // where a member waits for an answer to its JoinGroup or SyncGroup
	ends map[string]time.Duration // the session that each has asked for
}

// note takes in a request that is about to be delivered, or the end of it.
func (h *heard) note(f *frame, w *wire, answered bool) {
	var id string
	var ends time.Duration
	switch f.key {
	case kmsg.JoinGroup:
		req := f.request().(*kmsg.JoinGroupRequest)
		id, ends = req.MemberID, time.Duration(req.SessionTimeoutMillis)*time.Millisecond
	case kmsg.SyncGroup:
		id = f.request().(*kmsg.SyncGroupRequest).MemberID
	case kmsg.Heartbeat:
		id = f.request().(*kmsg.HeartbeatRequest).MemberID
	default:
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last[id] = time.Now()
	if ends > 0 {
		h.ends[id] = ends
	}
	if h.on[id] = w; answered || f.key == kmsg.Heartbeat {
		h.on[id] = nil
	}
}

// silent reports whether a member was not heard of for its session.
func (h *heard) silent(id string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if w := h.on[id]; w != nil && !w.isCut() {
		return false
	}
	ends := cmp.Or(h.ends[id], session)
	return time.Since(h.last[id]) > ends+session/4
}

// endSessions makes members leave that kfake has forgotten to expire, until stop is closed.
func (w *world) endSessions(stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(session / 4):
		}
		for _, group := range []string{simGroup, simRival} {
			if info := w.cluster.GroupInfo(group); info != nil {
				w.endSilent(info)
			}
		}
	}
}

func (w *world) endSilent(info *kfake.GroupInfo) {
	for _, m := range info.Members {
		if !w.heard.silent(m.MemberID) {
			continue
		}
		req := kmsg.NewPtrLeaveGroupRequest()
		req.Group = info.Group
		req.Members = []kmsg.LeaveGroupRequestMember{{MemberID: m.MemberID}}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		req.RequestWith(ctx, w.client) // else next time
		cancel()
	}
}

// refuse makes the next n requests of a kind fail because of the member's generation.
func (w *world) refuse(key kmsg.Key, n int) *kfake.FaultHandle {
	return w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{key}, Err: kerr.IllegalGeneration, Count: n})
}

// expel throws the member out that has partition 0.
func (w *world) expel() {
	for _, m := range w.cluster.GroupInfo(w.group).Members {
		if len(m.Assignment[simTopic]) > 0 {
			w.note("---- %s is expelled", m.MemberID)
			req := kmsg.NewPtrLeaveGroupRequest()
			req.Group = w.group
			req.Members = []kmsg.LeaveGroupRequestMember{{MemberID: m.MemberID}}
			req.RequestWith(context.Background(), w.client)
		}
	}
}

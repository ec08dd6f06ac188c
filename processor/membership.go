package processor

import (
	"github.com/duewheel/duewheel/processor/assignor"
	"github.com/duewheel/duewheel/processor/kafka"
)

// membership is the lane's stay in its group.
type membership interface {
	Member() kafka.Member
	Rebalance()
	Leave()
	Left() <-chan struct{}
}

// holdsAlone are the lane's partitions whose logs have lost what is pending: no other process could deliver it.
func (k *kit) holdsAlone() []kafka.TopicPartition {
	if alone := k.alone.Load(); alone != nil {
		return *alone
	}
	return nil
}

// holds is up to which offset this process's store knows the partitions of the group.
func (k *kit) holds() map[assignor.Stored]int64 {
	store := k.store.Opened()
	if store == nil {
		return nil
	}
	out := map[assignor.Stored]int64{}
	for id, pos := range store.Positions() {
		if id.Group == k.cfg.Identity {
			out[assignor.Stored{TP: kafka.TopicPartition{Topic: id.Topic, Partition: id.Partition}, ID: id.TopicID}] = min(pos.Resume, pos.Offset)
		}
	}
	return out
}

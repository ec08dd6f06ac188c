package local

import (
	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/state"
)

// PartitionUnlessOurs opens a partition's part of the store; nil: a lane has the partition. A lane that gets it at the same time
// opens it afterwards, which ends this handle.
func (s *Store) PartitionUnlessOurs(id state.PartitionID) (part *state.Partition, err error) {
	if !s.Works() {
		return nil, ErrNoStore // what opens it again would hold up the lanes here
	}
	_, err = s.assigned.Unless(nameOf(id), func() (err error) {
		part, err = s.Partition(id)
		return err
	})
	return part, err
}

// removeUnlessOurs removes a part of the store. The error is ErrNoStore when the store does not work, and when a lane here has been given the
// partition meanwhile: then it is left alone.
func (s *Store) removeUnlessOurs(id state.PartitionID) error {
	remove := func() error {
		store := s.opened.Load()
		if store == nil {
			return ErrNoStore
		}
		return store.Remove(id)
	}
	if id.Group != s.identity { // which no lane here has
		return remove()
	}
	if done, err := s.assigned.Unless(nameOf(id), remove); done {
		return err
	}
	return ErrNoStore
}

// nameOf is the name of the partition that a part is of.
func nameOf(id state.PartitionID) kafka.TopicPartition {
	return kafka.TopicPartition{Topic: id.Topic, Partition: id.Partition}
}

package processor

import "github.com/duewheel/duewheel/processor/kafka"

// What everything here speaks of, by its name in package kafka.
type (
	topicPartition = kafka.TopicPartition
	topicID        = kafka.TopicID
)

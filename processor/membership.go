package processor

import "github.com/duewheel/duewheel/processor/kafka"

// membership is the lane's stay in its group.
type membership interface {
	Member() kafka.Member
	Rebalance()
	Leave()
	Left() <-chan struct{}
}

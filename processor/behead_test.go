package processor

import (
	"fmt"
	"testing"

	"github.com/duewheel/duewheel/processor/kafka"
)

// rebalancer is a stay in a group of which is counted how often it is asked for a rebalance.
type rebalancer struct {
	membership
	asked int
}

func (r *rebalancer) Rebalance() { r.asked++ }

// A lane says which partitions it alone can deliver, and has the group share out anew when that is over.
func TestLaneTellsWhatItHoldsAlone(t *testing.T) {
	l := testLane(t)
	group := &rebalancer{}
	l.membership = group
	p := livePartition(t, l)
	for _, c := range []struct {
		loss  error
		alone []kafka.TopicPartition
		asked int
	}{{nil, nil, 0}, {ErrLogTruncated, []kafka.TopicPartition{p.tp}, 0}, {ErrLogTruncated, []kafka.TopicPartition{p.tp}, 0}, {nil, nil, 1}, {nil, nil, 1}} {
		p.loss = c.loss
		beheading{l}.tell()
		equal(t, "held alone", fmt.Sprint(l.holdsAlone()), fmt.Sprint(c.alone))
		equal(t, "rebalances", group.asked, c.asked)
	}
}

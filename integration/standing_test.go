package integration

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// standing says why topics are not read to their ends: which partitions are in a transaction that is open, whose it is, and what its coordinator
// says of it.
func (s *tenant) standing() string {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var says strings.Builder
	ends, err := s.admin.ListEndOffsets(ctx, s.topics()...)
	if err != nil {
		fmt.Fprintf(&says, "end offsets: %v\n", err)
	}
	stable, err := s.admin.ListCommittedOffsets(ctx, s.topics()...)
	if err != nil {
		fmt.Fprintf(&says, "stable offsets: %v\n", err)
	}
	ends.Each(func(end kadm.ListedOffset) {
		if at, ok := stable.Lookup(end.Topic, end.Partition); !ok || at.Err != nil || end.Err != nil || at.Offset < end.Offset {
			fmt.Fprintf(&says, "%s/%d ends at %d (%v) and is stable to %d (%v)\n", end.Topic, end.Partition, end.Offset, end.Err, at.Offset, at.Err)
		}
	})
	set := make(kadm.TopicsSet)
	for _, topic := range s.topics() {
		set.Add(topic)
	}
	producers, err := s.admin.DescribeProducers(ctx, set)
	if err != nil {
		fmt.Fprintf(&says, "producers: %v\n", err)
	}
	for _, p := range producers.SortedProducers() {
		if p.CurrentTxnStartOffset >= 0 {
			fmt.Fprintf(&says, "%s/%d: producer %d, epoch %d, has a transaction open since offset %d, coordinator epoch %d\n",
				p.Topic, p.Partition, p.ProducerID, p.ProducerEpoch, p.CurrentTxnStartOffset, p.CoordinatorEpoch)
		}
	}
	transactions, err := s.admin.DescribeTransactions(ctx)
	if err != nil {
		fmt.Fprintf(&says, "transactions: %v\n", err)
	}
	for _, t := range transactions.Sorted() {
		if t.State != "Empty" && !strings.HasPrefix(t.State, "Complete") {
			fmt.Fprintf(&says, "%s: producer %d, epoch %d, is %s at coordinator %d since %v: %v (%v)\n",
				t.TxnID, t.ProducerID, t.ProducerEpoch, t.State, t.Coordinator, time.UnixMilli(t.StartTimestamp).UTC(), t.Topics, t.Err)
		}
	}
	return says.String()
}

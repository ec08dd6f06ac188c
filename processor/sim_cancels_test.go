//go:build synctests

package processor

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/duewheel/duewheel/topics"
)

// refusedOne is what a coordinator may answer of one partition's checkpoint alone.
var refusedOne = func() (all []badAnswer) {
	for _, e := range []*kerr.Error{kerr.UnknownTopicOrPartition, kerr.CoordinatorLoadInProgress, kerr.OffsetMetadataTooLarge, kerr.InvalidCommitOffsetSize,
		kerr.TopicAuthorizationFailed, kerr.UnknownTopicID, kerr.NotCoordinator, kerr.UnknownServerError} {
		all = append(all, badAnswer{key: kmsg.OffsetCommit, err: e})
	}
	for _, e := range []*kerr.Error{kerr.UnknownTopicOrPartition, kerr.CoordinatorLoadInProgress, kerr.OffsetMetadataTooLarge} {
		all = append(all, badAnswer{key: kmsg.TxnOffsetCommit, err: e})
	}
	return all
}()

// soonAcknowledged is after what time a request that was written has mostly been acknowledged.
const soonAcknowledged = 300 * time.Millisecond

// cancelMany requests n records in each partition for later, and cancels them when they have been acknowledged: turns of cancels alone,
// which write nothing but checkpoints. At the same moment it calls also.
func (r *runner) cancelMany(n int, also func()) {
	var written written
	for i := range int32(n) * r.plan.Partitions {
		r.requests++
		rec := request(fmt.Sprint("cancelled ", r.requests), in(40*time.Second+time.Duration(i)*10*milli))
		rec.Partition = i % r.plan.Partitions
		r.client.Produce(context.Background(), rec, written.add)
	}
	r.after(soonAcknowledged, func() {
		also()
		for _, h := range written.handles() {
			r.client.Produce(context.Background(), cancelling(h), nil)
		}
	})
}

// cancelling is a cancel of what a handle names.
func cancelling(h topics.Handle) *kgo.Record {
	return &kgo.Record{Topic: simTopic, Partition: h.Partition, Headers: []kgo.RecordHeader{{Key: topics.HeaderCancel, Value: []byte(h.String())}}}
}

// refuseOne has the checkpoints of one partition refused while there are many cancels.
func (r *runner) refuseOne(s step) {
	is, one := refusedOne[s.N%len(refusedOne)], int32(s.Who)%r.plan.Partitions
	r.cancelMany(1+r.rng.IntN(30), func() {
		f := kfake.Fault{Keys: []kmsg.Key{is.key}, Topic: simTopic, Partitions: []int32{one}, Err: is.err}
		if s.For > 0 {
			r.fault(s.For, f)
			return
		}
		once := r.cluster.Fault(f)
		r.mend = append(r.mend, once.Remove)
	})
}

// written are requests that were acknowledged.
type written struct {
	mu  sync.Mutex
	all []topics.Handle
}

func (w *written) add(r *kgo.Record, err error) {
	if h, ok := handleOf(r); ok && err == nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.all = append(w.all, h)
	}
}

func (w *written) handles() []topics.Handle {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.all)
}

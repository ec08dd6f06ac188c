//go:build synctests

package processor

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
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

// betweenCancels is how far apart those come that do not come at once.
const betweenCancels = 3 * milli

// cancelMany requests n records in each partition for later, and cancels them when they have been acknowledged: turns of cancels alone,
// which write nothing but checkpoints. At the same moment it calls also. Half of the cancels come one after the other, so that a lane has
// some to take while a turn is under way.
func (r *runner) cancelMany(n int, also func()) {
	var written written
	for i := range int32(n) * r.plan.Partitions {
		r.requests++
		rec := request(fmt.Sprint("cancelled ", r.requests), in(40*time.Second+time.Duration(i)*10*milli))
		rec.Partition = i % r.plan.Partitions
		r.client.Produce(context.Background(), r.prefixed(rec), written.add)
	}
	r.after(soonAcknowledged, func() {
		also()
		all := written.handles()
		for i, h := range all {
			rest := max(i-len(all)/2, 0)
			r.after(time.Duration(rest)*betweenCancels, func() { r.client.Produce(context.Background(), r.prefixed(cancelling(h)), nil) })
		}
	})
}

// cancelling is a cancel of what a handle names.
func cancelling(h topics.Handle) *kgo.Record {
	return &kgo.Record{Topic: simTopic, Partition: h.Partition, Headers: []kgo.RecordHeader{{Key: topics.HeaderCancel, Value: []byte(h.String())}}}
}

// refuseOne has the checkpoints of one partition refused while there are many cancels, and those of others in the same request taken.
// The first answer takes a while.
func (r *runner) refuseOne(s step) {
	is, one := refusedOne[s.N%len(refusedOne)], int32(s.Who)%r.plan.Partitions
	r.cancelMany(8+r.rng.IntN(30), func() {
		answered := make(chan struct{})
		for _, m := range r.slots {
			if m.p != nil {
				m.p.link.on(rule{key: is.key, match: ofSeveral, after: true, wait: answered})
			}
		}
		r.after(50*milli, func() { close(answered) })
		f := kfake.Fault{Keys: []kmsg.Key{is.key}, Group: simGroup, Topic: simTopic, Partitions: []int32{one}, Err: is.err, When: ofSeveral}
		if s.For > 0 {
			r.fault(s.For, f)
			return
		}
		once := r.cluster.Fault(f)
		r.mend = append(r.mend, once.Remove)
	})
}

// ofSeveral reports a commit of more than one partition.
func ofSeveral(req kmsg.Request) bool {
	n := 0
	switch req := req.(type) {
	case *kmsg.OffsetCommitRequest:
		for _, t := range req.Topics {
			n += len(t.Partitions)
		}
	case *kmsg.TxnOffsetCommitRequest:
		for _, t := range req.Topics {
			n += len(t.Partitions)
		}
	}
	return n > 1
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

// A turn that was rendered ahead of a plain commit does not begin where that was refused for one partition: else its checkpoint would go back
// when what was refused is tried again.
func TestSimCancelsRefusedForOnePartition(t *testing.T) {
	for _, batch := range []int{3, 10} {
		t.Run(fmt.Sprint("batches of ", batch), func(t *testing.T) {
			p := plan{Seed: 1, Guarantee: ExactlyOnce, Partitions: 3, Brokers: 1, Processes: 1, Lanes: 1, Batch: batch, Near: 5 * time.Second, Latency: milli, Rate: time.Hour}
			for who := range 3 {
				p.Steps = append(p.Steps, step{After: 3 * time.Second, Op: opRefuseOne, Who: who})
			}
			p.Steps = append(p.Steps, step{After: 5 * time.Second, Op: opSend, N: 1})
			var did tally
			synctest.Test(t, func(t *testing.T) { simulate(t, p, &did) })
			if did.acts[opRefuseOne] != 3 || did.cancels["cancelled"] < 20 {
				t.Errorf("played %d times, %v", did.acts[opRefuseOne], did.cancels)
			}
		})
	}
}

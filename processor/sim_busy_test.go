//go:build synctests

package processor

import (
	"encoding/binary"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// kfake ends every transaction at once. In Kafka the coordinator writes the end to each partition
// that took part, with acks=all like any record, and until all have taken it the transactional id is
// refused with CONCURRENT_TRANSACTIONS. So the world keeps the ids busy whose records a target has
// refused, until the target takes records again.

// busyIDs are the transactional ids that wait for targets, by id.
type busyIDs struct {
	mu sync.Mutex
	of map[string]string // the target
}

func (b *busyIDs) add(id, target string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.of == nil {
		b.of = map[string]string{}
	}
	b.of[id] = target
}

func (b *busyIDs) free(target string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for id, t := range b.of {
		if t == target {
			delete(b.of, id)
		}
	}
}

// answer makes InitProducerID with a busy id refused. What was open is aborted all the same.
func (b *busyIDs) answer(f *frame, raw []byte) []byte {
	req := f.request().(*kmsg.InitProducerIDRequest)
	b.mu.Lock()
	defer b.mu.Unlock()
	if req.TransactionalID == nil || b.of[*req.TransactionalID] == "" {
		return raw
	}
	resp := req.ResponseKind().(*kmsg.InitProducerIDResponse)
	resp.ErrorCode, resp.ProducerID, resp.ProducerEpoch = kerr.ConcurrentTransactions.Code, -1, -1
	head := 8
	if resp.IsFlexible() {
		head++
	}
	raw = resp.AppendTo(raw[:head:head])
	binary.BigEndian.PutUint32(raw, uint32(len(raw)-4))
	return raw
}

// unwilling makes the leaders of a topic refuse what is produced, while metadata shows nothing, until
// the function that it returns is called. It returns how many requests were refused, too.
func (w *world) unwilling(topic string, with *kerr.Error) (hits func() int, mend func()) {
	h := w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: topic, Err: with, Count: -1})
	seen := w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: topic, Observe: true, Count: -1, When: func(q kmsg.Request) bool {
		if req := q.(*kmsg.ProduceRequest); req.TransactionID != nil && with.Code != kerr.TopicAuthorizationFailed.Code {
			w.busy.add(*req.TransactionID, topic)
		}
		return true
	}})
	w.note("---- %s refuses with %s", topic, with.Message)
	return h.Hits, func() {
		w.note("---- %s takes records again", topic)
		h.Remove()
		seen.Remove()
		w.busy.free(topic)
	}
}

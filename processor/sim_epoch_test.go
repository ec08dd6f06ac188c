//go:build synctests

package processor

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/duewheel/duewheel/topics"
)

// forget makes the leader of a topic answer the transactional produce request number n from now as
// one that has forgotten the producer, whose records retention has removed meanwhile. It gives back
// whether that has happened, and what keeps it from happening any more.
func (w *world) forget(topic string, n int64, e *kerr.Error) (happened func() bool, mend func()) {
	var seen atomic.Int64
	w.cluster.ControlKey(int16(kmsg.Produce), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		w.cluster.KeepControl()
		req := kreq.(*kmsg.ProduceRequest)
		if req.TransactionID == nil || !w.produces(req, topic) || seen.Add(1) != n {
			return nil, nil, false
		}
		w.note("---- %s is forgotten: %s", *req.TransactionID, e.Message)
		return produced(req, e.Code, 1000), nil, true
	})
	return func() bool { return seen.Load() >= n }, func() { seen.Add(n) }
}

// produced answers with one code, 0 for none, for all that a produce request brings, for logs that begin at an offset.
func produced(req *kmsg.ProduceRequest, code int16, logStart int64) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.ProduceResponse)
	for _, t := range req.Topics {
		rt := kmsg.NewProduceResponseTopic()
		rt.Topic, rt.TopicID = t.Topic, t.TopicID
		for _, p := range t.Partitions {
			rp := kmsg.NewProduceResponseTopicPartition()
			rp.Partition, rp.ErrorCode, rp.LogStartOffset = p.Partition, code, logStart
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}

// produces reports whether a request has records for a topic.
func (w *world) produces(req *kmsg.ProduceRequest, topic string) bool {
	for _, t := range req.Topics {
		if t.Topic == topic || t.TopicID == w.cluster.TopicInfo(topic).TopicID {
			return true
		}
	}
	return false
}

// Design rule 8: a producer that is renewed within its transaction has lost what that held, the
// offsets among it. What remains must not be committed: part of the records would arrive, and the
// rest, with the checkpoint, would be gone or come twice.
func TestSimProducerRenewedWithinTransaction(t *testing.T) {
	for _, e := range []*kerr.Error{kerr.OutOfOrderSequenceNumber, kerr.UnknownProducerID, kerr.InvalidProducerIDMapping, kerr.InvalidProducerEpoch} {
		t.Run(e.Message, func(t *testing.T) {
			scenario(t, worldConfig{}, func(w *world) {
				a := w.live("a")
				happened, _ := w.forget("orders", 2, e)
				due := in(2 * time.Second)
				for i := range 3 { // more than fits into a batch
					r := request(fmt.Sprint(i), due)
					r.Headers = append(r.Headers, kgo.RecordHeader{Key: topics.HeaderTargetPartition, Value: []byte("0")})
					r.Value = make([]byte, 600<<10)
					for i := range r.Value { // and does not compress
						r.Value[i] = byte(w.rng.Uint32())
					}
					w.send(r)
				}
				w.within(10*time.Second, "delivered", func() bool { return w.outstanding() == 0 })
				if turns := a.p.Stats().Transactions; !happened() || turns["aborted"] != 1 || turns["unknown"] != 0 {
					t.Errorf("forgotten: %v; turns %v", happened(), turns)
				}
				w.send(request("next", in(0)))
				w.finish()
			})
		})
	}
}

// Before transaction.version 2 an id keeps its epoch from one transaction to the next, so a copy of
// EndTxn that arrives late would decide a later one: it would commit offsets without their records. A
// producer of which a copy may be on its way is renewed first, whether a second copy was answered
// or none.
func TestSimLateEndTxn(t *testing.T) {
	for _, c := range []struct {
		name string
		held int
		want string
	}{{"a second copy is answered", 1, "committed"}, {"no copy is answered", -1, "unknown"}} {
		t.Run(c.name, func(t *testing.T) {
			scenario(t, worldConfig{versions: kversion.V3_9_0()}, func(w *world) {
				a := w.live("a")
				var late *kmsg.EndTxnRequest
				arrive := make(chan struct{})
				held := a.link.on(rule{key: kmsg.EndTxn, count: c.held, wait: arrive, match: func(q kmsg.Request) bool {
					end := q.(*kmsg.EndTxnRequest)
					if late == nil && end.Commit { // what asks for the time aborts
						late = end
					}
					return late != nil && late.TransactionalID == end.TransactionalID
				}})
				w.send(request("first", in(0)))
				w.hit(held)
				w.within(time.Minute, "decided", func() bool { return a.p.Stats().Transactions[c.want] == 1 })
				if c.held < 0 {
					a.link.clear()
				}
				// The next transaction of that id has its offsets, and its record is still on its way.
				record := make(chan struct{})
				open := a.link.on(rule{key: kmsg.Produce, wait: record, match: func(q kmsg.Request) bool {
					id := q.(*kmsg.ProduceRequest).TransactionID
					return id != nil && *id == late.TransactionalID
				}})
				for again, i := true, 0; again; i++ {
					w.send(request(fmt.Sprint(i), in(0)))
					select {
					case <-open:
						again = false
					case <-time.After(time.Second):
					}
				}
				w.note("---- EndTxn of epoch %d arrives late", late.ProducerEpoch)
				close(arrive)
				time.Sleep(time.Second)
				a.kill()
				close(record)
				w.start("b", nil)
				w.finish()
			})
		})
	}
}

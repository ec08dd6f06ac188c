// Package wiretap is a broker for tests, that writes down what it is asked, and answers as they say.
package wiretap

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/duewheel/duewheel/processor/internal/answers"
	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/state"
)

// Tap writes down which requests reach a cluster, in order, and may answer in its place.
type Tap struct {
	C       *kfake.Cluster
	mu      sync.Mutex
	seen    []string
	answers map[kmsg.Key]func(kmsg.Request) (kmsg.Response, error)
}

// New is one broker. Offset commits are answered without a look at the member.
func New(t *testing.T, topics ...kfake.Opt) *Tap {
	t.Helper()
	c, err := kfake.NewCluster(append(topics, kfake.NumBrokers(1))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	w := &Tap{C: c, answers: map[kmsg.Key]func(kmsg.Request) (kmsg.Response, error){}}
	for _, key := range []kmsg.Key{kmsg.OffsetFetch, kmsg.ListOffsets, kmsg.OffsetForLeaderEpoch, kmsg.OffsetCommit, kmsg.TxnOffsetCommit, kmsg.Produce, kmsg.EndTxn, kmsg.InitProducerID} {
		c.ControlKey(int16(key), func(req kmsg.Request) (kmsg.Response, error, bool) {
			c.KeepControl()
			w.mu.Lock()
			defer w.mu.Unlock()
			if what := note(req); what != "" {
				w.seen = append(w.seen, what)
			}
			if answer := w.answers[key]; answer != nil {
				resp, err := answer(req)
				return resp, err, resp != nil || err != nil
			}
			return nil, nil, false
		})
	}
	w.Answer(kmsg.OffsetCommit, func(req kmsg.Request) (kmsg.Response, error) { return answers.Commit(req, 0), nil })
	w.Answer(kmsg.TxnOffsetCommit, func(req kmsg.Request) (kmsg.Response, error) { return answers.Commit(req, 0), nil })
	return w
}

// note is how a request is written down.
func note(req kmsg.Request) string {
	name := kmsg.NameForKey(req.Key())
	switch req := req.(type) {
	case *kmsg.OffsetFetchRequest:
		return fmt.Sprintf("%s stable=%v", name, req.RequireStable)
	case *kmsg.EndTxnRequest:
		return fmt.Sprintf("%s commit=%v", name, req.Commit)
	case *kmsg.InitProducerIDRequest:
		if req.TransactionalID == nil {
			return name
		}
		return fmt.Sprintf("%s %s", name, *req.TransactionalID)
	}
	return name
}

// Answer answers requests of a kind; nothing is left to the broker.
func (w *Tap) Answer(key kmsg.Key, f func(kmsg.Request) (kmsg.Response, error)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answers[key] = f
}

// Cut breaks the connection on every request of a kind.
func (w *Tap) Cut(key kmsg.Key) {
	w.Answer(key, func(kmsg.Request) (kmsg.Response, error) { return nil, errors.New("cut") })
}

// Checkpoints answers fetches of checkpoints, which are of a topic; unstable ones are refused to those who ask for
// stable offsets. A negative offset is no checkpoint.
func (w *Tap) Checkpoints(t *testing.T, topic string, c state.Checkpoint, unstable func() bool) {
	t.Helper()
	md := ""
	if c.Offset >= 0 {
		c.TopicID = kafka.TopicID(w.C.TopicInfo(topic).TopicID).Short()
		var err error
		if md, err = c.Metadata(); err != nil {
			t.Fatal(err)
		}
	}
	w.Answer(kmsg.OffsetFetch, func(kreq kmsg.Request) (kmsg.Response, error) {
		req := kreq.(*kmsg.OffsetFetchRequest)
		if req.RequireStable && unstable != nil && unstable() {
			return answers.Fetch(req, -1, md, kerr.UnstableOffsetCommit.Code), nil
		}
		return answers.Fetch(req, c.Offset, md, 0), nil
	})
}

// Epochs has the broker say where leader epochs end.
func (w *Tap) Epochs(end func(epoch int32) int64) {
	w.Answer(kmsg.OffsetForLeaderEpoch, func(req kmsg.Request) (kmsg.Response, error) {
		resp := req.ResponseKind().(*kmsg.OffsetForLeaderEpochResponse)
		for _, of := range req.(*kmsg.OffsetForLeaderEpochRequest).Topics {
			rt := kmsg.NewOffsetForLeaderEpochResponseTopic()
			rt.Topic = of.Topic
			for _, asked := range of.Partitions {
				p := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
				p.Partition, p.LeaderEpoch, p.EndOffset = asked.Partition, asked.LeaderEpoch, end(asked.LeaderEpoch)
				rt.Partitions = append(rt.Partitions, p)
			}
			resp.Topics = append(resp.Topics, rt)
		}
		return resp, nil
	})
}

// Take returns what was seen since the last call.
func (w *Tap) Take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := w.seen
	w.seen = nil
	return out
}

// Client is one that has nothing to do with what is tested.
func (w *Tap) Client(t *testing.T) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(w.C.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

// Only keeps what begins with one of the given words.
func Only(seen []string, words ...string) []string {
	return slices.DeleteFunc(slices.Clone(seen), func(s string) bool {
		return !slices.ContainsFunc(words, func(w string) bool { return strings.HasPrefix(s, w) })
	})
}

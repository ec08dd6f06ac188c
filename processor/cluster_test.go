package processor

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/duewheel/duewheel/processor/internal/answers"
)

// wiretap writes down which requests reach a cluster, in order, and may answer in its place.
type wiretap struct {
	c       *kfake.Cluster
	mu      sync.Mutex
	seen    []string
	answers map[kmsg.Key]func(kmsg.Request) (kmsg.Response, error)
}

// testCluster is a broker with the delay topic, its dead letter topic and orders, and a lane that
// does not run but can reach it. Offset commits are answered without a look at the member.
func testCluster(t *testing.T, tune ...func(*Config)) (*lane, *wiretap) {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(4, testTopic), kfake.SeedTopics(1, testTopic+".dead", "orders", "bills"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	l := testLane(t, append(tune, func(cfg *Config) { cfg.Client = []kgo.Opt{kgo.SeedBrokers(c.ListenAddrs()...)} })...)
	w := &wiretap{c: c, answers: map[kmsg.Key]func(kmsg.Request) (kmsg.Response, error){}}
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
	w.answer(kmsg.OffsetCommit, func(req kmsg.Request) (kmsg.Response, error) { return answers.Commit(req, 0), nil })
	w.answer(kmsg.TxnOffsetCommit, func(req kmsg.Request) (kmsg.Response, error) { return answers.Commit(req, 0), nil })
	return l, w
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

func (w *wiretap) answer(key kmsg.Key, f func(kmsg.Request) (kmsg.Response, error)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answers[key] = f
}

// cut breaks the connection on every request of a kind.
func (w *wiretap) cut(key kmsg.Key) {
	w.answer(key, func(kmsg.Request) (kmsg.Response, error) { return nil, errors.New("cut") })
}

// take returns what was seen since the last call.
func (w *wiretap) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := w.seen
	w.seen = nil
	return out
}

// client is one that has nothing to do with what is tested.
func (w *wiretap) client(t *testing.T) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(w.c.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

// only keeps what begins with one of the given words.
func only(seen []string, words ...string) []string {
	return slices.DeleteFunc(slices.Clone(seen), func(s string) bool {
		return !slices.ContainsFunc(words, func(w string) bool { return strings.HasPrefix(s, w) })
	})
}

package integration

import (
	"context"
	"fmt"
	"io"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/admin"
	"github.com/duewheel/duewheel/processor"
	"github.com/duewheel/duewheel/topics"
)

// A producer leaves a transaction open in a delay topic: what is written behind it cannot be read by anyone. The replica says so while it has the
// partition, and its next owner while it waits for what the first one has written there; both go on when the transaction ends.
func TestOpenTransactionIsSaid(t *testing.T) {
	t.Parallel()
	s := newTenant(t, shared(t), setting{partitions: 1})
	mine := s.replica(func(c *replicaConfig) { c.UnknownTargetAfter = time.Minute })
	p := s.start(mine)
	s.awaitLive(p, 1)
	if said := readyz(p); strings.Contains(said, "transaction") {
		t.Errorf("before there is one: %s", said)
	}
	s.ask(s.client, s.name+".target-unknown", time.Second) // is to be tried again, for which it is appended
	end := s.leaveOpen()
	s.ask(s.client, s.targets[0], 0)
	s.awaitSaid(p, `"ready": true`, "in "+s.route.Topic+"/0 since offset 1 for", "find-hanging")
	eventually(t, func() string {
		if st := p.Stats(); st.Retried == 0 {
			return "nothing was tried again"
		}
		return ""
	})
	p.stop()
	p = s.start(mine)
	s.awaitSaid(p, `"ready": false`, `"phase": "catching_up"`, "in "+s.route.Topic+"/0 since offset 1 for", "find-hanging")
	end()
	s.awaitLive(p, 1)
	eventually(t, func() string {
		if said := readyz(p); strings.Contains(said, "transaction") {
			return said
		}
		return ""
	})
	if n := len(s.events.from(0, processor.EventBlocked)); n < 1 || n > 2 { // each of the two
		t.Errorf("%d events tell of it", n)
	}
	s.awaitTarget(2)
}

// ask writes a request from outside of what the watch knows.
func (s *tenant) ask(cl *kgo.Client, target string, in time.Duration) {
	s.t.Helper()
	r := &kgo.Record{Topic: s.route.Topic, Value: []byte(strconv.FormatInt(time.Now().UnixNano(), 10)), Headers: []kgo.RecordHeader{
		{Key: topics.HeaderUntil, Value: strconv.AppendInt(nil, time.Now().Add(in).UnixMilli(), 10)}, {Key: topics.HeaderTargetTopic, Value: []byte(target)},
	}}
	if err := cl.ProduceSync(s.t.Context(), r).FirstErr(); err != nil {
		s.t.Fatal(err)
	}
}

// leaveOpen writes a request in a transaction, which end commits.
func (s *tenant) leaveOpen() (end func()) {
	s.t.Helper()
	cl, err := kgo.NewClient(append(s.opts(), kgo.TransactionalID(s.name+"-producer"), kgo.TransactionTimeout(5*time.Minute))...)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(cl.Close)
	if err := cl.BeginTransaction(); err != nil {
		s.t.Fatal(err)
	}
	s.ask(cl, s.targets[0], 0)
	return func() {
		s.t.Helper()
		if err := cl.EndTransaction(context.Background(), kgo.TryCommit); err != nil {
			s.t.Fatal(err)
		}
	}
}

// readyz is what a replica answers there.
func readyz(p *running) string {
	w := httptest.NewRecorder()
	admin.NewHandler(admin.Options{Source: p, Gatherer: prometheus.NewRegistry()}).ServeHTTP(w, httptest.NewRequest("GET", "/readyz", nil))
	body, _ := io.ReadAll(w.Body)
	return string(body)
}

// awaitSaid waits until /readyz has all these words.
func (s *tenant) awaitSaid(p *running, words ...string) {
	s.t.Helper()
	eventually(s.t, func() string {
		said := readyz(p)
		for _, w := range words {
			if !strings.Contains(said, w) {
				return fmt.Sprintf("%q in %s", w, said)
			}
		}
		return ""
	})
}

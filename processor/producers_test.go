package processor

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/targets"
)

// A client that has produced to a topic goes on asking for it when that is deleted, and for all others with it, as often as it may. It is
// replaced, with a new epoch, and the next one does not know of that topic.
func TestDeletedTargetIsAskedForNoMore(t *testing.T) {
	for _, guarantee := range []Guarantee{ExactlyOnce, AtLeastOnce} {
		t.Run(string(guarantee), func(t *testing.T) {
			l, _ := testCluster(t, func(cfg *Config) { cfg.Guarantee = guarantee })
			if err := l.producers.start(t.Context()); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(l.producers.close)
			p := l.producers.list[0]
			produce(t, p.Client(), "orders", "bills")
			cl, now := p.Client(), time.Now()
			l.producers.forgetGone(t.Context(), now)
			equal(t, "renewing while all topics are there", l.producers.renewing, false)

			l.targets.Of([]byte("bills")).State.Store(&targets.State{Status: targets.Missing}) // as brokers say when it has been deleted
			l.producers.forgetGone(t.Context(), now.Add(time.Second))
			equal(t, "renewing, a second after the last look", l.producers.renewing, false)
			l.producers.forgetGone(t.Context(), now.Add(forgetEvery))
			if !l.producers.renewing {
				t.Fatal("a deleted target is asked for")
			}
			if err := <-l.producers.renewed; err != nil {
				t.Fatal(err)
			}
			l.producers.renewing = false
			equal(t, "the same client", p.Client() == cl, false)
			equal(t, "topics of the next client", len(p.Bounds().Told()), 0)

			produce(t, p.Client(), "orders")
			l.producers.forgetGone(t.Context(), now.Add(2*forgetEvery))
			equal(t, "renewing once more", l.producers.renewing, false)
		})
	}
}

// produce writes a record to each topic, in a transaction of its own where the client has them.
func produce(t *testing.T, cl *kgo.Client, topics ...string) {
	t.Helper()
	transactional := cl.OptValue(kgo.TransactionalID) != ""
	if transactional {
		if err := cl.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
	}
	for _, topic := range topics {
		cl.Produce(t.Context(), &kgo.Record{Topic: topic, Value: []byte("v")}, func(_ *kgo.Record, err error) {
			if err != nil {
				t.Error(err)
			}
		})
	}
	if err := cl.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if transactional {
		if err := cl.EndTransaction(t.Context(), kgo.TryCommit); err != nil {
			t.Fatal(err)
		}
	}
}

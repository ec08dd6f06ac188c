package processor

import (
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// A turn is not decided before its client counts what it has produced, else it takes the transaction for
// an empty one.
func TestDecisionWaitsForItsClient(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "orders"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.TransactionalID("writer"))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	p := &producer{cl: cl, transactionalID: "writer"}
	rec := &kgo.Record{Topic: "orders", Value: []byte("v")}
	outs := []output{{rec: rec}}
	if err := p.stored(t.Context(), outs); !errors.Is(err, errUnstored) {
		t.Errorf("before anything was produced: %v", err)
	}
	if err := cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := cl.ProduceSync(t.Context(), rec).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if err := p.stored(t.Context(), outs); err != nil {
		t.Errorf("after that: %v", err)
	}
	if err := cl.EndTransaction(t.Context(), kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
}

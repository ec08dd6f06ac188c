package producer

import (
	"errors"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// A turn is not decided before its client counts what it has produced, else it takes the transaction for
// an empty one.
func TestDecisionWaitsForItsClient(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "orders", "bills"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.TransactionalID("writer"))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	p := &Producer{cl: cl, id: "writer"}
	if err := cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	tx := &Transaction{p: p}
	if tx.in, err = p.identity(t.Context()); err != nil {
		t.Fatal(err)
	}
	rec, unstored := &kgo.Record{Topic: "orders", Value: []byte("v")}, &kgo.Record{Topic: "bills"}
	if err := cl.ProduceSync(t.Context(), rec).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if err := tx.Decide(t.Context(), slices.Values([]*kgo.Record{rec, unstored})); !errors.Is(err, errUnstored) || errors.Is(err, ErrUndecided) || tx.ended {
		t.Errorf("a topic that the client does not know of yet: %v, ended %t", err, tx.ended)
	}
	if err := tx.Decide(t.Context(), slices.Values([]*kgo.Record{rec})); err != nil || !tx.ended {
		t.Errorf("when it counts all: %v, ended %t", err, tx.ended)
	}
}

// A transaction is ended once, and only if its client is still the one that has begun it.
func TestTransactionEndsOnce(t *testing.T) {
	tx := &Transaction{p: &Producer{}, ended: true}
	for what, end := range map[string]func(){
		"decide": func() { tx.Decide(t.Context(), slices.Values([]*kgo.Record(nil))) },
		"abort":  func() { tx.Abort(t.Context(), kerr.ProducerFenced) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: a transaction ends twice", what)
				}
			}()
			end()
		}()
	}
	open := &Transaction{p: &Producer{}}
	if err := open.Abort(t.Context(), kerr.ProducerFenced); !errors.Is(err, kerr.ProducerFenced) || !open.ended {
		t.Errorf("what another instance has taken over is aborted: %v", err)
	}
}

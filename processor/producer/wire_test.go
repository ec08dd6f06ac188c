package producer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	broker "github.com/duewheel/duewheel/processor/internal/answers"
	"github.com/duewheel/duewheel/processor/kafka"
)

// featuring has brokers say that a transaction.version is in force, and speak requests of Kafka 4.
func featuring(c *kfake.Cluster, level *int16) {
	c.ControlKey(int16(kmsg.ApiVersions), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		resp, f := kmsg.NewPtrApiVersionsResponse(), kmsg.NewApiVersionsResponseFinalizedFeature()
		resp.Version = req.GetVersion()
		for key := range int16(80) {
			if r := kmsg.RequestForKey(key); r != nil {
				k := kmsg.NewApiVersionsResponseApiKey()
				k.ApiKey, k.MaxVersion = key, min(r.MaxVersion(), 5)
				resp.ApiKeys = append(resp.ApiKeys, k)
			}
		}
		f.Name, f.MaxVersionLevel, f.MinVersionLevel = "transaction.version", *level, *level
		resp.FinalizedFeatures = append(resp.FinalizedFeatures, f)
		return resp, nil, true
	})
}

// Before transaction.version 2 the group is added to a transaction before its offsets, by a request that is refused in its own right, and offsets are committed by one that
// does not add it. What brokers have in force may change from one client to the next.
func TestOpenByTheVersionInForce(t *testing.T) {
	code, level := int16(0), int16(1)
	c, p := renewed(t, &code)
	featuring(c, &level)
	var asked []string
	busy, refuses := 0, false
	c.ControlKey(int16(kmsg.AddOffsetsToTxn), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		asked = append(asked, "add")
		resp := req.ResponseKind().(*kmsg.AddOffsetsToTxnResponse)
		if refuses {
			resp.ErrorCode = kerr.InvalidTxnState.Code
		}
		return resp, nil, true
	})
	c.ControlKey(int16(kmsg.TxnOffsetCommit), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		asked = append(asked, fmt.Sprint("commit ", req.GetVersion() >= 5))
		if busy--; busy >= 0 {
			return broker.Commit(req, kerr.ConcurrentTransactions.Code), nil, true
		}
		return broker.Commit(req, 0), nil, true
	})
	open := func() error {
		t.Helper()
		asked = nil
		if err := p.Renew(t.Context()); err != nil {
			t.Fatal(err)
		}
		_, err := p.Open(t.Context(), kafka.NewCoordinator("g"), kafka.Member{ID: "m", Generation: 1}, []kafka.Commit{{TP: kafka.TopicPartition{Topic: "t"}, Offset: 5}})
		return err
	}
	for _, test := range []struct {
		level   int16
		busy    int // how often markers are on their way
		refuses bool
		want    []string
	}{
		{1, 0, false, []string{"add", "commit false"}},
		{1, 0, true, []string{"add"}},
		{2, 0, false, []string{"commit true"}},
		{1, 2, false, []string{"add", "commit false", "commit false", "commit false"}},
	} {
		level, busy, refuses = test.level, test.busy, test.refuses
		if err := open(); (err == nil) == test.refuses || !slices.Equal(asked, test.want) {
			t.Errorf("transaction.version %d: %v, asked for %v", test.level, err, asked)
		}
	}
}

// Every epoch is asked for with the timeout of transactions: by hand, and by the client.
func TestRenewTellsTheTimeout(t *testing.T) {
	code := int16(0)
	c, p := renewed(t, &code)
	asked := 0
	c.ControlKey(int16(kmsg.InitProducerID), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		if asked++; req.(*kmsg.InitProducerIDRequest).TransactionTimeoutMillis != 60_000 {
			t.Errorf("request %d tells a timeout of %d ms", asked, req.(*kmsg.InitProducerIDRequest).TransactionTimeoutMillis)
		}
		return nil, nil, false
	})
	if err := p.Renew(t.Context()); err != nil || asked != 2 {
		t.Errorf("%v, after %d requests", err, asked)
	}
}

// A transaction that was asked to commit, and is not known to have, is undecided. A copy of that request may be on its way when one was not answered, until the client is another
// one.
func TestDecideUnanswered(t *testing.T) {
	for name, test := range map[string]struct {
		answers []error // one after the other; nil: as it is
		err     error
		stale   bool
	}{
		"answered":   {nil, nil, false},
		"refused":    {[]error{kerr.InvalidTxnState}, ErrUndecided, false},
		"unanswered": {[]error{errNoAnswer}, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			code := int16(0)
			c, p := renewed(t, &code)
			left := test.answers
			c.ControlKey(int16(kmsg.EndTxn), func(req kmsg.Request) (kmsg.Response, error, bool) {
				c.KeepControl()
				if len(left) == 0 {
					return nil, nil, false
				}
				err := left[0]
				left = left[1:]
				resp := req.ResponseKind().(*kmsg.EndTxnResponse)
				if ke, ok := errors.AsType[*kerr.Error](err); ok {
					resp.ErrorCode = ke.Code
					return resp, nil, true
				}
				return nil, err, true
			})
			if err := p.Renew(t.Context()); err != nil {
				t.Fatal(err)
			}
			rec := &kgo.Record{Topic: "t", Partition: AnyPartition, Value: []byte("v")}
			tx := begun(t, p)
			p.Client().Produce(t.Context(), rec, func(_ *kgo.Record, err error) {
				if err != nil {
					t.Error(err)
				}
			})
			if err := p.Client().Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := tx.Decide(t.Context(), slices.Values([]*kgo.Record{rec})); !errors.Is(err, test.err) || (err == nil) != (test.err == nil) || p.Stale() != test.stale {
				t.Errorf("%v, and stale is %v", err, p.Stale())
			}
			if err := p.Renew(t.Context()); err != nil || p.Stale() {
				t.Errorf("%v: a copy of the former client's request is feared: %v", err, p.Stale())
			}
		})
	}
}

// begun is a transaction without offsets.
func begun(t *testing.T, p *Producer) *Transaction {
	t.Helper()
	tx := &Transaction{p: p}
	err := p.Client().BeginTransaction()
	if err == nil {
		tx.in, err = p.identity(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	return tx
}

var errNoAnswer = errors.New("no answer")

// A transaction is not asked to commit when the client has another id or epoch than when it began.
func TestStillTheSame(t *testing.T) {
	code := int16(0)
	_, p := renewed(t, &code)
	if err := p.Renew(t.Context()); err != nil {
		t.Fatal(err)
	}
	is, err := p.identity(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for was, want := range map[kafka.ProducerID]error{is: nil, {ID: is.ID, Epoch: is.Epoch - 1}: errRenewed, {ID: is.ID - 1, Epoch: is.Epoch}: errRenewed} {
		if err := p.still(t.Context(), was); !errors.Is(err, want) || (err == nil) != (want == nil) {
			t.Errorf("%v, and it is %v: %v", was, is, err)
		}
		tx := &Transaction{p: p, in: was}
		if err := tx.Decide(t.Context(), slices.Values([]*kgo.Record(nil))); was != is && (!errors.Is(err, errRenewed) || tx.ended) {
			t.Errorf("%v, and it is %v: it is decided, %v", was, is, err)
		}
	}
}

// An id is free when its coordinator says so; an answer that says nothing of it leaves it busy.
func TestAwaitID(t *testing.T) {
	code := int16(0)
	c, p := renewed(t, &code)
	var asked atomic.Int32
	c.ControlKey(int16(kmsg.InitProducerID), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		resp := req.ResponseKind().(*kmsg.InitProducerIDResponse)
		if asked.Add(1) == 1 {
			resp.ErrorCode = kerr.TransactionalIDAuthorizationFailed.Code
		}
		return resp, nil, true
	})
	cl, err := kgo.NewClient(p.cfg.Client...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	free := 0
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	(*Markers)(nil).AwaitID(ctx, cl, "writer-0", time.Minute, func() { free++ })
	if free != 1 || asked.Load() != 2 {
		t.Errorf("it was free %d times, after %d requests", free, asked.Load())
	}
}

// A record goes to the partition that it asks for, also when others of the topic cannot be written to: the client picks among those that can where that does not matter.
func TestPartitionerIsConsistent(t *testing.T) {
	of := Partitioner().ForTopic("t")
	for name, test := range map[string]struct {
		r    *kgo.Record
		want bool
	}{
		"a partition":        {&kgo.Record{Partition: 3}, true},
		"the first one":      {&kgo.Record{Partition: 0}, true},
		"any, with a key":    {&kgo.Record{Partition: AnyPartition, Key: []byte("k")}, true},
		"any, without a key": {&kgo.Record{Partition: AnyPartition}, false},
	} {
		if got := of.RequiresConsistency(test.r); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
		if test.r.Partition != AnyPartition && of.Partition(test.r, 5) != int(test.r.Partition) {
			t.Errorf("%s: it goes to %d", name, of.Partition(test.r, 5))
		}
	}
}

package kafka

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/duewheel/duewheel/processor/internal/answers"
)

// found is the answer to a request for one coordinator.
func found(req kmsg.Request, node int32, code int16) kmsg.Response {
	resp, c := req.ResponseKind().(*kmsg.FindCoordinatorResponse), kmsg.NewFindCoordinatorResponseCoordinator()
	c.NodeID, c.ErrorCode, c.Host, c.Port = node, code, "127.0.0.1", 1
	resp.NodeID, resp.ErrorCode, resp.Host, resp.Port = c.NodeID, c.ErrorCode, c.Host, c.Port
	resp.Coordinators = append(resp.Coordinators, c)
	return resp
}

// What has not been sent, because it is not known where to, or no connection is made, has changed nothing, and may be tried again. It is looked up again then.
func TestNothingIsSentWithoutACoordinator(t *testing.T) {
	var refuses atomic.Pointer[string] // the end of an address to which no connection is made
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		if end := refuses.Load(); end != nil && strings.HasSuffix(address, *end) {
			return nil, &net.OpError{Op: "dial", Net: network, Err: errors.New("refused")}
		}
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
	for _, test := range []struct {
		name   string
		answer func(c *kfake.Cluster, req kmsg.Request) (kmsg.Response, error)
		looks  int
	}{
		{"not told", func(_ *kfake.Cluster, req kmsg.Request) (kmsg.Response, error) {
			return found(req, -1, kerr.GroupAuthorizationFailed.Code), nil
		}, 0},
		{"unanswered", func(*kfake.Cluster, kmsg.Request) (kmsg.Response, error) { return nil, errNoAnswer }, 0},
		{"an unknown broker", func(_ *kfake.Cluster, req kmsg.Request) (kmsg.Response, error) { return found(req, 7, 0), nil }, 1},
		{"no connection", nil, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, err := kfake.NewCluster(kfake.NumBrokers(2), kfake.SeedTopics(1, testTopic))
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			var looks, sent atomic.Int32
			c.ControlKey(int16(kmsg.Metadata), func(req kmsg.Request) (kmsg.Response, error, bool) {
				c.KeepControl()
				looks.Add(1)
				return nil, nil, false
			})
			c.ControlKey(int16(kmsg.OffsetCommit), func(req kmsg.Request) (kmsg.Response, error, bool) {
				c.KeepControl()
				sent.Add(1)
				return answers.Commit(req, 0), nil, true
			})
			if test.answer == nil {
				addr := c.ListenAddrs()[1]
				end := addr[strings.LastIndexByte(addr, ':'):]
				refuses.Store(&end)
				defer refuses.Store(nil)
			}
			c.ControlKey(int16(kmsg.FindCoordinator), func(req kmsg.Request) (kmsg.Response, error, bool) {
				c.KeepControl()
				if test.answer == nil {
					return found(req, 1, 0), nil, true
				}
				resp, err := test.answer(c, req)
				return resp, err, true
			})
			cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()[0]), kgo.Dialer(dial), kgo.RequestRetries(1), kgo.MetadataMinAge(10*time.Millisecond))
			if err != nil {
				t.Fatal(err)
			}
			defer cl.Close()
			if err := cl.Ping(t.Context()); err != nil {
				t.Fatal(err)
			}
			before, co := looks.Load(), NewCoordinator("g")
			err = co.Commit(t.Context(), cl, someone, entries)
			want := Retry
			if !IsAny(err, ErrNoCoordinator) || VerdictOf(err) != want || errors.Is(err, ErrUnanswered) {
				t.Errorf("verdict %d on %v", VerdictOf(err), err)
			}
			if _, known := co.last(); known {
				t.Error("it is not looked up again")
			}
			if n := int(looks.Load() - before); n < test.looks || sent.Load() != 0 {
				t.Errorf("brokers were looked up %d times, and %d requests were sent", n, sent.Load())
			}
		})
	}
}

// The group is added to a transaction until the markers of the last one are written. What is not answered may have been carried out, and is not asked for again.
func TestAddOffsets(t *testing.T) {
	for _, test := range []struct {
		name  string
		code  []error // of one answer after the other, the last one for good
		asked int64
		want  Verdict
	}{
		{"markers on their way", []error{kerr.ConcurrentTransactions, kerr.ConcurrentTransactions, nil}, 3, Retry},
		{"fenced", []error{kerr.InvalidProducerEpoch}, 1, Fenced},
		{"refused", []error{kerr.InvalidTxnState}, 1, Refused},
		{"unanswered", []error{errNoAnswer}, 1, Unknown},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, err := kfake.NewCluster(kfake.NumBrokers(1))
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			var asked atomic.Int64
			c.ControlKey(int16(kmsg.AddOffsetsToTxn), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
				c.KeepControl()
				req, resp := kreq.(*kmsg.AddOffsetsToTxnRequest), kreq.ResponseKind().(*kmsg.AddOffsetsToTxnResponse)
				if req.TransactionalID != "writer-0" || req.ProducerID != 12 || req.ProducerEpoch != 3 || req.Group != "g" {
					t.Errorf("it asks for %+v", req)
				}
				err := test.code[min(int(asked.Add(1)), len(test.code))-1]
				if err == errNoAnswer {
					return nil, err, true
				}
				if ke, ok := errors.AsType[*kerr.Error](err); ok {
					resp.ErrorCode = ke.Code
				}
				return resp, nil, true
			})
			cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.TransactionalID("writer-0"), kgo.RequestRetries(1))
			if err != nil {
				t.Fatal(err)
			}
			defer cl.Close()
			err = NewCoordinator("g").AddOffsets(t.Context(), cl, NewCoordinatorOf("writer-0"), ProducerID{12, 3})
			if last := test.code[len(test.code)-1]; VerdictOf(err) != test.want || (err == nil) != (last == nil) || last == errNoAnswer != errors.Is(err, ErrUnanswered) {
				t.Errorf("verdict %d on %v", VerdictOf(err), err)
			}
			if n := asked.Load(); n != test.asked {
				t.Errorf("it was asked %d times", n)
			}
		})
	}
}

// A new epoch is asked for with the transaction timeout in ms, whatever the id had before; a coordinator that has moved is looked up again.
func TestAskForEpochAsks(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	finds, asked := 0, 0
	c.ControlKey(int16(kmsg.FindCoordinator), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		finds++
		if req := kreq.(*kmsg.FindCoordinatorRequest); req.CoordinatorType != 1 || len(req.CoordinatorKeys) == 1 && req.CoordinatorKeys[0] != "writer-0" {
			t.Errorf("the coordinator of type %d of %v is looked for", req.CoordinatorType, req.CoordinatorKeys)
		}
		return nil, nil, false
	})
	c.ControlKey(int16(kmsg.InitProducerID), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		req, resp := kreq.(*kmsg.InitProducerIDRequest), kreq.ResponseKind().(*kmsg.InitProducerIDResponse)
		if req.TransactionalID == nil || *req.TransactionalID != "writer-0" || req.TransactionTimeoutMillis != 1500 || req.ProducerID != -1 || req.ProducerEpoch != -1 {
			t.Errorf("it asks for %+v", req)
		}
		if asked++; asked == 1 {
			resp.ErrorCode = kerr.NotCoordinator.Code
		}
		return resp, nil, true
	})
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if _, err := AskForEpoch(t.Context(), cl, "writer-0", 1500*time.Millisecond, 0); err != nil || asked != 2 || finds != 2 {
		t.Errorf("%v, after %d requests and %d look-ups", err, asked, finds)
	}
}

// Writers are fenced when each of their ids was answered; one that waits for the end of its last transaction is.
func TestFence(t *testing.T) {
	for answer, want := range map[*kerr.Error]error{kerr.ConcurrentTransactions: nil, kerr.TransactionalIDAuthorizationFailed: kerr.TransactionalIDAuthorizationFailed} {
		c, err := kfake.NewCluster(kfake.NumBrokers(1))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		var asked atomic.Int32
		c.ControlKey(int16(kmsg.InitProducerID), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
			c.KeepControl()
			resp := kreq.ResponseKind().(*kmsg.InitProducerIDResponse)
			if *kreq.(*kmsg.InitProducerIDRequest).TransactionalID == "c" {
				resp.ErrorCode = answer.Code
			}
			asked.Add(1)
			return resp, nil, true
		})
		cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...))
		if err != nil {
			t.Fatal(err)
		}
		defer cl.Close()
		if _, err := Fence(t.Context(), cl, []string{"a", "b", "c"}, time.Second); !errors.Is(err, want) || (err == nil) != (want == nil) || asked.Load() != 3 {
			t.Errorf("%v: %v, after %d requests", answer, err, asked.Load())
		}
	}
}

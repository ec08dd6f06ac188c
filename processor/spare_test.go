package processor

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/duewheel/duewheel/processor/producer"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A transactional id that waits for a target to take the end of its transaction is left, and asked
// for until it is free.
func TestBusyIDIsLeft(t *testing.T) {
	l, w := testCluster(t)
	l.producers.spare = l.producers.newSpare(t.Context(), []string{"me-2", "me-3"})
	p := producer.New(l.producers.config("me-0"))
	t.Cleanup(p.Close)
	var busy atomic.Bool
	busy.Store(true)
	w.Answer(kmsg.InitProducerID, func(kreq kmsg.Request) (kmsg.Response, error) {
		req := kreq.(*kmsg.InitProducerIDRequest)
		if !busy.Load() || *req.TransactionalID != "me-0" {
			return nil, nil
		}
		resp := req.ResponseKind().(*kmsg.InitProducerIDResponse)
		resp.ErrorCode = kerr.ConcurrentTransactions.Code
		return resp, nil
	})
	began := time.Now()
	if err := p.Renew(t.Context()); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > 2500*time.Millisecond {
		t.Errorf("it took %v", took)
	}
	equal(t, "id", p.ID(), "me-2")
	left := p.LeftBusy()
	equal(t, "left busy", left.Still(), true)
	busy.Store(false)
	l.producers.wg.Wait() // until it is not asked for any more
	equal(t, "left busy then", left.Still(), false)
	if err := p.Renew(t.Context()); err != nil {
		t.Fatal(err)
	}
	equal(t, "left by a renewal that left none", p.LeftBusy() == nil, true)
}

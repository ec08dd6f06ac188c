package processor

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A transactional id that waits for a target to take the end of its transaction is left, and asked
// for until it is free.
func TestBusyIDIsLeft(t *testing.T) {
	l, w := testCluster(t)
	tn := readyTurn(t, l, w)
	p := tn.producer
	p.spare = l.newSpareIDs(t.Context(), []string{"me-2", "me-3"})
	var busy atomic.Bool
	busy.Store(true)
	w.answer(kmsg.InitProducerID, func(kreq kmsg.Request) (kmsg.Response, error) {
		req := kreq.(*kmsg.InitProducerIDRequest)
		if !busy.Load() || *req.TransactionalID != "me-0" {
			return nil, nil
		}
		resp := req.ResponseKind().(*kmsg.InitProducerIDResponse)
		resp.ErrorCode = kerr.ConcurrentTransactions.Code
		return resp, nil
	})
	began := time.Now()
	if err := p.renew(t.Context()); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
	equal(t, "id", p.transactionalID, "me-2")
	equal(t, "left", p.left, "me-0")
	equal(t, "busy", p.spare.isBusy("me-0"), true)
	busy.Store(false)
	for began := time.Now(); p.spare.isBusy("me-0"); time.Sleep(time.Millisecond) {
		if time.Since(began) > 10*time.Second {
			t.Fatal("it is never free")
		}
	}
	for _, want := range []string{"me-3", "me-0"} {
		if id, ok := p.spare.swap("x" + want); !ok || id != want {
			t.Errorf("the next spare id is %q, want %q", id, want)
		}
	}
	if id, ok := p.spare.swap("one more"); ok {
		t.Errorf("a spare id %q from nowhere", id)
	}
	if err := p.renew(t.Context()); err != nil {
		t.Fatal(err)
	}
	equal(t, "left by a renewal that left none", p.left, "")
}

// A target is not tried before it has taken the end of the transaction that it made fail: another
// one would be kept waiting.
func TestTargetThatKeepsAnID(t *testing.T) {
	l, _ := testCluster(t)
	ts := l.p.targets
	spare := &spareIDs{busy: map[string]bool{"me-0": true}}
	for _, c := range []struct {
		name string
		busy bool
		want targetStatus
	}{{"it keeps it", true, targetTroubled}, {"it has taken it", false, targetOnTrial}} {
		o := ts.of([]byte("orders"))
		o.state.Store(&targetState{status: targetTroubled, failures: 1, well: true, partitions: 1, keeps: &busyID{"me-0", spare}})
		spare.busy["me-0"] = c.busy
		ts.askLeaders(t.Context(), l.reader, []*target{o})
		equal(t, c.name, o.state.Load().status, c.want)
	}
}

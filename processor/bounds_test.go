package processor

import (
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/topics"
)

// A turn is bound by the memory budget, whatever the batch is configured to be.
func TestBatchIsBoundByTheBudget(t *testing.T) {
	for _, c := range []struct {
		budget  int64
		records int
	}{{minMemory, 2048}, {256 << 20, 16384}, {1 << 30, 20000}} {
		p, err := New(Config{
			Client: []kgo.Opt{kgo.SeedBrokers("127.0.0.1:1")}, Group: "g", Lanes: 2, MemoryBudget: c.budget, BatchRecords: 20000,
			Routes: []topics.Route{testRoute(true)},
		})
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "records", p.cfg.BatchRecords, c.records)
	}
}

// A log that is cut above the low water under a running process has lost what is pending as soon
// as that process ends: it says so while an operator can still act (design rule 11).
func TestLogCutUnderARunningProcess(t *testing.T) {
	l := testLane(t)
	p := livePartition(t, l)
	l.read(t, p, testNow, req(0, testNow+1000, "orders"), req(1, testNow+2000, "orders"))
	p.logStart = 1
	p.checkLog()
	if !errors.Is(p.loss, ErrLogTruncated) {
		t.Errorf("got %v, want %v", p.loss, ErrLogTruncated)
	}
	p.logStart = 0
	if p.checkLog(); p.loss != nil {
		t.Errorf("got %v for a whole log", p.loss)
	}
}

// Nothing is lost when retention cuts up to the oldest pending record: what was resolved before counts
// at once, not only when it is in a checkpoint.
func TestLogCutBelowWhatIsPending(t *testing.T) {
	l := testLane(t)
	p := livePartition(t, l)
	l.read(t, p, testNow, req(0, testNow, "orders"), req(1, testNow+1000, "orders"), req(2, testNow+2000, "orders"))
	pt := p.take(testNow, nil, 10, anyBytes)
	p.logStart = 1
	p.Begin()
	if p.checkLog(); p.loss == nil {
		t.Error("nothing is said of a record that is in a turn in flight")
	}
	p.End()
	p.Settle(pt.Part) // acknowledged, and not in a checkpoint yet
	if p.checkLog(); p.loss != nil {
		t.Errorf("got %v, and the oldest pending record is where the log begins", p.loss)
	}
	p.logStart = 2
	if p.checkLog(); p.loss == nil {
		t.Error("nothing is said of a pending record that was cut off")
	}
}

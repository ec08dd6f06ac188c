package processor

import (
	"testing"

	"github.com/duewheel/duewheel/processor/pending"
)

// However large the budget is, little goes to the store in one step.
func TestSpillsLittleInAStep(t *testing.T) {
	l := testLane(t)
	p := livePartition(t, l)
	l.memory.budget = 8 << 30
	for offset := range int64(200) {
		l.read(t, p, testNow, heavy(offset, ms(3000), 200<<10))
	}
	held := p.Memory()
	l.memory.window, l.memory.spilling = pending.LeastWindow, true
	if _, err := l.memory.fit(l.order, testNow, true); err != nil {
		t.Fatal(err)
	}
	if away := held - p.Memory(); !l.memory.spilling || away > 2*pending.SpillBytes {
		t.Errorf("one step has written %d of %d bytes to the store", away, held)
	}
}

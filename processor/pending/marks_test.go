package pending

import (
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
)

// In at_least_once a checkpoint that is written beside a turn is what the last decision has left: it
// passes nothing that the turn holds, and its answer takes nothing back that was decided meanwhile.
func TestCheckpointBesideATurn(t *testing.T) {
	l := testOwner(t)
	l.atLeastOnce = true
	p := l.live(t)
	begin := func() *Part {
		t.Helper()
		pt := p.Take(testNow, nil, 1, anyBytes)
		p.Begin()
		return pt
	}
	l.read(t, p, testNow, req(0, testNow, "orders"), req(1, testNow, "orders"))
	first := begin()
	if pt := p.Checkpoint(); pt != nil {
		t.Errorf("written before anything is decided: %+v", pt.To)
	}
	l.happened(first)
	second := begin()
	l.read(t, p, testNow, req(2, testNow-1, "orders"), control(3)) // late by the W of the second
	third := begin()
	equals(t, "records of the third", third.offsets(), []int64{2})
	pt := p.Checkpoint()
	equal(t, "O", pt.To.Offset, 2)
	equal(t, "W", pt.To.Watermark, state.Key{Due: testNow, Seq: 0})
	l.happened(second, third)
	p.Wrote(pt)
	equal(t, "O that was written", p.committed.Offset, 2)
	equal(t, "O that was decided", p.done.Offset, third.To.Offset)
	equal(t, "records whose checkpoint is not written", len(p.releases), 2)
	last := p.Checkpoint()
	equal(t, "O when no turn is in flight", last.To.Offset, 4)
	l.happened(last)
	equal(t, "records whose checkpoint is not written", len(p.releases), 0)
}

// L stays at or below what is carried while that is undecided, although it is delivered meanwhile.
func TestLowWaterWaitsForWhatIsCarried(t *testing.T) {
	l := testOwner(t)
	p := l.live(t)
	l.read(t, p, testNow, req(0, ms(50), "orders"))
	l.happened(p.Checkpoint())
	carries := Carrying{p}.Take(slices.Values([]topics.Copy{{Due: ms(50)}}))
	p.Begin()
	delivers := p.Take(ms(50), nil, 10, anyBytes)
	equals(t, "delivered", delivers.offsets(), []int64{0})
	equal(t, "low water", delivers.To.LowWater, 0)
	p.Begin()
	p.End()
	p.Settle(carries)
	Carrying{p}.Done(2)
	p.Committed(carries)
	l.happened(delivers)
	equal(t, "low water before the copy is passed", p.order.low(1), 0)
	equal(t, "low water behind it", p.order.low(2), 2)
}

// A record is cancelled while its copy is on the way, and W passes it before that is read. The log may begin between the cancel and the copy, so a resolve
// record tells whoever finds the copy alone. Of what was delivered meanwhile nothing is told.
func TestCopyOfWhatWPassed(t *testing.T) {
	for _, cancelled := range []bool{true, false} {
		l := testOwner(t)
		p := l.live(t)
		l.read(t, p, testNow, req(0, ms(50), "orders"))
		l.happened(p.Checkpoint())
		carries := Carrying{p}.Take(slices.Values([]topics.Copy{{Due: ms(50)}}))
		p.Begin()
		l.read(t, p, testNow, cancelOf(1, topics.Handle{Partition: testID.Partition, Offset: map[bool]int64{true: 0, false: 99}[cancelled], Due: ms(50)}), req(2, ms(60), "orders"))
		p.End()
		p.Settle(carries)
		Carrying{p}.Done(4)
		p.Committed(carries)
		must(t, p.Load(ms(60), l.room))
		l.happened(p.Take(ms(60), nil, 10, anyBytes))
		equal(t, "W", p.lateUpTo, state.Key{Due: ms(60), Seq: 2})
		l.read(t, p, ms(60), copyAt(3, 0, ms(50)))
		must(t, p.Load(ms(60), l.room))
		pt := p.Take(ms(60), nil, 10, anyBytes)
		if !cancelled {
			equals(t, "told of what was delivered", pt.offsets(), []int64(nil))
			continue
		}
		equals(t, "told of", pt.offsets(), []int64{3})
		if it := pt.Items[0]; it.Effect != EffectStale || !it.Resolve || it.Key != (state.Key{Due: ms(50)}) {
			t.Errorf("it is told that %+v", it)
		}
	}
}

// cancelOf cancels a record by its handle.
func cancelOf(offset int64, h topics.Handle) *kgo.Record {
	return &kgo.Record{Topic: testTopic, Partition: testID.Partition, Offset: offset, Timestamp: time.UnixMilli(testNow), Headers: []kgo.RecordHeader{{Key: topics.HeaderCancel, Value: []byte(h.String())}}}
}

// In at_least_once a checkpoint may be written beside copies that was made before what is to be tried again: the copies take nothing of it back.
func TestCheckpointBesideCopies(t *testing.T) {
	l := testOwner(t)
	l.atLeastOnce = true
	p := l.live(t)
	l.read(t, p, testNow, req(0, ms(50), "orders"))
	beside := p.Checkpoint()
	l.read(t, p, testNow, req(1, testNow, "orders"))
	delivers := p.Take(testNow, nil, 10, anyBytes)
	p.Repeat(delivers, 0)
	carries := Carrying{p}.Take(slices.Values([]topics.Copy{{Due: ms(50)}}))
	p.Begin()
	p.Wrote(beside)
	p.End()
	p.Settle(carries)
	Carrying{p}.Done(3)
	equal(t, "O that was written", p.committed.Offset, 1)
	equal(t, "O that was decided", p.done.Offset, 1)
	if pt := p.Checkpoint(); pt != nil && pt.To.Offset < 1 {
		t.Errorf("O goes back to %d", pt.To.Offset)
	}
}

// A checkpoint bears the newest leader epoch of what lies below the position, and so does the store: what was read later, or again, of an older one does
// not take it back.
func TestCheckpointBearsTheEpoch(t *testing.T) {
	l := testOwner(t)
	p := l.live(t)
	of := func(epoch int32, r *kgo.Record) *kgo.Record {
		r.LeaderEpoch = epoch
		return r
	}
	l.read(t, p, testNow, of(4, req(0, testNow, "orders")), of(3, req(1, ms(farMs), "orders")))
	pt := p.Take(testNow, nil, 10, anyBytes)
	equal(t, "epoch of a part", pt.To.Epoch, 4)
	l.happened(pt)
	p.Pass(5, 6)
	p.Pass(5, 9)
	pt = p.Checkpoint()
	equal(t, "epoch of a checkpoint", pt.To.Epoch, 6)
	l.happened(pt)
	must(t, p.Flush())
	pos, _ := p.store.Position()
	equal(t, "epoch of the store", pos.Epoch, 6)
	p, err := l.assign(pt.To, 0, 5, 5)
	must(t, err)
	l.read(t, p, testNow, of(3, req(1, ms(farMs), "orders")))
	equal(t, "epoch after a replay", p.epoch, 6)
}

// At least once, whoever reads by a checkpoint that knows of no record of ours delivers again what has overtaken, as W does not pass it and its resolve
// record is not waited for. So it is not settled before a checkpoint says so.
func TestWhatHasOvertakenIsCommitted(t *testing.T) {
	l, p := anyTarget(t)
	must(t, p.Load(testNow, l.room))
	l.read(t, p, testNow, req(0, testNow, "orders"), req(1, testNow, "orders"), req(2, testNow, "orders"), req(3, testNow, "refunds"))
	l.happened(p.Take(testNow, nil, 1, anyBytes))
	equal(t, "settled", p.Settled(), true)
	over := Beside{p}.Take(testNow, nil, 1, anyBytes)
	equals(t, "what overtakes", over.offsets(), []int64{3})
	p.Appended(9)
	p.Settle(over)
	equal(t, "settled", p.Settled(), false)
	said := p.Checkpoint()
	if said == nil || !said.To.Appended {
		t.Fatalf("no checkpoint says that there is a resolve record: %v", said)
	}
	p.Wrote(said)
	equal(t, "settled", p.Settled(), true)
	if again := p.Checkpoint(); again != nil {
		t.Errorf("it says so again: %v", again.To)
	}
}

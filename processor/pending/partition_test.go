package pending

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
)

// A part delivers what is due in the order of keys; W is the last key, O what was read, and L
// stays below what is pending.
func TestPrepareTakesWhatIsDue(t *testing.T) {
	l := testOwner(t)
	p := l.live(t)
	l.read(t, p, testNow, req(0, testNow+30, "orders"), req(1, testNow+10, "orders"), req(2, testNow+20, "orders"),
		req(3, testNow+20, "orders"), req(4, testNow+3_000_000, "orders"))
	if pt := p.Take(testNow+9, nil, 10, anyBytes); pt != nil {
		t.Errorf("records %v are early", pt.offsets())
	}
	pt := p.Take(testNow+20, nil, 10, anyBytes)
	equals(t, "records", pt.offsets(), []int64{1, 2, 3})
	equal(t, "W", pt.To.Watermark, state.Key{Due: testNow + 20, Seq: 3})
	equal(t, "O", pt.To.Offset, 5)
	equal(t, "L", pt.To.LowWater, 0)
	equal(t, "what arrives is judged by", p.lateUpTo, pt.To.Watermark)
	equal(t, "W as decided", p.done.Watermark, state.Key{})
}

// L follows the first stretch of log that has something pending, up to O.
func TestLowWaterOfAPart(t *testing.T) {
	l := testOwner(t)
	p := l.live(t)
	for offset := range int64(3000) {
		due := testNow
		if offset == 2500 {
			due += 2000
		}
		l.read(t, p, testNow, req(offset, due, "orders"))
	}
	pt := p.Take(testNow, nil, 10_000, anyBytes)
	equal(t, "records", len(pt.Items), 2999)
	if low := pt.To.LowWater; low > 2500 || low < 2500-1023 {
		t.Errorf("L is %d, and record 2500 is pending", low)
	}
	l.happened(pt)
	pt = p.Take(testNow+2000, nil, 10_000, anyBytes)
	equal(t, "L with nothing pending", pt.To.LowWater, 3000)
}

// L is at most O: what is pending may all lie above.
func TestLowWaterIsAtMostO(t *testing.T) {
	l := testOwner(t)
	p := l.live(t)
	l.read(t, p, testNow, req(0, testNow, "orders"))
	l.happened(p.Take(testNow, nil, 10, anyBytes))
	l.read(t, p, testNow, control(1), req(2, testNow-1, "orders"), req(5000, testNow+1000, "orders"))
	pt := p.Checkpoint()
	equal(t, "O", pt.To.Offset, 2)
	equal(t, "L", pt.To.LowWater, 2)
}

// A list of late arrivals that is capped is capped by offset: O stops short of the rest, and W
// stays as it was (design rule 3).
func TestCappedLateListKeepsW(t *testing.T) {
	l := testOwner(t)
	p := l.live(t)
	l.read(t, p, testNow, req(0, testNow, "orders"))
	l.happened(p.Take(testNow, nil, 10, anyBytes))
	w := p.done.Watermark
	l.read(t, p, testNow, req(1, testNow-1, "orders"), req(2, testNow+5, "orders"), req(3, testNow-2, "orders"), req(4, testNow-3, "orders"))
	pt := p.Take(testNow+4, nil, 2, anyBytes)
	equals(t, "records", pt.offsets(), []int64{1, 3})
	equal(t, "W", pt.To.Watermark, w)
	equal(t, "O", pt.To.Offset, 4)
	rest := p.Take(testNow+10, nil, 2, anyBytes)
	equals(t, "the rest", rest.offsets(), []int64{4, 2})
	equal(t, "W", rest.To.Watermark, state.Key{Due: testNow + 5, Seq: 2})
	equal(t, "O", rest.To.Offset, 5)
}

// What becomes due while a turn is rendered ahead that is full of what is late joins it, and nothing more that is late does.
func TestDueJoinsBesideALateList(t *testing.T) {
	l, p := anyTarget(t)
	must(t, p.Load(testNow, l.room))
	l.read(t, p, testNow, req(0, testNow, "orders"), req(1, testNow+5, "orders"))
	l.happened(p.Take(testNow, nil, 10, anyBytes))
	l.read(t, p, testNow, req(2, testNow-1, "refunds"), req(3, testNow-2, "refunds"), req(4, testNow-3, "refunds"), req(5, testNow-4, "refunds"), req(6, testNow-5, "refunds"))
	pt := p.Take(testNow, nil, 2, anyBytes)
	equals(t, "records", pt.offsets(), []int64{2, 3})
	beside := Beside{p}
	if equal(t, "may", beside.May(), true); beside.Take(testNow, nil, 2, anyBytes) != nil {
		t.Error("nothing is due, and something joins")
	}
	joined := beside.Take(testNow+5, nil, 2, anyBytes)
	equals(t, "what joins", joined.offsets(), []int64{1})
	equal(t, "it overtakes", joined.Items[0].Overtakes(), true)
	equal(t, "O", joined.To.Offset, 4)
	equals(t, "the rest", p.Take(testNow+5, nil, 4, anyBytes).offsets(), []int64{4, 5, 6})
	equal(t, "may", beside.May(), false)
}

// What goes where a late list goes would gain nothing by joining, so it is not even sorted.
func TestNothingJoinsBesideALateListOfItsTarget(t *testing.T) {
	l := testOwner(t)
	p := l.live(t)
	l.read(t, p, testNow, req(0, testNow, "orders"), req(1, testNow+5, "orders"))
	l.happened(p.Take(testNow, nil, 10, anyBytes))
	l.read(t, p, testNow, req(2, testNow-1, "orders"), req(3, testNow-2, "orders"), req(4, testNow-3, "orders"))
	equals(t, "records", p.Take(testNow+5, nil, 2, anyBytes).offsets(), []int64{2, 3})
	equal(t, "may", Beside{p}.May(), false)
	equal(t, "sorted", p.wheel.queued, 0)
}

// The clock of a partition is the later of the wall clock and W: what is late is not held back
// by a clock that is behind, and nothing is taken that is due after both.
func TestClockBehindW(t *testing.T) {
	l := testOwner(t)
	p, err := l.assign(state.Checkpoint{Offset: 1, LowWater: 1, Watermark: state.Key{Due: testNow, Seq: 0}}, 0, 4, 4)
	if err != nil {
		t.Fatal(err)
	}
	behind := testNow - 1000
	l.read(t, p, behind, req(1, testNow-10, "orders"), req(2, testNow, "orders"), req(3, testNow+1, "orders"))
	must(t, p.goLive(l.room))
	due, ok := p.Next()
	if !ok || due > testNow {
		t.Errorf("the lane sleeps until %d", due-testNow)
	}
	pt := p.Take(behind, nil, 10, anyBytes)
	equals(t, "records", pt.offsets(), []int64{1, 2})
	equal(t, "W", pt.To.Watermark, state.Key{Due: testNow, Seq: 2})
}

// A W that is ahead of the brokers' time says nothing of the time: what is late by it waits until it is
// due, in the order of the log, W stays, and what is refused does not wait.
func TestWatermarkAhead(t *testing.T) {
	l := testOwner(t)
	w := state.Key{Due: testNow + 60_000, Seq: 0}
	p, err := l.assign(state.Checkpoint{Offset: 1, LowWater: 1, Watermark: w}, 0, 5, 5)
	if err != nil {
		t.Fatal(err)
	}
	p.limit = testNow + 1000
	l.read(t, p, testNow, req(1, testNow-10, "orders"), req(2, testNow+5, "orders"), req(3, testNow, "orders"), req(4, testNow+90_000, "orders"))
	must(t, p.goLive(l.room))
	pt := p.Take(testNow, nil, 10, anyBytes)
	equals(t, "records", pt.offsets(), []int64{1})
	equal(t, "W", pt.To.Watermark, w)
	equal(t, "O", pt.To.Offset, 2)
	equal(t, "fired at", pt.Due(), testNow-10)
	l.happened(pt)
	if pt := p.Take(testNow+4, nil, 10, anyBytes); pt != nil {
		t.Errorf("taken early: %v", pt.offsets())
	}
	due, ok := p.Next()
	equal(t, "it wakes", ok, true)
	equal(t, "it wakes at", due, testNow+5)
	equal(t, "late and due", p.late.due(testNow+4), 1)
	l.read(t, p, testNow, req(5, testNow-1, "nowhere"))
	rest := p.Take(testNow+5, nil, 10, anyBytes)
	equals(t, "the rest", rest.offsets(), []int64{2, 3, 5})
	equal(t, "W", rest.To.Watermark, w)
	p.Repeat(rest, 0)
	p.limit = testNow + 4 // set back meanwhile
	if pt := p.Take(testNow+10_000, nil, 10, anyBytes); pt != nil {
		t.Errorf("repeated early: %v", pt.offsets())
	}
	due, _ = p.Next()
	equal(t, "it wakes at", due, testNow+5)
}

// A turn that is repeated has the same O, W and records, in the same order, and what was
// rendered ahead stays behind it (design rule 7).
func TestRepeatIsTheSame(t *testing.T) {
	l := testOwner(t)
	p := l.live(t)
	l.read(t, p, testNow, req(0, testNow, "orders"), req(1, testNow-5, "orders"), req(2, testNow+1, "orders"))
	first := p.Take(testNow, nil, 1, anyBytes)
	ahead := p.Take(testNow, nil, 1, anyBytes)
	want := []state.Checkpoint{first.To, ahead.To}
	refuse := func(pt *Part) { p.Repeat(pt, 0) }
	refuse(first)
	refuse(ahead)
	l.read(t, p, testNow, req(3, testNow-9, "orders")) // does not join them
	again := p.Take(testNow+10, nil, 1000, anyBytes)
	refuse(again) // alone: the other is still waiting
	for i, offsets := range [][]int64{{1}, {0}} {
		again = p.Take(testNow+10, nil, 1000, anyBytes)
		equals(t, "records", again.offsets(), offsets)
		equal(t, "O", again.To.Offset, want[i].Offset)
		equal(t, "W", again.To.Watermark, want[i].Watermark)
		equal(t, "L", again.To.LowWater, want[i].LowWater)
		l.happened(again)
	}
	next := p.Take(testNow+10, nil, 1000, anyBytes)
	equals(t, "then", next.offsets(), []int64{3, 2})
}

// While something waits to be repeated, a checkpoint is that of the last decision: what is
// waiting is pending.
func TestCommitBesideRepeat(t *testing.T) {
	l := testOwner(t)
	p := l.live(t)
	l.read(t, p, testNow, req(0, testNow+5, "orders"))
	l.happened(p.Checkpoint())
	equal(t, "O", p.committed.Offset, 1)
	pt := p.Take(testNow+5, nil, 10, anyBytes)
	equal(t, "L of the part", pt.To.LowWater, 1)
	p.Repeat(pt, 0)
	l.read(t, p, testNow, control(1), control(2))
	if again := p.Checkpoint(); again != nil {
		t.Errorf("a checkpoint is written: %+v", again.To)
	}
}

// A checkpoint without records follows what was read, below what is late; W stays.
func TestPrepareCommit(t *testing.T) {
	l := testOwner(t)
	p := l.live(t)
	l.read(t, p, testNow, req(0, testNow, "orders"))
	l.happened(p.Take(testNow, nil, 10, anyBytes))
	if pt := p.Checkpoint(); pt != nil {
		t.Errorf("written although nothing has moved: %+v", pt.To)
	}
	l.read(t, p, testNow, control(1), req(2, testNow+1000, "orders"))
	pt := p.Checkpoint()
	equal(t, "O", pt.To.Offset, 3)
	equal(t, "W", pt.To.Watermark, p.done.Watermark)
	if pt.To.LowWater > 2 {
		t.Errorf("L is %d, and record 2 is pending", pt.To.LowWater)
	}
	l.read(t, p, testNow, req(3, testNow-1, "orders"), control(4))
	equal(t, "O below what is late", p.Checkpoint().To.Offset, 3)
}

// nextDue is never later than what there is to do.
func TestNextDue(t *testing.T) {
	l := testOwner(t)
	p := l.live(t)
	none := func(why string) {
		t.Helper()
		if due, ok := p.Next(); ok {
			t.Errorf("%s: next due is %d", why, due-testNow)
		}
	}
	is := func(why string, want int64) {
		t.Helper()
		if due, ok := p.Next(); !ok || due != want {
			t.Errorf("%s: next due is %d (%v), want %d", why, due-testNow, ok, want-testNow)
		}
	}
	none("nothing is held")
	far := testNow + 10*testWindow.Milliseconds()
	l.read(t, p, testNow, req(0, far, "orders"))
	if due, ok := p.Next(); !ok || due > far {
		t.Errorf("the store has something, and next due is %d (%v)", due-testNow, ok)
	}
	l.read(t, p, testNow, req(1, testNow+7, "orders"))
	is("something near", testNow+7)
	pt := p.Take(testNow+7, nil, 1, anyBytes)
	p.turns++
	none("a turn is in flight, whose end wakes the lane")
	p.turns--
	p.Repeat(pt, testNow+50)
	is("a turn waits to be repeated", testNow+50)
	if p.Take(testNow+49, nil, 1, anyBytes) != nil {
		t.Error("it is repeated before its time")
	}
	l.happened(p.Take(testNow+50, nil, 1, anyBytes))
	l.read(t, p, testNow, req(2, testNow-3, "orders"))
	is("something late", 0)
	p.live = false
	none("nothing is delivered during catch-up")
}

// A fixed-delay route delivers in the order of the log; O is the first record that it still
// holds, and so is L.
func TestQueue(t *testing.T) {
	l := testOwner(t)
	r := testRoute(true)
	r.Target, r.Delay = "orders", time.Second
	l.route = mustRoute(r)
	p := l.live(t)
	at := func(offset, ms int64) {
		t.Helper()
		rec := req(offset, 0, "orders")
		rec.Headers, rec.Timestamp = nil, time.UnixMilli(testNow+ms)
		l.read(t, p, testNow, rec)
	}
	at(0, 100)
	at(1, 0) // an older timestamp: it waits for the one before
	bad := req(2, testNow, "orders")
	bad.Headers = bad.Headers[:1] // a due time of its own is refused here
	l.read(t, p, testNow, bad)
	at(3, 300)
	if due, ok := p.Next(); !ok || due != testNow+1100 {
		t.Errorf("next due is %d", due-testNow)
	}
	if pt := p.Take(testNow+1099, nil, 10, anyBytes); pt != nil {
		t.Errorf("records %v are early", pt.offsets())
	}
	pt := p.Take(testNow+1100, nil, 10, anyBytes)
	equals(t, "records", pt.offsets(), []int64{0, 1, 2})
	equal(t, "O", pt.To.Offset, 3)
	equal(t, "L", pt.To.LowWater, 3)
	if it := pt.Items[2]; it.Refusal == nil || it.Refusal.Code != topics.CodeUnsupportedHeader || it.Resolve {
		t.Errorf("record 2 is refused with %+v, resolve record %v", it.Refusal, it.Resolve)
	}
	l.happened(pt)
	equal(t, "O of a checkpoint", p.done.Offset, 3)
	if again := p.Checkpoint(); again != nil {
		t.Errorf("O passes a record that is held: %+v", again.To)
	}
	equals(t, "records one by one", p.Take(testNow+2000, nil, 1, anyBytes).offsets(), []int64{3})
	equal(t, "bytes held", p.order.(*queue).bytes, 0)
}

// What a turn resolves holds back the store's position until the checkpoint is committed.
func TestResumeStaysBelowWhatIsUndecided(t *testing.T) {
	for _, atLeastOnce := range []bool{false, true} {
		t.Run(fmt.Sprintf("at least once %v", atLeastOnce), func(t *testing.T) {
			l := testOwner(t)
			l.atLeastOnce = atLeastOnce
			p := l.live(t)
			resume := func() int64 {
				t.Helper()
				p.dirty = true
				must(t, p.Sync())
				pos, _ := p.store.Position()
				return pos.Resume
			}
			far := testNow + 10*testWindow.Milliseconds()
			var log []*kgo.Record
			for offset := range int64(5000) { // some stretches of log
				log = append(log, req(offset, far, "orders"))
			}
			l.read(t, p, testNow, log...)
			equal(t, "resume with all in the store", resume(), 5000)
			l.read(t, p, testNow, req(5000, testNow, "orders"))
			at := resume()
			if at > 5000 {
				t.Errorf("resume is %d, and record 5000 is in memory only", at)
			}
			pt := p.Take(testNow, nil, 10, anyBytes)
			equal(t, "resume with the turn in flight", resume(), at)
			l.happened(pt)
			if atLeastOnce {
				equal(t, "resume with the checkpoint not yet written", resume(), at)
				l.happened(p.Checkpoint())
			}
			equal(t, "resume after the commit", resume(), 5001)
			log = nil
			for offset := int64(5001); offset < 7000; offset++ {
				log = append(log, control(offset))
			}
			l.read(t, p, testNow, log...)
			l.read(t, p, testNow, req(7000, testNow-1, "orders"))
			if at = resume(); at > 7000 {
				t.Errorf("resume is %d, and record 7000 is late", at)
			}
			refused := req(7001, testNow+10, "elsewhere")
			l.read(t, p, testNow, refused)
			pt = p.Take(testNow, nil, 1, anyBytes)
			l.happened(pt)
			if atLeastOnce {
				l.happened(p.Checkpoint())
			}
			if at = resume(); at > 7001 {
				t.Errorf("resume is %d, and record 7001 is refused", at)
			}
		})
	}
}

// While a list that is capped has notes left W stays, so nothing more is read until all of them are taken.
func TestNotesPauseReading(t *testing.T) {
	l := testOwner(t)
	l.audit = true
	p := l.live(t)
	offset := int64(0)
	for ; offset <= mostNotes; offset++ {
		if p.Full(testNow, l.room) {
			t.Fatalf("full with %d notes", offset)
		}
		_, err := p.Accept(req(offset, ms(100), "orders"), testNow)
		must(t, err)
	}
	for left := offset; left > 0; left -= 40_000 {
		equal(t, "full, with notes", p.Full(testNow, l.room), true)
		l.happened(p.Take(testNow, nil, 40_000, anyBytes))
	}
	equal(t, "full, without", p.Full(testNow, l.room), false)
	equal(t, "pending", p.Pending(), offset)
	equal(t, "O", p.Marks().Committed.Offset, offset)
	equal(t, "records", len(p.Take(testNow+100, nil, 10, anyBytes).Items), 10)
}

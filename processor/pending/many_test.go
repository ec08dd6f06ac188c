//go:build unix

package pending

import (
	"log/slog"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
)

// cpuTime is what this process has taken of processors so far, which other processes do not add to.
func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// growsAsItIs fails if 8 times as many take the square of that, 64 times as long. It takes the best of as many tries as it needs, since caches
// are shared with other processes; what does not fit into them takes up to 30 times as long.
func growsAsItIs(t *testing.T, n int64, takes func(t *testing.T, many int64) time.Duration) {
	t.Helper()
	few, many := time.Hour, time.Hour
	for try := 0; try == 0 || try < 8 && many > 40*few; try++ {
		few, many = min(few, takes(t, n)), min(many, takes(t, 8*n))
	}
	t.Logf("%d: %v, %d: %v", n, few, 8*n, many)
	if many > 40*few {
		t.Errorf("8 times as many take %.0f times as long: %v, %v", float64(many)/float64(few), few, many)
	}
}

// settling is what it takes to settle a turn that has dead-lettered so many records with ids, all due in one second.
func settling(t *testing.T, many int64) time.Duration {
	t.Helper()
	l := remembering(t, 2*time.Second)
	p := l.live(t)
	var log []*kgo.Record
	for i := range many {
		log = append(log, withID(req(i, ms(i%1000), "orders"), "a"+time.UnixMilli(i).String()))
	}
	l.read(t, p, testNow, log...)
	pt := p.Take(ms(1000), nil, int(many), anyBytes)
	if len(pt.Items) != int(many) {
		t.Fatalf("%d records", len(pt.Items))
	}
	for i := range pt.Items {
		pt.Items[i].Dead = true
	}
	began := cpuTime(t)
	l.happened(pt)
	return cpuTime(t) - began
}

// What a turn has dead-lettered is forgotten one by one, and costs what it is, not the square of that.
func TestManyDeadLettersOfOneSecond(t *testing.T) {
	growsAsItIs(t, 8000, settling)
}

// deciding is what it takes to decide on so many cancels of ids, of records that only the log holds.
func deciding(t *testing.T, many int64) time.Duration {
	t.Helper()
	l := testOwner(t)
	l.store = nil
	p := l.live(t)
	var log []*kgo.Record
	for i := range many {
		log = append(log, withID(req(i, ms(farMs), "orders"), "a"+time.UnixMilli(i).String()))
	}
	l.read(t, p, testNow, log...)
	fit(t, p, testNow, Room{Window: LeastWindow})
	if p.near.bytes > 0 {
		t.Fatalf("%d bytes are in memory", p.near.bytes)
	}
	for i := range log {
		log[i] = cancelling(many+int64(i), "a"+time.UnixMilli(int64(i)).String())
	}
	l.read(t, p, testNow, log...)
	began := cpuTime(t)
	must(t, p.decide())
	took := cpuTime(t) - began
	if n := p.ids.len(); n > 0 {
		t.Errorf("%d ids are known still", n)
	}
	return took
}

// So does what is cancelled by its id where only the log has the rest of it.
func TestManyCancelsOfWhatOnlyTheLogHas(t *testing.T) {
	growsAsItIs(t, 2000, deciding)
}

// decidingBesideLost is what it takes to decide on so many records with ids, while as many copies stand for what was given up.
func decidingBesideLost(t *testing.T, many int64) time.Duration {
	t.Helper()
	l := testOwner(t)
	var err error
	l.store, err = state.Open(state.Options{Dir: "state", FS: vfs.NewMem(), MemoryBudget: 64 << 20, Logger: slog.New(slog.DiscardHandler)}) // what few are is in memory, and so is what many are
	must(t, err)
	t.Cleanup(func() { l.store.Close() })
	p, err := l.assign(state.Checkpoint{Offset: many, LowWater: many, GivenUp: many, Appended: true}, many, 3*many, 3*many)
	must(t, err)
	for i := range many {
		r := withID(req(i, ms(farMs), "orders"), "a"+time.UnixMilli(i).String())
		headers := r.Headers
		r.Offset = many + i
		r.Headers, _ = topics.AppendCopy(nil, headers, testMark, topics.Copy{Seq: i, Due: ms(farMs), Timestamp: testNow, From: i}, nil)
		_, err := p.Accept(r, testNow)
		must(t, err)
	}
	for i := range many {
		_, err := p.Accept(withID(req(2*many+i, ms(farMs), "orders"), "b"+time.UnixMilli(i).String()), testNow)
		must(t, err)
	}
	must(t, p.Sync())
	must(t, p.goLive(l.room))
	began := cpuTime(t)
	must(t, p.Load(testNow, l.room))
	took := cpuTime(t) - began
	equal(t, "pending", p.ledger.Waiting(), int(2*many))
	return took
}

// What has an id is not compared with each copy of what was given up.
func TestManyIDsBesideWhatWasGivenUp(t *testing.T) {
	growsAsItIs(t, 500, decidingBesideLost)
}

// A group that is new where the log does not begin at 0 reads what has ids without end, and no copies: few of them wait for those.
func TestManyIDsAfterSomethingWasGivenUp(t *testing.T) {
	const many = 2 * mostIDsLost
	l := testOwner(t)
	p, err := l.assign(state.Checkpoint{Offset: 1, LowWater: 1, GivenUp: 1}, 1, 1+many, 1+many)
	must(t, err)
	for i := range int64(many) {
		_, err := p.Accept(withID(req(1+i, ms(farMs), "orders"), "a"+time.UnixMilli(i).String()), testNow)
		must(t, err)
	}
	equal(t, "open questions", len(p.questions), mostIDsLost)
	must(t, p.Sync())
	must(t, p.goLive(l.room))
	must(t, p.Load(testNow, l.room))
	equal(t, "pending", p.ledger.Waiting(), many)
}

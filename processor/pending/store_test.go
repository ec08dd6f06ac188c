package pending

import (
	"testing"

	"github.com/duewheel/duewheel/state"
)

// A store is of use unless it leads the checkpoint, ends below what is needed, or the log is
// shorter (design rule 5). What it holds below the start is pending without being read again.
func TestStoreOfUse(t *testing.T) {
	pos := state.Position{Resume: 30, Offset: 30, Watermark: state.Key{Due: ms(5), Seq: 7}, LowWater: 10}
	for _, c := range []struct {
		name    string
		c       state.Checkpoint
		end     int64
		start   int64
		pending int64
	}{
		{"it is as the checkpoint", state.Checkpoint{Offset: 30, LowWater: 10, Watermark: pos.Watermark}, 40, 30, 1},
		{"it lags behind", state.Checkpoint{Offset: 35, LowWater: 12, Watermark: state.Key{Due: ms(6), Seq: 1}}, 40, 30, 1},
		{"its W leads", state.Checkpoint{Offset: 30, LowWater: 10, Watermark: state.Key{Due: ms(5), Seq: 6}}, 40, 10, 0},
		{"its O leads", state.Checkpoint{Offset: 29, LowWater: 10, Watermark: pos.Watermark}, 40, 10, 0},
		{"it ends below L", state.Checkpoint{Offset: 35, LowWater: 31, Watermark: pos.Watermark}, 40, 31, 0},
		{"it is beyond the log", state.Checkpoint{Offset: 28, LowWater: 10, Watermark: pos.Watermark}, 29, 10, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := testOwner(t)
			p := l.live(t)
			putStored(t, p.store, req(20, ms(farMs), "orders"))
			must(t, p.store.Commit(pos))
			p, err := l.assign(c.c, 0, c.end, c.end)
			if err != nil {
				t.Fatal(err)
			}
			equal(t, "start", p.Marks().Start, c.start)
			equal(t, "pending", p.Pending(), c.pending)
			equal(t, "records in the store", int64(len(keysOf(t, p.store, p.lateUpTo))), c.pending)
		})
	}
}

// The store deletes behind the committed watermark, after the commit: what a turn in flight has
// taken is kept (design rule 5).
func TestStoreDeletesAfterTheCommit(t *testing.T) {
	l := testOwner(t)
	p := l.live(t)
	l.read(t, p, testNow, req(0, ms(farMs), "orders"), req(1, ms(farMs+1), "orders"))
	must(t, p.Load(ms(farMs+1), l.room))
	l.happened(p.Take(ms(farMs), nil, 1, anyBytes))
	inFlight := p.Take(ms(farMs+1), nil, 1, anyBytes)
	stored := func() (n int) {
		t.Helper()
		must(t, p.Tidy(true))
		if err := p.store.Scan(state.Key{}, func(state.Key, []byte) bool { n++; return true }); err != nil {
			t.Fatal(err)
		}
		return n
	}
	equal(t, "records in the store with the turn in flight", stored(), 1)
	l.happened(inFlight)
	equal(t, "records in the store after it", stored(), 0)
}

// A position is written when it says something new, and not each time.
func TestPositionIsWrittenWhenItIsNew(t *testing.T) {
	l := testOwner(t)
	p := l.live(t)
	tidied := func(what string, due, wrote bool) {
		t.Helper()
		_, before, err := l.store.Written()
		must(t, err)
		must(t, p.Tidy(due))
		_, after, err := l.store.Written()
		must(t, err)
		equal(t, what, after > before, wrote)
	}
	tidied("written of a partition that is new", true, true)
	tidied("written once more", true, false)
	l.read(t, p, testNow, req(0, ms(1), "orders"))
	tidied("written before it is due", false, false)
	l.happened(p.Checkpoint())
	tidied("written with another O", true, true)
	l.happened(p.Take(ms(1), nil, 1, anyBytes))
	tidied("written with another W", true, true)
	tidied("written although nothing happens", true, false)
}

// What is trimmed lies behind the watermark that the store's position bears: who goes on from that would miss it otherwise.
func TestPositionIsWrittenBeforeTheStoreIsTrimmed(t *testing.T) {
	l := testOwner(t)
	p := l.live(t)
	l.read(t, p, testNow, req(0, ms(farMs), "orders"))
	must(t, p.Load(ms(farMs), l.room))
	l.happened(p.Take(ms(farMs), nil, 1, anyBytes))
	p.spent = trimRecords
	must(t, p.Tidy(false))
	pos, _ := p.store.Position()
	equal(t, "watermark", pos.Watermark, p.Marks().Committed.Watermark)
	equal(t, "records in the store", len(keysOf(t, p.store, state.Key{})), 0)
}

// While a checkpoint says that something was given up the position bears none, since it cannot say so: who went on from it would pass over the copies of that.
func TestPositionBearsNothingGivenUp(t *testing.T) {
	l := testOwner(t)
	p, err := l.assign(state.Checkpoint{Offset: 1, LowWater: 1, GivenUp: 1, Appended: true}, 1, 2, 2)
	must(t, err)
	bears := func(what string, want bool) {
		t.Helper()
		must(t, p.Tidy(true))
		pos, _ := p.store.Position()
		equal(t, what, pos.IsCheckpoint(), want)
	}
	l.read(t, p, testNow, req(1, ms(farMs), "orders"))
	must(t, p.goLive(l.room))
	bears("a checkpoint before O has passed what was there then", false)
	l.happened(p.Checkpoint())
	bears("a checkpoint since", true)
}

package processor

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/pending"
	"github.com/duewheel/duewheel/processor/turn"
	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
)

// The rows of the design's table of bounds, each with what happens at it.

// mustBalance lets a lane look at its memory.
func (l *lane) mustBalance(t *testing.T) {
	t.Helper()
	if err := l.balance(testNow); err != nil {
		t.Fatal(err)
	}
}

// heavy is a request with a value of so many bytes.
func heavy(offset, due int64, bytes int) *kgo.Record {
	r := req(offset, due, "orders")
	r.Value = []byte(strings.Repeat("x", bytes))
	return r
}

// The memory budget is shared out as the table says, among as many lanes as there are.
func TestBudgetIsShared(t *testing.T) {
	for _, c := range []struct {
		budget              int64
		lanes               int
		near, store, fetch  int64 // the first and the last for each lane
		records, batchBytes int64 // likewise
	}{
		{256 << 20, 1, 128 << 20, 64 << 20, 16 << 20, 20_000, 16 << 20},
		{256 << 20, 4, 32 << 20, 64 << 20, 4 << 20, 8192, 8 << 20},
		{minMemory, 1, 16 << 20, 8 << 20, 2 << 20, 4096, 4 << 20},
		{minMemory, 4, 4 << 20, 8 << 20, 1 << 20, 1024, 1 << 20},
		{minMemory, 64, 256 << 10, 8 << 20, 1 << 20, 500, 1 << 20}, // the least that works
		{64 << 30, 1, 32 << 30, 16 << 30, 16 << 20, 20_000, 16 << 20},
	} {
		t.Run(fmt.Sprintf("%d MiB, %d lanes", c.budget>>20, c.lanes), func(t *testing.T) {
			p, err := New(Config{
				Client: []kgo.Opt{kgo.SeedBrokers("127.0.0.1:1")}, Group: "g", Routes: []topics.Route{testRoute(true)},
				MemoryBudget: c.budget, Lanes: c.lanes, FS: vfs.NewMem(), Logger: slog.New(slog.DiscardHandler),
			})
			if err != nil {
				t.Fatal(err)
			}
			l := p.lanes[c.lanes-1]
			equal(t, "near records", l.memory.budget, c.near)
			equal(t, "store", p.store.Options.MemoryBudget, c.store)
			equal(t, "records of a turn", l.selection.batch.records, int(c.records))
			equal(t, "bytes of a turn", l.selection.batch.bytes, c.batchBytes)
			equal(t, "bytes of a fetch", int64(p.cfg.fetchBytes()), c.fetch)
		})
	}
}

// The near window is as wide as memory allows: it is halved while near records take more than their share, down to a second, and
// doubled again when they take little.
func TestWindowFollowsMemory(t *testing.T) {
	l := testLane(t)
	p := livePartition(t, l)
	l.memory.budget = 1 << 20
	for offset := int64(0); l.memory.used <= l.memory.budget; offset++ {
		l.read(t, p, testNow, heavy(offset, ms(offset%pending.LeastWindow), 64<<10))
		equal(t, "window below the bound", l.memory.window, l.windowMax)
		l.mustBalance(t)
	}
	for want := l.windowMax / 2; want > pending.LeastWindow; want /= 2 {
		equal(t, "window of a lane that is short of memory", l.memory.window, want)
		l.mustBalance(t)
	}
	l.mustBalance(t)
	equal(t, "the narrowest window", l.memory.window, pending.LeastWindow)
	l.happened(p.take(ms(pending.LeastWindow), nil, 1000, anyBytes))
	for want := int64(2 * pending.LeastWindow); want < l.windowMax; want *= 2 {
		l.mustBalance(t)
		equal(t, "window of a lane that has room", l.memory.window, want)
	}
	l.mustBalance(t)
	equal(t, "the widest window", l.memory.window, l.windowMax)
}

// Each partition without a store has an equal share of the near records, and the memory of a few parts that were delivered is kept.
func TestSharesAndSpares(t *testing.T) {
	l := testLane(t)
	equal(t, "share of a lane without partitions", l.memory.room(0).Share, l.memory.budget)
	equal(t, "share of each of four", l.memory.room(4).Share, l.memory.budget/4)
	for range 2 * mostSpare {
		l.selection.recycle(&turn.Part{Part: &pending.Part{Items: make([]pending.Item, 10)}})
	}
	equal(t, "parts whose memory is kept", len(l.selection.spare), mostSpare)
	many := l.cfg.BatchRecords
	for l.selection.items() != nil {
	}
	for _, n := range []int{many / 2, many, many, 10} {
		l.selection.recycle(&turn.Part{Part: &pending.Part{Items: make([]pending.Item, n)}})
	}
	equal(t, "parts whose memory is kept of those that are as large as a turn", len(l.selection.spare), 3)
	equal(t, "memory of the next part", cap(l.selection.items()), many)
	items := []pending.Item{{Run: make([]byte, 1)}}
	l.selection.recycle(&turn.Part{Part: &pending.Part{Items: items}})
	equal(t, "what was settled is kept by it", items[0].Run != nil, false)
}

// Late records are held in memory, and cannot be spilled: above an eighth of the near records' share a partition is not read on,
// until half of them are gone.
func TestLateRecordsPauseReading(t *testing.T) {
	l := testLane(t)
	p := livePartition(t, l)
	l.read(t, p, testNow, req(0, ms(0), "orders"))
	l.happened(p.take(testNow, nil, 10, anyBytes)) // moves W, so that what comes below is late
	bound := max(l.memory.budget/8, 1<<20)
	offset := int64(1)
	for p.Figures(testNow).Bytes <= bound {
		equal(t, "paused below the bound", p.paused, false)
		l.read(t, p, testNow, heavy(offset, ms(-1), 64<<10))
		offset++
		l.mustBalance(t)
	}
	equal(t, "paused", p.paused, true)
	for p.Figures(testNow).Bytes >= bound/2 {
		equal(t, "paused while it is drained", p.paused, true)
		l.happened(p.take(testNow, nil, 1, anyBytes))
		l.mustBalance(t)
	}
	equal(t, "paused with room", p.paused, false)
}

// A fixed-delay queue is not read on while it holds enough: its share of memory, or a thousand records beyond the near window.
func TestQueuePausesReading(t *testing.T) {
	for _, c := range []struct {
		name  string
		delay time.Duration
		bytes int
	}{
		{"bytes", time.Second, 64 << 10},
		{"records", 10 * testWindow, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := testLane(t)
			r := testRoute(true)
			r.Target, r.Delay = "orders", c.delay
			l.routes[testTopic] = mustRoute(r)
			p := livePartition(t, l)
			enough := func() bool {
				return p.Figures(testNow).Bytes > max(l.memory.budget/2, 1<<18) || c.bytes == 1 && p.Pending() > 1000
			}
			for offset := int64(0); !enough(); offset++ {
				equal(t, "paused below the bound", p.paused, false)
				r := heavy(offset, 0, c.bytes)
				r.Headers = nil
				l.read(t, p, testNow, r)
				l.mustBalance(t)
			}
			equal(t, "paused", p.paused, true)
			for p.Pending() > 0 && p.paused {
				l.happened(p.take(testNow+c.delay.Milliseconds(), nil, 1, anyBytes))
				l.mustBalance(t)
			}
			if n := p.Pending(); p.paused || n == 0 {
				t.Errorf("paused %v with %d records", p.paused, n)
			}
		})
	}
}

// A turn's records are bounded in bytes, over all partitions.
func TestTurnBytes(t *testing.T) {
	const value = 10_000
	l := testLane(t, func(c *Config) { c.BatchBytes = 10*value + value/2 })
	var order []*partition
	for range 2 {
		p := livePartition(t, l)
		for offset := range int64(8) {
			l.read(t, p, testNow, heavy(offset, ms(1), value))
		}
		order = append(order, p)
	}
	l.order, l.selection.brisk = order, 1
	parts, full := l.selection.records(l.order, ms(2))
	var bytes int
	for _, pt := range parts {
		for _, it := range pt.Items {
			bytes += len(it.Run)
		}
	}
	if least, most := 9*value, 12*value; !full || bytes < least || bytes > most {
		t.Errorf("%d bytes in %d parts, full %v; want from %d to %d", bytes, len(parts), full, least, most)
	}
}

// The bytes of near records are above the bound: what is near is spilled, and a partition that cannot get below is not read on.
func TestNearRecordsPauseReading(t *testing.T) {
	l := testLane(t)
	p := livePartition(t, l)
	l.memory.budget = 1 << 20
	for offset := int64(0); l.memory.used <= l.memory.budget; offset++ {
		equal(t, "paused below the bound", p.paused, false)
		l.read(t, p, testNow, heavy(offset, ms(offset%pending.LeastWindow), 64<<10))
		l.mustBalance(t)
	}
	equal(t, "paused", p.paused, true)
	l.happened(p.take(ms(pending.LeastWindow), nil, 1000, anyBytes))
	l.mustBalance(t)
	equal(t, "paused with room", p.paused, false)
	equal(t, "records held", p.Pending(), 0)
	equal(t, "W", p.Marks().Done.Watermark != state.Key{}, true)
}

// Where one partition fills memory, those that hold little of it are read on: they hold less than an eighth of their share.
func TestReadingGoesOnBesideAFullPartition(t *testing.T) {
	l := testLane(t)
	l.memory.budget = 32 << 20
	full, other := livePartition(t, l), livePartition(t, l)
	l.order = []*partition{full, other}
	read := func(p *partition, offset int64, bytes int) {
		t.Helper()
		l.read(t, p, testNow, heavy(offset, ms(offset%pending.LeastWindow), bytes))
		l.mustBalance(t)
	}
	for offset := int64(0); !full.paused; offset++ {
		if full.Memory() > 2*l.memory.budget {
			t.Fatal("reading goes on beyond the budget")
		}
		read(full, offset, 64<<10)
	}
	share := l.memory.room(2).Share
	for offset := int64(0); other.Memory() <= share/8; offset++ {
		equal(t, "one that holds little is paused", other.paused, false)
		read(other, offset, 16<<10)
	}
	equal(t, "one that holds more is paused", other.paused, true)
	for other.Memory() > share/16 {
		equal(t, "paused while it is drained", other.paused, true)
		l.happened(other.take(ms(pending.LeastWindow), nil, 4, anyBytes))
		l.mustBalance(t)
	}
	equal(t, "paused when it holds little again", other.paused, false)
	equal(t, "the one that fills memory is paused", full.paused, true)
}

// However many partitions there are, what is late in all of them together stays in bounds: what each may hold of it in memory is a part of its share. In a
// catch-up the store keeps the rest; a live partition that has none is not read on.
func TestLateListsOfManyPartitionsAreBounded(t *testing.T) {
	const partitions, value = 32, 16 << 10
	for _, live := range []bool{false, true} {
		l := testLane(t)
		l.memory.budget = partitions << 20
		for n := range int32(partitions) {
			p, err := l.empty(n, !live)
			if err == nil && live {
				err = p.goLive(l.memory.room(partitions))
			}
			if err != nil {
				t.Fatal(err)
			}
			l.order = append(l.order, p)
		}
		for offset := range int64(110) {
			for _, p := range l.order {
				if p.paused {
					continue
				}
				r := req(offset, ms(1000), "not allowed")
				r.Value = make([]byte, value)
				l.read(t, p, testNow, r)
			}
			l.mustBalance(t)
			l.memory.measure(l.order)
			if most := l.memory.budget * 5 / 4; l.memory.used > most { // memory is taken in pieces
				t.Fatalf("live: %v; %d records that are refused in each of %d partitions take %d bytes of %d", live, offset+1, partitions, l.memory.used, l.memory.budget)
			}
		}
	}
}

package processor

import (
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/state"
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

// Late records are held in memory, and cannot be spilled: above an eighth of the near records' share a partition is not read on,
// until half of them are gone.
func TestLateRecordsPauseReading(t *testing.T) {
	l := testLane(t)
	p := livePartition(t, l)
	l.read(t, p, testNow, req(0, ms(0), "orders"))
	l.happened(p.prepare(testNow, nil, 10, anyBytes)) // moves W, so that what comes below is late
	bound := max(l.nearBudget/8, 1<<20)
	offset := int64(1)
	for p.lateBytes <= bound {
		equal(t, "paused below the bound", p.paused, false)
		l.read(t, p, testNow, heavy(offset, ms(-1), 64<<10))
		offset++
		l.mustBalance(t)
	}
	equal(t, "paused", p.paused, true)
	for p.lateBytes >= bound/2 {
		equal(t, "paused while it is drained", p.paused, true)
		l.happened(p.prepare(testNow, nil, 1, anyBytes))
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
			l.p.routes[testTopic] = mustRoute(r)
			p := livePartition(t, l)
			enough := func() bool {
				return p.queue.bytes > max(l.nearBudget/2, 1<<18) || c.bytes == 1 && p.queue.len() > 1000
			}
			for offset := int64(0); !enough(); offset++ {
				equal(t, "paused below the bound", p.paused, false)
				r := heavy(offset, 0, c.bytes)
				r.Headers = nil
				l.read(t, p, testNow, r)
				l.mustBalance(t)
			}
			equal(t, "paused", p.paused, true)
			for p.queue.len() > 0 && p.paused {
				l.happened(p.prepare(testNow+c.delay.Milliseconds(), nil, 1, anyBytes))
				l.mustBalance(t)
			}
			if n := p.queue.len(); p.paused || n == 0 {
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
	l.order = order
	parts, full := l.dueRecords(ms(2))
	var bytes int
	for _, pt := range parts {
		for _, it := range pt.items {
			bytes += len(it.run)
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
	l.nearBudget = 1 << 20
	for offset := int64(0); l.nearBytes <= l.nearBudget; offset++ {
		equal(t, "paused below the bound", p.paused, false)
		l.read(t, p, testNow, heavy(offset, ms(offset%windowFloor), 64<<10))
		l.mustBalance(t)
	}
	equal(t, "paused", p.paused, true)
	l.happened(p.prepare(ms(windowFloor), nil, 1000, anyBytes))
	l.mustBalance(t)
	equal(t, "paused with room", p.paused, false)
	equal(t, "bytes of chunks", p.near.bytes, 0)
	equal(t, "W", p.done.Watermark != state.Key{}, true)
}

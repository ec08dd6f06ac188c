package pending

import (
	"fmt"
	"testing"

	"github.com/duewheel/duewheel/state"
)

// What is due at one instant and does not fit into memory is streamed from the store: what is loaded leaves room for what is read, so that
// reading never pauses, whatever size the records have.
func TestLoadLeavesRoom(t *testing.T) {
	for _, c := range []struct {
		n, bytes int
		others   int64 // bytes that other partitions hold
	}{
		{60_000, 0, 0},
		{5000, 2000, 0},
		{100, 128 << 10, 0},
		{100, 128 << 10, 1 << 20},
		{2000, 2000, 1 << 20},
	} {
		t.Run(fmt.Sprintf("%d of %d bytes beside %d", c.n, c.bytes, c.others), func(t *testing.T) {
			l := testOwner(t)
			p := l.live(t)
			now := ms(farMs)
			for offset := range int64(c.n) {
				r := req(offset, now, "orders")
				r.Value = make([]byte, c.bytes)
				_, err := p.Accept(r, testNow)
				must(t, err)
			}
			must(t, p.Sync())
			l.room.Window, l.room.Budget, l.room.Share = LeastWindow, 2<<20, 1<<20
			delivered, most := 0, int64(0)
			for step := range 4 * c.n {
				for range 5 {
					l.room.Used = c.others + p.Memory()
					must(t, p.Load(now-LeastWindow/2+int64(step), l.room)) // ahead of time at first
				}
				l.room.Used = c.others + p.Memory()
				most = max(most, p.Memory())
				if p.Full(now, l.room) {
					t.Fatalf("step %d: reading pauses with %d bytes in memory of %d, and %d delivered", step, l.room.Used, l.room.Budget, delivered)
				}
				if pt := p.Take(now, nil, 100, 256<<10); pt != nil {
					delivered += len(pt.Items)
					l.happened(pt)
				}
				if delivered == c.n {
					break
				}
			}
			must(t, Check(p))
			equal(t, "delivered", delivered, c.n)
			if least := l.room.Share / 4; most < least && c.n*c.bytes > int(least) {
				t.Errorf("%d bytes were in memory at most, want %d", most, least)
			}
		})
	}
}

// A partition that becomes live takes no more than its share of memory of what the store holds for then, and has the rest by and by.
func TestGoLiveTakesItsShare(t *testing.T) {
	l := testOwner(t)
	p := l.live(t)
	const n = 4000
	for offset := range int64(n) {
		r := req(offset, ms(farMs+offset%1000), "orders")
		r.Value = make([]byte, 2000)
		_, err := p.Accept(r, testNow)
		must(t, err)
	}
	l.happened(p.Checkpoint())
	must(t, p.Flush())
	p, err := l.assign(p.committed, 0, n, n)
	must(t, err)
	p.horizon.Due = ms(farMs + 2000) // as if much time had passed: what was far is near
	p.Pass(n, 0)
	l.room.Budget, l.room.Share, l.room.Used = 32<<20, 2<<20, 0
	must(t, p.goLive(l.room))
	if held := p.Memory(); held > l.room.Share {
		t.Errorf("%d bytes are in memory, of %d", held, l.room.Share)
	}
	equal(t, "pending", p.Pending(), n)
	delivered, last := 0, state.Key{}
	for range n {
		l.room.Used = p.Memory()
		must(t, p.Load(ms(farMs+1000), l.room))
		pt := p.Take(ms(farMs+1000), nil, 100, anyBytes)
		if pt == nil {
			break
		}
		for _, it := range pt.Items {
			if !last.Less(it.Key) {
				t.Fatalf("%v comes after %v", it.Key, last)
			}
			last = it.Key
		}
		delivered += len(pt.Items)
		l.happened(pt)
	}
	equal(t, "delivered", delivered, n)
}

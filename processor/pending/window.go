package pending

import (
	"fmt"
	"math"

	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/wheel"
)

const (
	loadRecords = 20_000 // how many records are loaded from the store in one step
	// LeastWindow is how far ahead a live partition keeps its records in memory at least, in ms. It pauses
	// reading instead.
	LeastWindow = 1000
)

// Room is how much memory there is for pending records, and how far ahead they are kept in it.
type Room struct {
	Window int64 // ms ahead of the clock
	Most   int64 // ms: the window when there is enough
	Budget int64 // bytes, for all partitions of the owner
	Used   int64 // of that
	Share  int64 // of one partition
}

// Load brings what is due soon from the store into the wheel, ahead of need: the upper wheel
// cascades into the lower one.
func (p *Partition) Load(now int64, room Room) error {
	if p.queue != nil || !p.live {
		return nil
	}
	if p.Storeless() {
		if p.Far() == 0 {
			p.horizon = farthest
		}
		return nil
	}
	clock := max(now, p.judge.Due)
	target := clock + room.Window
	if p.horizon.Due >= target-room.Window/8 {
		return nil
	}
	if p.Far() == 0 {
		p.horizon = state.Key{Due: target, Seq: math.MaxInt64}
		return nil
	}
	if p.wheel.Len() > loadRecords && (room.Used > room.Budget || p.horizon.Due > clock+LeastWindow && room.Used > room.Budget/2) {
		return nil // what is loaded already keeps it busy, and memory is short
	}
	if err := p.Sync(); err != nil {
		return err
	}
	return p.loadUpTo(target, room.Budget/8)
}

// loadUpTo moves the horizon to a due time, or as far as one step may bring.
func (p *Partition) loadUpTo(target, atMost int64) error {
	var last state.Key
	var bytes int64
	n, more := 0, false
	from := p.horizon
	if from.Less(p.judge) {
		from = p.judge // what is at or below W is delivered, or in the turn in flight
	}
	err := p.store.Scan(from, func(k state.Key, run []byte) bool {
		if k.Due > target {
			return false
		}
		if more = n == loadRecords || bytes > atMost; more {
			return false
		}
		n, bytes, last = n+1, bytes+int64(len(run)), k
		r := p.near.put(k.Due, run, true)
		p.wheel.Add(wheel.Tick(k.Due), k.Seq, uint64(r))
		return true
	})
	if err != nil {
		if n > 0 {
			p.horizon = last // as far as it got, for an owner that goes on without the store
		}
		return fmt.Errorf("load records from the store: %w", err)
	}
	p.horizon = state.Key{Due: target, Seq: math.MaxInt64}
	if more {
		p.horizon = last
	}
	return nil
}

// GoLive ends a catch-up. What the store held below start has not been read again: what of it
// is due soon has to be brought into the wheel. What it holds from start on is either in the
// wheel, having been read again, or has been put there again above the horizon.
func (p *Partition) GoLive(room Room) error {
	if p.store != nil && p.Far() > 0 {
		if err := p.Sync(); err != nil {
			return err
		}
		full := false
		last := state.Key{}
		err := p.store.Scan(p.judge, func(k state.Key, run []byte) bool {
			if p.horizon.Less(k) || full {
				return false
			}
			if offset, err := recordOffset(run); err != nil || offset >= p.start {
				return true
			}
			last = k
			r := p.near.put(k.Due, run, true)
			p.wheel.Add(wheel.Tick(k.Due), k.Seq, uint64(r))
			full = p.near.bytes > room.Budget/2
			return true
		})
		if err != nil {
			return fmt.Errorf("load records from the store: %w", err)
		}
		if full {
			if err := p.spillFrom(last.Due); err != nil {
				return err
			}
		}
	}
	p.live = true
	return nil
}

// spillFrom moves every near record due at or after dueMillis to the store.
func (p *Partition) spillFrom(dueMillis int64) error {
	if p.store == nil || p.horizon.Due < dueMillis {
		return nil
	}
	var err error
	p.wheel.TakeFrom(wheel.Tick(dueMillis), func(e wheel.Entry) {
		r := ref(e.Ref)
		run := p.near.get(r)
		if !r.stored() && err == nil {
			err = p.store.Put(state.Key{Due: int64(e.Due), Seq: e.Seq}, run)
			p.dirty = true
		}
		p.let(e)
	})
	p.horizon = state.Key{Due: dueMillis - 1, Seq: math.MaxInt64}
	if err != nil {
		return fmt.Errorf("spill records to the store: %w", err)
	}
	return p.Sync()
}

// Fit gives memory back when there is too little for all: what is due last goes to the store, or back
// to the log.
func (p *Partition) Fit(now int64, room Room) error {
	if p.Storeless() {
		p.shorten(now, room.Share)
		return nil
	}
	limit := max(now, p.judge.Due) + room.Window + 1
	if !p.live {
		if next, ok := p.wheel.Next(); ok && room.Window <= LeastWindow {
			limit = min(limit, int64(next))
		}
	}
	return p.spillFrom(limit)
}

// Full reports whether it takes in nothing until there is room. One that is not live never is, since
// nothing would drain it.
func (p *Partition) Full(now int64, room Room) bool {
	lateCap := max(room.Budget/8, 1<<20)
	switch {
	case !p.live:
	case p.queue != nil:
		cap := max(room.Share/2, 1<<18)
		if p.queue.bytes > cap || p.queue.len() > 1000 && p.queue.last() > now+room.Most {
			p.full = true
		} else if p.queue.bytes < cap/2 && (p.queue.len() <= 1000 || p.queue.last() < now+room.Most/2) {
			p.full = false
		}
	case p.lateBytes > lateCap, room.Used > room.Budget && p.wheel.Len() > 0:
		p.full = true
	case p.lateBytes < lateCap/2 && (room.Used < room.Budget*3/4 || p.wheel.Len() == 0):
		p.full = false // one that holds nothing cannot make room
	}
	return p.full
}

// Memory is what the pending records take.
func (p *Partition) Memory() int64 { return p.near.bytes + int64(p.wheel.Bytes()) }

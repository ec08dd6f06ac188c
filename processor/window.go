package processor

import (
	"fmt"
	"math"
	"time"

	"github.com/duewheel/duewheel/processor/wait"
	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/wheel"
)

const (
	loadRecords = 20_000 // how many records are loaded from the store in one step
	windowFloor = 1000   // ms: a live partition keeps at least this much in memory and pauses reading instead
)

// load brings what is due soon from the store into the wheel, ahead of need: the upper wheel
// cascades into the lower one.
func (l *lane) load(p *partition, now int64) error {
	if p.queue != nil || !p.live() {
		return nil
	}
	if p.storeless() {
		if p.far() == 0 {
			p.horizon = farthest
		}
		return nil
	}
	clock := max(now, p.judge.Due)
	target := clock + l.window
	if p.horizon.Due >= target-l.window/8 {
		return nil
	}
	if p.far() == 0 {
		p.horizon = state.Key{Due: target, Seq: math.MaxInt64}
		return nil
	}
	if p.wheel.Len() > loadRecords && (l.nearBytes > l.nearBudget || p.horizon.Due > clock+windowFloor && l.nearBytes > l.nearBudget/2) {
		return nil // what is loaded already keeps it busy, and memory is short
	}
	if err := l.sync(p); err != nil {
		return err
	}
	return l.loadUpTo(p, target)
}

// loadUpTo moves the horizon to a due time, or as far as one step may bring.
func (l *lane) loadUpTo(p *partition, target int64) error {
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
		if more = n == loadRecords || bytes > l.nearBudget/8; more {
			return false
		}
		n, bytes, last = n+1, bytes+int64(len(run)), k
		r := p.near.put(k.Due, run, true)
		p.wheel.Add(wheel.Tick(k.Due), k.Seq, uint64(r))
		return true
	})
	if err != nil {
		if n > 0 {
			p.horizon = last // as far as it got, for who goes on without the store
		}
		return p.describe("load records from the store of", err)
	}
	p.horizon = state.Key{Due: target, Seq: math.MaxInt64}
	if more {
		p.horizon = last
	}
	return nil
}

// goLive ends a catch-up. What the store held below start has not been read again: what of it
// is due soon has to be brought into the wheel. What it holds from start on is either in the
// wheel, having been read again, or has been put there again above the horizon.
func (l *lane) goLive(p *partition, now int64) error {
	if p.store != nil && p.far() > 0 {
		if err := l.sync(p); err != nil {
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
			full = p.near.bytes > l.nearBudget/2
			return true
		})
		if err != nil {
			return p.describe("load records from the store of", err)
		}
		if full {
			if err := l.spillFrom(p, last.Due); err != nil {
				return err
			}
		}
	}
	p.phase, p.err, p.liveAt = PhaseLive, nil, time.Now()
	return nil
}

// spillFrom moves every near record due at or after dueMillis to the store.
func (l *lane) spillFrom(p *partition, dueMillis int64) error {
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
		return p.describe("spill records to the store of", err)
	}
	return l.sync(p)
}

// balance keeps the near records inside the budget: the window shrinks and its far end goes to
// the store; it widens again when there is room. A live partition that still holds too much
// pauses reading. One that is not live never does, since nothing would drain it.
func (l *lane) balance(now int64) error {
	l.nearBytes = 0
	for _, p := range l.parts {
		if p.near != nil {
			l.nearBytes += p.near.bytes
		}
		if p.wheel != nil {
			l.nearBytes += int64(p.wheel.Bytes())
		}
	}
	switch {
	case l.nearBytes > l.nearBudget:
		if l.window > windowFloor {
			l.window = max(l.window/2, windowFloor)
		}
		for _, p := range l.parts {
			if p.wheel == nil {
				continue
			}
			if p.storeless() {
				l.shorten(p, now)
				continue
			}
			clock := max(now, p.judge.Due)
			limit := clock + l.window + 1
			if !p.live() {
				if next, ok := p.wheel.Next(); ok && l.window <= windowFloor {
					limit = min(limit, int64(next))
				}
			}
			if err := l.spillFrom(p, limit); err != nil {
				return err
			}
		}
	case l.nearBytes < l.nearBudget/4 && l.window < l.windowMax:
		l.window = min(2*l.window, l.windowMax)
	}
	l.throttle(now)
	return nil
}

// restReading leaves a partition alone for a while that brokers do not let be read. What was read before
// is as good as ever, and is delivered.
func (l *lane) restReading(p *partition, why error) {
	rest := max(p.refusals.Failed(), wait.LeastRest)
	if p.unread == nil {
		l.log.Warn("partition cannot be read; trying again", "topic", p.tp.Topic, "partition", p.tp.Partition, "error", why)
	}
	p.unread = fmt.Errorf("cannot be read: %w", why)
	p.resting = time.Now().Add(rest)
}

// throttle pauses and resumes reading, partition by partition.
func (l *lane) throttle(now int64) {
	pause, resume := map[string][]int32{}, map[string][]int32{}
	lateCap := max(l.nearBudget/8, 1<<20)
	for _, p := range l.parts {
		want := p.full
		switch {
		case !p.live():
		case p.queue != nil:
			cap := max(l.nearBudget/int64(2*len(l.parts)), 1<<18)
			if p.queue.bytes > cap || p.queue.len() > 1000 && p.queue.last() > now+l.windowMax {
				want = true
			} else if p.queue.bytes < cap/2 && (p.queue.len() <= 1000 || p.queue.last() < now+l.windowMax/2) {
				want = false
			}
		case p.lateBytes > lateCap, l.nearBytes > l.nearBudget && p.wheel.Len() > 0:
			want = true
		case p.lateBytes < lateCap/2 && (l.nearBytes < l.nearBudget*3/4 || p.wheel.Len() == 0):
			want = false // one that holds nothing cannot make room
		}
		p.full = want
		if want = p.full || time.Now().Before(p.resting); want == p.paused {
			continue
		}
		p.paused = want
		if want {
			pause[p.tp.Topic] = append(pause[p.tp.Topic], p.tp.Partition)
		} else {
			resume[p.tp.Topic] = append(resume[p.tp.Topic], p.tp.Partition)
		}
	}
	if len(pause) > 0 {
		l.reader.PauseFetchPartitions(pause)
	}
	if len(resume) > 0 {
		l.reader.ResumeFetchPartitions(resume)
	}
}

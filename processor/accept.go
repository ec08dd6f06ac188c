package processor

import (
	"fmt"
	"math"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
	"github.com/duewheel/duewheel/wheel"
)

// accept takes in one record of the delay topic. From then on the record is pending, or on the
// list of what is resolved when O passes it, or already resolved.
func (l *lane) accept(p *partition, r *kgo.Record, now int64) error {
	if r.Offset < p.position {
		return nil // read twice: the reader was set back
	}
	p.position = r.Offset + 1
	if r.Attrs.IsControl() {
		return nil
	}
	replay := r.Offset < p.accepted
	req, err := p.parserAt(r.Offset).Parse(r.Headers, r.Timestamp.UnixMilli(), r.Offset, p.id.short())
	if err != nil {
		refusal := err.(*topics.Refusal)
		if replay {
			return nil // resolved when O passed it
		}
		l.p.counters.refused.add(string(refusal.Code), 1)
		p.stats.accepted.Add(1)
		return l.refuse(p, r, refusal, state.Key{})
	}
	if req.Kind == topics.KindResolve {
		return l.resolve(p, state.Key{Due: req.ResolveDue, Seq: req.ResolveSeq})
	}
	if !replay {
		p.stats.accepted.Add(1)
	}
	key := state.Key{Due: req.Due, Seq: r.Offset}
	if p.queue != nil {
		return l.enqueue(p, r, &req, now)
	}
	if !p.judge.Less(key) { // at or below W
		if replay {
			return nil
		}
		p.stats.late.Add(1)
		if refusal := p.route.Refuse(&req, now); refusal != nil {
			return l.refuse(p, r, refusal, state.Key{})
		}
		l.addLate(p, r, item{key: key})
		return nil
	}
	// What was accepted below O may have been judged by another configuration: a replay never
	// refuses (design rule 10).
	if !replay {
		if refusal := p.route.Refuse(&req, now); refusal != nil {
			return l.refuse(p, r, refusal, key)
		}
		l.p.targets.of(req.Target) // looked up by the time it is due
	}
	if !p.horizon.Less(key) {
		run := l.putNear(p, r, key)
		p.pend(key, r.Offset, len(p.near.get(run)), run)
		return nil
	}
	l.scratch = appendRecord(l.scratch[:0], r)
	if err := p.store.Put(key, l.scratch); err != nil {
		return fmt.Errorf("store record %d of %s: %w", r.Offset, p.tp, err)
	}
	p.dirty = true
	p.ledger.Add(key, r.Offset, len(l.scratch), true)
	return nil
}

// putNear copies a record out of the fetch that it came with.
func (l *lane) putNear(p *partition, r *kgo.Record, key state.Key) ref {
	i, b := p.near.alloc(key.Due, recordSizeBound(r))
	return p.near.commit(i, appendRecord(b, r), false)
}

// refuse puts a record on the list of what is resolved when O passes it; it will be
// dead-lettered then. key is its key when that is above the watermark: a replay could take it
// for pending, so a resolve record has to say that it is not.
func (l *lane) refuse(p *partition, r *kgo.Record, refusal *topics.Refusal, key state.Key) error {
	it := item{key: key, refusal: refusal, resolve: key != state.Key{}}
	if p.queue != nil {
		it.resolve = false
		it.offset = r.Offset
		it.ref = l.putNear(p, r, key)
		it.run = p.near.get(it.ref)
		p.queue.push(it)
		return nil
	}
	l.addLate(p, r, it)
	return nil
}

func (l *lane) addLate(p *partition, r *kgo.Record, it item) {
	it.offset = r.Offset
	it.ref = l.putNear(p, r, it.key)
	it.run = p.near.get(it.ref)
	p.late = append(p.late, it)
	p.lateBytes += int64(len(it.run))
	p.ledger.Hold(r.Offset)
}

// enqueue is accept for a fixed-delay route.
func (l *lane) enqueue(p *partition, r *kgo.Record, req *topics.Request, now int64) error {
	it := item{key: state.Key{Due: req.Due, Seq: r.Offset}, offset: r.Offset}
	if refusal := p.route.Refuse(req, now); refusal != nil {
		return l.refuse(p, r, refusal, state.Key{})
	}
	l.p.targets.of(req.Target)
	it.ref = l.putNear(p, r, it.key)
	it.run = p.near.get(it.ref)
	p.queue.push(it)
	return nil
}

// resolve applies a resolve record of ours: what it names is not pending any more.
func (l *lane) resolve(p *partition, key state.Key) error {
	if p.queue != nil || !p.judge.Less(key) {
		return nil
	}
	if u, ok := p.wheel.Remove(wheel.Tick(key.Due), key.Seq); ok {
		r := ref(u)
		run := p.near.get(r)
		offset, err := recordOffset(run)
		if err != nil {
			return p.describe("resolve a record of", err)
		}
		p.ledger.Remove(key, offset, len(run), r.stored())
		p.near.release(r)
	} else if far := p.horizon.Less(key); far || !p.live() {
		// Before it is live, what the store holds below start is not in the wheel either.
		if err := l.sync(p); err != nil {
			return err
		}
		err := p.store.Scan(state.Key{Due: key.Due, Seq: key.Seq - 1}, func(k state.Key, run []byte) bool {
			if k == key {
				if offset, err := recordOffset(run); err == nil && (offset < p.start || far && offset < p.position) {
					p.ledger.Remove(key, offset, len(run), true)
				}
			}
			return false
		})
		if err != nil {
			return p.describe("look for a resolved record in the store of", err)
		}
	}
	// The store may hold it from an earlier life even when it was in the wheel.
	p.dirty = true
	return p.store.Delete(key)
}

// sync writes what the store's open batch holds, with the position that belongs to it.
func (l *lane) sync(p *partition) error {
	if !p.dirty {
		return nil
	}
	p.dirty = false
	return p.store.Commit(state.Position{
		Resume:    p.ledger.Resume(p.position),
		Offset:    p.committed.Offset,
		Watermark: p.committed.Watermark,
		LowWater:  p.committed.LowWater,
	})
}

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
	if p.queue == nil && p.far() > 0 {
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
	p.phase, p.err = PhaseLive, nil
	return nil
}

// spillFrom moves every near record due at or after dueMillis to the store.
func (l *lane) spillFrom(p *partition, dueMillis int64) error {
	if p.queue != nil || p.horizon.Due < dueMillis {
		return nil
	}
	var err error
	p.wheel.TakeFrom(wheel.Tick(dueMillis), func(e wheel.Entry) {
		r := ref(e.Ref)
		run := p.near.get(r)
		if !r.stored() && err == nil {
			err = p.store.Put(state.Key{Due: int64(e.Due), Seq: e.Seq}, run)
			if offset, bad := recordOffset(run); bad == nil {
				p.ledger.Stored(offset)
			}
			p.dirty = true
		}
		p.near.release(r)
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

// throttle pauses and resumes reading, partition by partition.
func (l *lane) throttle(now int64) {
	pause, resume := map[string][]int32{}, map[string][]int32{}
	lateCap := max(l.nearBudget/8, 1<<20)
	for _, p := range l.parts {
		if !p.live() {
			continue
		}
		want := p.paused
		switch {
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
		if want == p.paused {
			continue
		}
		p.paused = want
		if want {
			pause[p.tp.topic] = append(pause[p.tp.topic], p.tp.partition)
		} else {
			resume[p.tp.topic] = append(resume[p.tp.topic], p.tp.partition)
		}
	}
	if len(pause) > 0 {
		l.reader.PauseFetchPartitions(pause)
	}
	if len(resume) > 0 {
		l.reader.ResumeFetchPartitions(resume)
	}
}

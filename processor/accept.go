package processor

import (
	"fmt"

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
	if err := l.admit(p, r, now); err != nil {
		return err
	}
	p.position = r.Offset + 1
	return nil
}

// admit does what a record asks for. The position moves behind it when all of that is in the open
// batch: a commit of the store on the way must not say that it was taken in.
func (l *lane) admit(p *partition, r *kgo.Record, now int64) error {
	if r.Attrs.IsControl() {
		return nil
	}
	replay := r.Offset < p.accepted
	stamp := r.Timestamp.UnixMilli()
	if p.queue != nil {
		stamp = p.queue.stamp(r, now, l.cfg.MaxClockSkew.Milliseconds())
	}
	req, err := p.parsers.at(r.Offset).Parse(r.Headers, stamp, r.Offset, p.mark)
	if err != nil {
		refusal := err.(*topics.Refusal)
		if replay {
			return nil // resolved when O passed it
		}
		l.p.counters.refused.add(string(refusal.Code), 1)
		p.stats.accepted.Add(1)
		return l.refuse(p, r, refusal, state.Key{})
	}
	switch req.Kind {
	case topics.KindOfAnotherGroup:
		return nil
	case topics.KindResolve:
		return l.resolve(p, state.Key{Due: req.ResolveDue, Seq: req.ResolveSeq})
	}
	if !replay {
		p.stats.accepted.Add(1)
		if req.Attempt == 0 && req.Due < r.Timestamp.UnixMilli() {
			p.stats.lateOnArrival.Add(1)
		}
	}
	key := state.Key{Due: req.Due, Seq: r.Offset}
	switch late := !p.judge.Less(key); { // at or below W
	case p.queue != nil:
		return l.enqueue(p, r, &req, now)
	case late && replay:
		return nil
	case late:
		return l.admitLate(p, r, &req, key, now)
	}
	// What was accepted below O may have been judged by another configuration: a replay never
	// refuses (design rule 10).
	if !replay {
		if refusal := p.route.Refuse(&req, now); refusal != nil {
			return l.refuse(p, r, refusal, key)
		}
		l.p.targets.of(req.Target) // looked up by the time it is due
	}
	return l.keep(p, r, key)
}

// admitLate is admit for a request whose key the watermark has passed.
func (l *lane) admitLate(p *partition, r *kgo.Record, req *topics.Request, key state.Key, now int64) error {
	p.stats.late.Add(1)
	if refusal := p.route.Refuse(req, now); refusal != nil {
		return l.refuse(p, r, refusal, state.Key{})
	}
	l.addLate(p, r, item{key: key})
	return nil
}

// keep makes a record pending: in memory up to the horizon, in the store above it.
func (l *lane) keep(p *partition, r *kgo.Record, key state.Key) error {
	p.longest.see(key.Due, r.Timestamp)
	if !p.horizon.Less(key) {
		run := l.putNear(p, r, key)
		p.pend(key, r.Offset, len(p.near.get(run)), run)
		return nil
	}
	l.scratch = appendRecord(l.scratch[:0], r)
	if p.store != nil { // else the log has it
		if err := p.store.Put(key, l.scratch); err != nil {
			return fmt.Errorf("store record %d of %s: %w", r.Offset, p.tp, err)
		}
		p.dirty = true
	}
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
	} else if far := p.horizon.Less(key); p.store != nil && (far || !p.live()) {
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
	if p.store == nil {
		return nil
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

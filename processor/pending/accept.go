package pending

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
	"github.com/duewheel/duewheel/wheel"
)

// Accepted tells what a record has turned out to be that was taken in. The zero value is a record that
// is nothing new: read again, or not a request.
type Accepted struct {
	New      bool            // a request that was accepted for the first time
	Late     bool            // its key is at or below W
	Overdue  bool            // it was due before it was written
	Unparsed *topics.Refusal // its headers ask for nothing that can be done
	Target   []byte          // where it is to go when it is due; it belongs to the record
}

// Accept takes in one record of the delay topic. From then on the record is pending, or on the
// list of what is resolved when O passes it, or already resolved. What it is accepted for may be
// told even where there is an error.
func (p *Partition) Accept(r *kgo.Record, now int64) (Accepted, error) {
	if r.Offset < p.position {
		return Accepted{}, nil // read twice: the reader was set back
	}
	a, err := p.admit(r, now)
	if err == nil {
		p.position = r.Offset + 1
	}
	return a, err
}

// admit does what a record asks for. The position moves behind it when all of that is in the open
// batch: a commit of the store on the way must not say that it was taken in.
func (p *Partition) admit(r *kgo.Record, now int64) (a Accepted, err error) {
	if r.Attrs.IsControl() {
		return a, nil
	}
	replay := r.Offset < p.accepted
	stamp := r.Timestamp.UnixMilli()
	if p.queue != nil {
		stamp = p.queue.stamp(r, now, p.Skew)
	}
	req, err := p.parsers.at(r.Offset).Parse(r.Headers, stamp, r.Offset, p.Mark)
	if err != nil {
		if replay {
			return a, nil // resolved when O passed it
		}
		a.New, a.Unparsed = true, err.(*topics.Refusal)
		p.refuse(r, a.Unparsed, state.Key{})
		return a, nil
	}
	switch req.Kind {
	case topics.KindOfAnotherGroup:
		return a, nil
	case topics.KindResolve:
		return a, p.resolve(state.Key{Due: req.ResolveDue, Seq: req.ResolveSeq})
	}
	a.New = !replay
	a.Overdue = a.New && req.Attempt == 0 && req.Due < r.Timestamp.UnixMilli()
	key := state.Key{Due: req.Due, Seq: r.Offset}
	switch late := !p.judge.Less(key); { // at or below W
	case p.queue != nil:
		a.Target = p.enqueue(r, &req, now)
		return a, nil
	case late && replay:
		return a, nil
	case late:
		a.Late = true
		p.admitLate(r, &req, key, now)
		return a, nil
	}
	// What was accepted below O may have been judged by another configuration: a replay never
	// refuses (design rule 10).
	if !replay {
		if refusal := p.Route.Refuse(&req, now); refusal != nil {
			p.refuse(r, refusal, key)
			return a, nil
		}
		a.Target = req.Target
	}
	return a, p.keep(r, key)
}

// Asks reads again what a record asks for that is to be resolved. The log decides what a record means.
func (p *Partition) Asks(it *Item, r *Record) (topics.Request, error) {
	return p.parsers.at(r.Offset).Again(r.Headers, it.Key.Due, r.Timestamp, r.Offset, p.Mark)
}

// admitLate is admit for a request whose key the watermark has passed.
func (p *Partition) admitLate(r *kgo.Record, req *topics.Request, key state.Key, now int64) {
	if refusal := p.Route.Refuse(req, now); refusal != nil {
		p.refuse(r, refusal, state.Key{})
		return
	}
	p.addLate(r, Item{Key: key})
}

// keep makes a record pending: in memory up to the horizon, in the store above it.
func (p *Partition) keep(r *kgo.Record, key state.Key) error {
	p.longest.see(key.Due, r.Timestamp)
	if !p.horizon.Less(key) {
		run := p.putNear(r, key)
		p.pend(key, r.Offset, len(p.near.get(run)), run)
		return nil
	}
	p.scratch = AppendRecord(p.scratch[:0], r)
	if p.store != nil { // else the log has it
		if err := p.store.Put(key, p.scratch); err != nil {
			return fmt.Errorf("store record %d: %w", r.Offset, err)
		}
		p.dirty = true
	}
	p.ledger.Add(key, r.Offset, len(p.scratch), true)
	return nil
}

// putNear copies a record out of the fetch that it came with.
func (p *Partition) putNear(r *kgo.Record, key state.Key) ref {
	i, b := p.near.alloc(key.Due, recordSizeBound(r))
	return p.near.commit(i, AppendRecord(b, r), false)
}

// refuse puts a record on the list of what is resolved when O passes it; it will be
// dead-lettered then. key is its key when that is above the watermark: a replay could take it
// for pending, so a resolve record has to say that it is not.
func (p *Partition) refuse(r *kgo.Record, refusal *topics.Refusal, key state.Key) {
	it := Item{Key: key, Refusal: refusal, Resolve: key != state.Key{}}
	if p.queue == nil {
		p.addLate(r, it)
		return
	}
	it.Resolve = false
	p.hold(r, &it)
	p.queue.push(it)
}

func (p *Partition) addLate(r *kgo.Record, it Item) {
	p.hold(r, &it)
	p.late = append(p.late, it)
	p.lateBytes += int64(len(it.Run))
	p.ledger.Hold(r.Offset)
}

// hold keeps the bytes of an item in memory.
func (p *Partition) hold(r *kgo.Record, it *Item) {
	it.Offset = r.Offset
	it.ref = p.putNear(r, it.Key)
	it.Run = p.near.get(it.ref)
}

// enqueue is admit for a fixed-delay route.
func (p *Partition) enqueue(r *kgo.Record, req *topics.Request, now int64) (target []byte) {
	if refusal := p.Route.Refuse(req, now); refusal != nil {
		p.refuse(r, refusal, state.Key{})
		return nil
	}
	it := Item{Key: state.Key{Due: req.Due, Seq: r.Offset}}
	p.hold(r, &it)
	p.queue.push(it)
	return req.Target
}

// resolve applies a resolve record of ours: what it names is not pending any more.
func (p *Partition) resolve(key state.Key) error {
	if p.queue != nil || !p.judge.Less(key) {
		return nil
	}
	if u, ok := p.wheel.Remove(wheel.Tick(key.Due), key.Seq); ok {
		r := ref(u)
		run := p.near.get(r)
		offset, err := recordOffset(run)
		if err != nil {
			return fmt.Errorf("resolve a record: %w", err)
		}
		p.ledger.Remove(key, offset, len(run), r.stored())
		p.near.release(r)
	} else if far := p.horizon.Less(key); p.store != nil && (far || !p.live) {
		// Before it is live, what the store holds below start is not in the wheel either.
		if err := p.Sync(); err != nil {
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
			return fmt.Errorf("look for a resolved record in the store: %w", err)
		}
	}
	if p.store == nil {
		return nil
	}
	// The store may hold it from an earlier life even when it was in the wheel.
	p.dirty = true
	return p.store.Delete(key)
}

// Sync writes what the store's open batch holds, with the position that belongs to it.
func (p *Partition) Sync() error {
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

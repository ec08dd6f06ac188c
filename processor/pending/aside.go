package pending

import (
	"encoding/binary"
	"encoding/json"
	"errors"

	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
)

// What comes late in a catch-up has no end: nothing of it may be delivered before the end of the log is reached. So when memory is short the
// store keeps blocks of the list, all but the first and the last one, and they come back when their turn has come, or when one of
// their records is asked about. They are of no use to another owner, who reads the log.

// aside is a block that the store keeps.
type aside struct {
	number uint64
	head   held // the first of its records, without its bytes
	last   int64
	n      int
	bytes  int64
}

// layAside gives the store what may wait of the list.
func (f *fifo) layAside(n *near, store *state.Partition) error {
	for i := 1; i+1 < len(f.blocks); i++ {
		b := &f.blocks[i]
		if b.aside != nil || !b.maybeAside() {
			continue
		}
		var value []byte
		a := &aside{number: f.nextAside, head: b.held[0], last: b.held[len(b.held)-1].offset, n: len(b.held)}
		for k := range b.held {
			h := &b.held[k]
			value = binary.AppendVarint(value, h.key.Due)
			value = binary.AppendVarint(value, h.key.Seq)
			value = binary.AppendVarint(value, h.offset)
			value = binary.AppendUvarint(value, uint64(h.ref.number()))
			value = appendBytes(value, n.get(h.ref))
			value = appendBytes(value, refusalText(h.refusal))
			if value = append(value, 0); h.resolve {
				value[len(value)-1] = 1
			}
			a.bytes += int64(h.size)
		}
		if err := store.Spool(a.number, value); err != nil {
			return err
		}
		f.nextAside++
		for k := range b.held {
			n.release(b.held[k].ref)
		}
		*b = block{aside: a}
		f.bytes -= a.bytes
		f.away += a.bytes
	}
	return nil
}

// maybeAside reports whether all of a block are late or refused, and name nothing, and nothing has taken them away.
func (b *block) maybeAside() bool {
	for i := range b.held {
		if h := &b.held[i]; h.by > 0 || h.effect != EffectNone {
			return false
		}
	}
	return true
}

// refusalText is why a record was refused, as the store keeps it; nothing for one that was not.
func refusalText(r *topics.Refusal) []byte {
	if r == nil {
		return nil
	}
	text, err := json.Marshal(r)
	if err != nil {
		panic("pending: BUG: " + err.Error())
	}
	return text
}

// bring brings a block back from the store.
func (f *fifo) bring(i int) bool {
	b := &f.blocks[i]
	a := b.aside
	if a == nil {
		return true
	}
	if f.failed {
		return false
	}
	back := make([]held, 0, fifoBlock)
	err := f.store.Unspool(a.number, func(value []byte) {
		for d := (decoder{b: value}); len(d.b) > 0; {
			h := held{key: state.Key{Due: d.varint(), Seq: d.varint()}, offset: d.varint()}
			to, run := number(d.uvarint()), d.bytes()
			if text := d.bytes(); len(text) > 0 {
				h.refusal = new(topics.Refusal)
				d.bad = d.bad || json.Unmarshal(text, h.refusal) != nil
			}
			h.resolve = d.byte() != 0
			h.ref, h.size = f.near.put(0, run, false).to(to), int32(len(run))
			back = append(back, h)
		}
	})
	if err != nil || len(back) != a.n {
		f.failed = true // what reads the store next says so
		return false
	}
	*b = block{held: back, bytes: a.bytes}
	f.bytes += a.bytes
	f.away -= a.bytes
	return true
}

// errNotBack is that the store does not give back what was laid aside, although it works.
var errNotBack = errors.New("pending: the store does not give back what was laid aside")

// stuck reports whether the store has failed that keeps what comes first.
func (f *fifo) stuck() bool {
	return f.n > 0 && f.blocks[0].aside != nil && f.failed
}

// Forgo goes on without the store. What that has kept of the list has to be read again: nothing behind it is taken until then.
func (k *keyed) Forgo() {
	k.window.Forgo()
	k.blind, k.late.store, k.late.failed = k.blind || k.late.away > 0, nil, true
}

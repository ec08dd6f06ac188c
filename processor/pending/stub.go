package pending

import (
	"bytes"
	"encoding/binary"
	"math"

	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
	"github.com/duewheel/duewheel/wheel"
)

// Where ids are remembered, a record with an id leaves a stub when a turn takes it that is to deliver it: its id and its place, with a key
// of their own, the time until which the id is remembered. A stub is kept as a pending record is, in the wheel or in the store, is found by
// its id, and holds back L. So it follows from log and checkpoint, too: in a replay a record at or below W has left a stub if the
// key of that is above W, unless something below O cancels or replaces the record, or a resolve record names it. Hence:
//
//   - What was taken into a turn and dead-lettered there has a resolve record, and so has what was refused although its key is not above W,
//     if a stub of it would be.
//   - A cancel or a replacement takes the stub away as well as the record, so it ends the memory of an id also when it has come too
//     late. A replay could not tell the one from the other.
//
// When its time has come a stub is part of a turn, so that W passes it, and nothing is written for it.

// stubStep is what the time of a stub is rounded up to, in ms: those of a second are taken by one turn.
const stubStep = 1000

// stubOf is the key of the stub that a record with an id leaves; zero: ids are not remembered where it lies.
func (ps parsers) stubOf(key state.Key) state.Key { return StubOf(key, ps.at(key.Seq).Remember()) }

// StubOf is the key of the stub that a record leaves whose id is remembered for some ms, so the time until which it is; zero: it is not remembered.
func StubOf(key state.Key, remember int64) state.Key {
	if remember == 0 {
		return state.Key{}
	}
	return state.Key{Due: (key.Due + remember + stubStep - 1) / stubStep * stubStep, Seq: key.Seq}
}

// memory is for how long an id is remembered at most, in ms.
func (ps parsers) memory() (most int64) {
	for _, p := range ps {
		most = max(most, p.parser.Remember())
	}
	return most
}

// leaves is the key of the stub that a record with such a run leaves, if that key is above another one, W mostly; else zero.
func (ps parsers) leaves(key state.Key, run []byte, above state.Key) state.Key {
	if runIDPlace(run) == 0 || isStub(run) {
		return state.Key{}
	}
	if stub := ps.stubOf(key); above.Less(stub) {
		return stub
	}
	return state.Key{}
}

// appendStub appends the run of a stub: the place and the id of the record that has left it, and as its value when that was due.
func appendStub(dst []byte, of state.Key, place, written int64, id []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(place))
	dst = binary.AppendVarint(dst, written)
	flags := byte(idInKey) | flagStub
	if place != of.Seq {
		flags |= flagCopy
	}
	dst = origin{of.Seq, of.Seq}.append(append(dst, flags), flags)
	dst = appendBytes(dst, id)
	var due [binary.MaxVarintLen64]byte
	dst = appendBytes(dst, binary.AppendVarint(due[:0], of.Due))
	return append(dst, 0) // headers
}

// leftBy is the key of the record that has left a stub; zero for a run that is none.
func leftBy(run []byte) state.Key {
	if !isStub(run) {
		return state.Key{}
	}
	var rec Record
	if err := rec.Decode(run); err != nil {
		return state.Key{}
	}
	d := decoder{b: rec.Value}
	return state.Key{Due: d.varint(), Seq: rec.Offset}
}

// sought is what is looked for under a key: there may lie a record, or the stub of another one.
type sought interface {
	means(run []byte) bool                                 // whether a run is what is looked for
	withhold(w *window, key state.Key, run []byte) release // has the ledger keep it, and says what is released in the end
}

// soughtRecord is a record that is looked for.
type soughtRecord struct {
	mark    *topics.Mark // whose retries stand for a request that is to be known; nil: nothing is told of it
	parsers *parsers
}

func (soughtRecord) means(run []byte) bool { return !isStub(run) }

func (s soughtRecord) withhold(w *window, key state.Key, run []byte) release {
	x := counted(key, run)
	w.ledger.Withhold(key, x.Offset, x.Bytes)
	return release{kind: releaseRecord, offset: x.Offset, key: key, id: bytes.Clone(runID(run)), bytes: x.Bytes, first: s.standsFor(key, run)}
}

// standsFor is the key of the request that a record stands for, as its producer has asked for it: of a retry, and of what was read by other names than those of the
// parser that holds there; zero: it is none, or that is not asked.
func (s soughtRecord) standsFor(key state.Key, run []byte) state.Key {
	var rec Record
	if s.mark == nil || rec.Decode(run) != nil {
		return state.Key{}
	}
	holds := s.parsers.at(rec.Offset)
	by := topics.ParserOf(holds, rec.Headers, rec.Offset, s.mark)
	if _, of, is := s.mark.Written(rec.Headers, rec.Offset); is {
		key = state.Key{Due: of.Origin.Due, Seq: of.Origin.Offset}
	} else if by == holds {
		return state.Key{}
	}
	return state.Key{Due: key.Due - by.Jitter(*s.mark, key.Seq), Seq: key.Seq}
}

// soughtStub is a stub that is looked for, and the key of the record that has left it; zero: any.
type soughtStub struct{ of state.Key }

func (s soughtStub) means(run []byte) bool {
	return isStub(run) && (s.of == (state.Key{}) || leftBy(run) == s.of)
}

func (soughtStub) withhold(w *window, key state.Key, run []byte) release {
	w.ledger.WithholdStub()
	return release{kind: releaseStub, offset: counted(key, run).Offset, key: key, id: bytes.Clone(runID(run)), of: leftBy(run)}
}

// stubs is what a window does with them.
type stubs struct{ *window }

// isLeft reports whether there has to be a stub of a record with an id, if that was delivered.
func (w stubs) isLeft(key state.Key, id []byte) bool {
	return id != nil && w.lateUpTo.Less(w.parsers.stubOf(key))
}

// leave keeps the stub of a record that is to be delivered, or was.
func (w stubs) leave(stub, of state.Key, place, written int64, id []byte) {
	w.scratch = appendStub(w.scratch[:0], of, place, written, id)
	w.remembered.see(stub.Due, written)
	if !w.ledger.Has(place) { // else it is read again, and the store has it
		w.ledger.Remember(place)
		_ = w.put(w.scratch, id, indexEntry{stub, written, true}, false) // in the open batch, whose commit tells
	}
	if !w.horizon.Less(stub) {
		w.wheel.Add(wheel.Tick(stub.Due), stub.Seq, uint64(w.near.put(stub.Due, w.scratch, true)))
	}
}

// putStub has the store keep the stub of a record.
func putStub(store *state.Partition, stub, of state.Key, run []byte) error {
	var rec Record
	if err := rec.Decode(run); err != nil {
		return err
	}
	id := rec.id(runIDPlace(run))
	store.PutID(id, stub, indexEntry{stub, rec.Timestamp, true}.note())
	left := appendStub(nil, of, rec.Place, rec.Timestamp, id)
	store.Count(counted(stub, left))
	return store.Put(stub, left)
}

// leaveAll keeps the stubs of what a turn is to deliver that leaves W where it says.
func (w stubs) leaveAll(items []Item, watermark state.Key) {
	if w.parsers.memory() == 0 {
		return
	}
	for i := range items {
		it := &items[i]
		if it.Refusal != nil || it.By > 0 || it.Effect != EffectNone {
			continue
		}
		it.leaves = w.parsers.leaves(it.Key, it.Run, state.Key{}) != (state.Key{}) // a turn may be cut, and W end anywhere below
		if it.stub = w.parsers.leaves(it.Key, it.Run, watermark); it.stub != (state.Key{}) {
			var rec Record
			if err := rec.Decode(it.Run); err != nil {
				panic("pending: BUG: " + err.Error())
			}
			w.leave(it.stub, it.Key, it.Offset, rec.Timestamp, rec.id(runIDPlace(it.Run)))
		}
	}
}

// expire ends the memory of an id: its stub is part of a turn.
func (w stubs) expire(it Item) Item {
	w.removeID(it.Run, it.Key)
	w.ledger.Expire(it.Offset)
	it.Effect = EffectForgotten
	return it
}

// forgetAll takes away the stubs of what a turn has dead-lettered.
func (w stubs) forgetAll(items []Item) {
	var dead []*Item
	var keys []state.Key
	for i := range items {
		if it := &items[i]; it.Dead && it.stub != (state.Key{}) {
			dead, keys = append(dead, it), append(keys, it.stub)
		}
	}
	if len(dead) == 0 {
		return
	}
	near := sift(&w.wheel, keys, math.MaxInt64)
	defer near.giveBack()
	for _, it := range dead {
		w.forget(it, &near)
	}
}

func (w stubs) forget(it *Item, near *sifted) {
	if _, is := w.gone[it.stub]; is || !w.ledger.Has(it.Offset) {
		return // a cancel has taken it away, or the resolve record was read already
	}
	w.ledger.Expire(it.Offset)
	if r, is := near.take(it.stub); is {
		w.near.release(r)
	}
	id := runID(it.Run)
	w.ids.remove(id, it.stub)
	if w.store != nil {
		w.store.Uncount(counted(it.Key, it.Run))
		w.deleteStub(it.stub, it.Key, it.Offset)
		w.store.DeleteID(id, it.stub)
		w.markDeleted(it.stub)
	}
}

// deleteStub deletes a stub from the store, and the record that has left it, which would leave it again.
func (w *index) deleteStub(stub, of state.Key, place int64) {
	w.store.Uncount(state.Counted{Key: stub, Offset: place, Stub: true})
	w.uncountStored(of)
	w.store.Delete(stub)
	w.store.Delete(of)
	w.dirty = true
}

// uncountStored has the store count a record no more of which only the key is known.
func (w *index) uncountStored(key state.Key) {
	counts, err := w.store.Counts()
	if err != nil || !counts.Has(key.Seq, false) && !w.copied.has(key.Seq) {
		return
	}
	_ = w.get(key, func(run []byte) { w.store.Uncount(counted(key, run)) }) // an error is met by the next commit
}

// uncount takes a record, or a stub, out of the ledger.
func (w stubs) uncount(key state.Key, offset int64, run []byte, stored bool) {
	if isStub(run) {
		w.ledger.Expire(offset)
		return
	}
	w.ledger.Remove(key, offset, weight(run), stored)
}

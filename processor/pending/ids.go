package pending

import (
	"errors"
	"hash/maphash"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
)

// A record may have an id. What is pending is found by it here, as far as memory holds it, and else in the store, which has the id of
// each record that it holds. Without a store all ids are here.
//
// Invariants: ids has a record with an id if it is in the wheel and the store does not hold it, is late and not in a turn, waits in the
// store's open batch, or lies beyond the horizon of a partition without a store. So what is found here is pending. What the store finds
// is, if its key is above lateUpTo and not gone: the store takes an id away with its record, and of what was trimmed only the id may be left.

// identity is what a run is told of a record's id.
type identity struct {
	id []byte // nil: it has none
	at idPlace
}

// idPlace is where a record has its id: in the lowest byte what the flags of its run say, and above it, with flagIDIndexed, one more than the
// index of the header, which has not its usual name.
type idPlace uint32

// with is the place in a header that has not its usual name, where there is one.
func (at idPlace) with(header int32) idPlace {
	if header == 0 {
		return at
	}
	return at | flagIDIndexed | idPlace(header)<<8
}

func identityOf(req *topics.Request) identity {
	switch {
	case req.ID == nil:
		return identity{}
	case req.KeyIsID:
		return identity{req.ID, idInKey}
	}
	return identity{req.ID, idInHeader.with(req.IDAt)}
}

// indexEntry is a record that is found by its id.
type indexEntry struct {
	key     state.Key
	written int64 // ms
	stub    bool  // it was delivered, and its id is remembered
}

// note is what the store has of it beside its key.
func (e indexEntry) note() int64 {
	if e.stub {
		return e.written<<1 | 1
	}
	return e.written << 1
}

func entryOf(key state.Key, note int64) indexEntry { return indexEntry{key, note >> 1, note&1 != 0} }

// idHash stands for an id in memory: 127 bits of keyed hashes, and one that is always set, so that none is zero. That two ids share one is not to be expected, nor can it be brought about.
type idHash [2]uint64

// ids are those that memory knows. The zero value is of no use.
type ids struct {
	seeds     [2]maphash.Seed // drawn anew each time: no answer follows from them, only where in memory it is found
	first     idTable
	more      map[idHash][]indexEntry // of an id that several have, in a replay: one that was refused is found until its resolve record is read
	fresh     []freshID               // the store knows them when its open batch is committed
	absent    map[idHash]struct{}     // the store was asked for them and has none; until its next commit
	questions map[idHash]int          // how many open questions are about an id
	scratch   []idHash
	touched   uint64 // keeps what touch reads from being left out
}

// freshID is a record that waits in the store's open batch.
type freshID struct {
	hash idHash
	key  state.Key
}

func newIDs() *ids {
	return &ids{seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}}
}

// idBytes is what one takes in memory, about.
const idBytes = 80

func (x *ids) len() int { return x.first.len() + len(x.more) }

func (x *ids) hash(id []byte) idHash {
	return idHash{maphash.Bytes(x.seeds[0], id), maphash.Bytes(x.seeds[1], id) | 1<<63} // never zero
}

// add takes in a record that has an id. It is not there yet, or the only one that has it.
func (x *ids) add(id []byte, e indexEntry) { x.addHash(x.hash(id), e) }

func (x *ids) addHash(h idHash, e indexEntry) {
	switch was, has := x.first.find(h); {
	case !has || was.key == e.key:
		x.first.put(h, e)
	default:
		if x.more == nil {
			x.more = map[idHash][]indexEntry{}
		}
		x.more[h] = append(x.more[h], e)
	}
}

func (x *ids) remove(id []byte, key state.Key) { x.removeHash(x.hash(id), key) }

func (x *ids) removeHash(h idHash, key state.Key) {
	more := x.more[h]
	was, has := x.first.find(h)
	switch {
	case has && was.key == key && len(more) == 0:
		x.first.remove(h)
		return
	case has && was.key == key:
		x.first.put(h, more[0])
		more = more[1:]
	case len(more) == 0:
		return
	default:
		more = slices.DeleteFunc(more, func(m indexEntry) bool { return m.key == key })
	}
	if x.more[h] = more; len(more) == 0 {
		delete(x.more, h)
	}
}

// countQuestions counts the open questions about an id.
func (x *ids) countQuestions(id []byte, n int) {
	if x.questions == nil {
		x.questions = map[idHash]int{}
	}
	h := x.hash(id)
	if x.questions[h] += n; x.questions[h] == 0 {
		delete(x.questions, h)
	}
}

// inQuestion reports whether there is an open question about an id.
func (x *ids) inQuestion(id []byte) bool { return len(x.questions) > 0 && x.questions[x.hash(id)] > 0 }

// isAbsent reports whether the store was asked for an id and has none.
func (x *ids) isAbsent(id []byte) bool {
	if len(x.absent) == 0 {
		return false
	}
	_, is := x.absent[x.hash(id)]
	return is
}

// has reports whether a record is found by its id.
func (x *ids) has(id []byte, key state.Key) bool {
	return slices.ContainsFunc(x.find(id), func(e indexEntry) bool { return e.key == key })
}

// find gives those that have an id.
func (x *ids) find(id []byte) (all []indexEntry) {
	if x.first.len() == 0 {
		return nil
	}
	h := x.hash(id)
	if e, has := x.first.find(h); has {
		all = append(append(all, e), x.more[h]...)
	}
	return all
}

// forget removes records of which only the keys are known. It looks at all ids.
func (x *ids) forget(keys map[state.Key]struct{}) {
	var gone []freshID
	note := func(h idHash, e indexEntry) {
		if _, is := keys[e.key]; is {
			gone = append(gone, freshID{h, e.key})
		}
	}
	for h, e := range x.first.all() {
		note(h, e)
		for _, e := range x.more[h] {
			note(h, e)
		}
	}
	for _, f := range gone {
		x.removeHash(f.hash, f.key)
	}
}

// written takes in that the store's open batch is committed.
func (x *ids) written() {
	for _, f := range x.fresh {
		x.removeHash(f.hash, f.key)
	}
	x.fresh = x.fresh[:0]
}

// errNoID: a run says that it has an id, and has none.
var errNoID = errors.New("pending: a stored record has lost its id")

// runID is the id of a record as its run has it; nil when it has none. It belongs to the run. It is what Record.id gives, without
// decoding the rest.
func runID(run []byte) []byte {
	at := runIDPlace(run)
	if at == 0 {
		return nil
	}
	d := decoder{b: run}
	if id := d.id(at); !d.bad && len(id) > 0 && len(id) <= topics.MostID {
		return id
	}
	return nil // or wrong bytes, which is found when more of them is needed
}

// id reads a run from its beginning, and gives what stands in the place where its record has its id.
func (d *decoder) id(at idPlace) []byte {
	d.uvarint() // offset
	d.varint()  // timestamp
	var named uint64
	flags := d.byte()
	if flags&flagIDIndexed != 0 {
		named = d.uvarint()
	}
	if flags&flagCopy != 0 {
		d.uvarint()
		d.uvarint()
	}
	key := d.bytes()
	if at == idInKey {
		return key
	}
	d.bytes() // value
	var id, replaces []byte
	for n := d.uvarint(); n > 0 && !d.bad; n-- {
		name, value := d.bytes(), d.value()
		switch {
		case named > 0:
			if named--; named == 0 {
				return topics.Bare(value)
			}
		case string(name) == topics.HeaderID:
			id = value
		case string(name) == topics.HeaderReplace:
			replaces = value
		}
	}
	if id = topics.Bare(id); len(id) > 0 {
		return id
	}
	return topics.Bare(replaces) // what replaces an id has it
}

// id is what stands in the place where a record has its id.
func (r *Record) id(at idPlace) []byte {
	if at == idInKey {
		return r.Key
	}
	if r.idAt > 0 {
		return topics.Bare(r.Headers[r.idAt-1].Value)
	}
	if id := topics.Bare(topics.Last(r.Headers, topics.HeaderID)); len(id) > 0 {
		return id
	}
	return topics.Bare(topics.Last(r.Headers, topics.HeaderReplace)) // what replaces an id has it
}

// idAlone is a record that cancels an id and nothing else, in the place of one that may be large, as its parser reads it.
func idAlone(r *kgo.Record, p *topics.Parser, id []byte) *kgo.Record {
	cancel := kgo.RecordHeader{Key: p.Name(topics.HeaderCancel), Value: topics.NameOf(p, id)}
	return &kgo.Record{Offset: r.Offset, Timestamp: r.Timestamp, Headers: []kgo.RecordHeader{cancel}}
}

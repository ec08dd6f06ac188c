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
// is, if its key is above judge and not gone: the store takes an id away with its record, and of what was trimmed only the id may be left.

// identity is what a run is told of a record's id.
type identity struct {
	id []byte // nil: it has none
	at idPlace
}

// idPlace is where a record has its id: in the lowest byte what the flags of its run say, and above it, with flagIDNamed, one more than the
// index of the header, which has not its usual name.
type idPlace uint32

// with is the place in a header that has not its usual name, where there is one.
func (at idPlace) with(header int32) idPlace {
	if header == 0 {
		return at
	}
	return at | flagIDNamed | idPlace(header)<<8
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

// named is a record that is found by its id.
type named struct {
	key     state.Key
	written int64 // ms
	stub    bool  // it was delivered, and its id is remembered
}

// note is what the store has of it beside its key.
func (n named) note() int64 {
	if n.stub {
		return n.written<<1 | 1
	}
	return n.written << 1
}

func namedBy(key state.Key, note int64) named { return named{key, note >> 1, note&1 != 0} }

// print stands for an id in memory: 128 bits of keyed hashes, so that two ids share one is not to be expected, nor can be brought about.
type print [2]uint64

// ids are those that memory knows. The zero value is of no use.
type ids struct {
	seeds [2]maphash.Seed
	first map[print]named
	more  map[print][]named // of an id that several have, in a replay: one that was refused is found until its resolve record is read
	fresh []freshID         // the store knows them when its open batch is committed
	asks  map[print]int     // how often an id is asked about that nothing is decided of
}

// freshID is a record that waits in the store's open batch.
type freshID struct {
	print print
	key   state.Key
}

func newIDs() *ids {
	return &ids{seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}, first: map[print]named{}}
}

// idBytes is what one takes in memory, about.
const idBytes = 80

func (x *ids) len() int { return len(x.first) + len(x.more) }

func (x *ids) print(id []byte) print {
	return print{maphash.Bytes(x.seeds[0], id), maphash.Bytes(x.seeds[1], id)}
}

// add takes in a record that has an id.
func (x *ids) add(id []byte, n named) print {
	p := x.print(id)
	switch was, has := x.first[p]; {
	case !has || was.key == n.key:
		x.first[p] = n
	default:
		if x.more == nil {
			x.more = map[print][]named{}
		}
		x.more[p] = append(x.more[p], n)
	}
	return p
}

func (x *ids) remove(id []byte, key state.Key) { x.removePrint(x.print(id), key) }

func (x *ids) removePrint(p print, key state.Key) {
	more := x.more[p]
	was, has := x.first[p]
	switch {
	case has && was.key == key && len(more) == 0:
		delete(x.first, p)
		return
	case has && was.key == key:
		x.first[p], more = more[0], more[1:]
	case len(more) == 0:
		return
	default:
		more = slices.DeleteFunc(more, func(m named) bool { return m.key == key })
	}
	if x.more[p] = more; len(more) == 0 {
		delete(x.more, p)
	}
}

// asked counts what is not decided of an id.
func (x *ids) asked(id []byte, n int) {
	if x.asks == nil {
		x.asks = map[print]int{}
	}
	p := x.print(id)
	if x.asks[p] += n; x.asks[p] == 0 {
		delete(x.asks, p)
	}
}

// isAsked reports whether something is to be decided of an id.
func (x *ids) isAsked(id []byte) bool { return len(x.asks) > 0 && x.asks[x.print(id)] > 0 }

// find gives those that have an id.
func (x *ids) find(id []byte) (all []named) {
	if len(x.first) == 0 {
		return nil
	}
	p := x.print(id)
	if n, has := x.first[p]; has {
		all = append(append(all, n), x.more[p]...)
	}
	return all
}

// forget removes records of which only the keys are known. It looks at all ids.
func (x *ids) forget(keys map[state.Key]struct{}) {
	for p, n := range x.first {
		all := append([]named{n}, x.more[p]...)
		for _, n := range all {
			if _, is := keys[n.key]; is {
				x.removePrint(p, n.key)
			}
		}
	}
}

// written takes in that the store's open batch is committed.
func (x *ids) written() {
	for _, f := range x.fresh {
		x.removePrint(f.print, f.key)
	}
	x.fresh = x.fresh[:0]
}

// errNoID: a run says that it has an id, and has none.
var errNoID = errors.New("pending: a stored record has lost its id")

// runID is the id of a record as its run has it; nil when it has none. It belongs to the run.
func runID(run []byte) []byte {
	at := runIDPlace(run)
	if at == 0 {
		return nil
	}
	var rec Record
	if err := rec.Decode(run); err != nil {
		return nil // wrong bytes, which whoever needs more of them finds
	}
	if id := rec.id(at); len(id) > 0 && len(id) <= topics.MostID {
		return id
	}
	return nil
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

// idAlone is a record that cancels an id and nothing else, in the place of one that may be large.
func idAlone(r *kgo.Record, id []byte) *kgo.Record {
	return &kgo.Record{Offset: r.Offset, Timestamp: r.Timestamp, Headers: []kgo.RecordHeader{{Key: topics.HeaderCancel, Value: id}}}
}

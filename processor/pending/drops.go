package pending

import (
	"bytes"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"

	"github.com/duewheel/duewheel/state"
)

// drops are keys of records that are to be taken away for good.
type drops struct {
	keys   []state.Key
	stubs  map[state.Key][]soughtStub // by their keys
	wanted []wanted                   // by id, which the store may hold, if it was not written later
	before map[string]int64           // the same whenever it was written: by id, what lies below an offset

	waits bool  // some of them are not in the store's open batch
	since int64 // what has named the first of these lies from there on
}

func (d *drops) any() bool { return len(d.keys)+len(d.stubs)+len(d.wanted)+len(d.before) > 0 }

// wait takes note that something is to be taken away by what is being read.
func (d *drops) wait(w *window) {
	if !d.waits {
		d.waits, d.since = true, w.position
	}
}

// resume is from where on a replay takes away what is not in the store's open batch, if that is below an offset: a commit on the way must not say that
// it was.
func (d *drops) resume(end int64) int64 {
	if d.waits {
		return min(d.since, end)
	}
	return end
}

// apply takes them away, all at once.
func (d *drops) apply(w *window) error {
	err := d.applyAll(w)
	if err == nil && d.waits {
		d.waits, w.dirty = false, w.dirty || w.store != nil
	}
	return err
}

func (d *drops) applyAll(w *window) error {
	if err := d.resolveWanted(w); err != nil || len(d.keys)+len(d.stubs) == 0 {
		return err
	}
	of := dropped{w, d.keys, d.stubs}
	d.keys, d.stubs = nil, nil
	slices.SortFunc(of.records, state.Key.Compare)
	keys := slices.AppendSeq(slices.Clone(of.records), maps.Keys(of.stubs))
	slices.SortFunc(keys, state.Key.Compare)
	keys = slices.Compact(keys)
	of.note()
	found := sift(&w.wheel, keys, math.MaxInt64)
	far := keys[:0:0]
	for _, key := range keys {
		r, near := found.take(key)
		if near && !of.means(key, w.near.get(r)) {
			found.putBack(key, r)
			continue
		}
		if near {
			run := w.near.get(r)
			offset, err := recordOffset(run)
			if err != nil {
				return fmt.Errorf("resolve a record: %w", err)
			}
			stubs{w}.uncount(key, offset, run, r.stored())
			w.removeID(run, key)
			w.erase(key, run)
			w.near.release(r)
		} else if w.horizon.Less(key) || w.store != nil { // before it is live, what that holds below start is not in the wheel either, and later what is in a turn
			far = append(far, key)
		}
	}
	return of.far(far)
}

// dropped are keys that are being taken away.
type dropped struct {
	*window
	records []state.Key // sorted
	stubs   map[state.Key][]soughtStub
}

// note keeps what a catch-up without a store has taken away, as long as copies may come that ask for it.
func (w dropped) note() {
	if !w.sure {
		return
	}
	if w.window.dropped == nil {
		w.window.dropped = map[state.Key]struct{}{}
	}
	for _, key := range w.records {
		w.window.dropped[key] = struct{}{}
	}
}

// means reports whether what lies under a key is what is to be taken away.
func (w dropped) means(key state.Key, run []byte) bool {
	if !isStub(run) {
		_, is := slices.BinarySearchFunc(w.records, key, state.Key.Compare)
		return is
	}
	return slices.ContainsFunc(w.stubs[key], func(s soughtStub) bool { return s.means(run) })
}

// far takes away what only the store may hold.
func (w dropped) far(keys []state.Key) error {
	switch {
	case len(keys) == 0:
		return nil
	case w.store == nil:
		w.forgetIDs(keys)
		w.unread(keys)
		return nil
	}
	if err := w.commit(); err != nil { // else what was put lately is not found
		return err
	}
	for _, key := range keys {
		means := true
		err := w.get(key, func(run []byte) {
			if means = w.means(key, run); !means {
				return
			}
			if offset, err := recordOffset(run); err == nil && w.ledger.Has(offset) {
				stubs{w.window}.uncount(key, offset, run, true)
			}
			w.store.Uncount(counted(key, run))
			w.deleteID(run, key)
		})
		if err != nil {
			return fmt.Errorf("look for a resolved record in the store: %w", err)
		}
		if means {
			w.store.Delete(key)
		}
	}
	w.dirty = true
	return nil
}

// wanted are records that are looked for by their id: those that lie before an offset, and if writtenBy is above 0 were not written later.
type wanted struct {
	id        []byte
	before    int64
	writtenBy int64
}

func (w wanted) means(e indexEntry) bool {
	return e.key.Seq < w.before && (w.writtenBy <= 0 || e.written <= w.writtenBy)
}

// add takes a record away for good, before anything is taken or written. One that a cancel has taken away is kept until that is committed: so
// it is where an owner reads what the next one has written, and does not know yet that it has lost the partition.
func (d *drops) add(w *window, key state.Key) {
	d.wait(w)
	w.lost.names(key)
	if _, is := w.gone[key]; !is && w.lateUpTo.Less(key) {
		d.keys = append(d.keys, key)
	}
	if stub := w.parsers.stubOf(key); w.lateUpTo.Less(stub) {
		d.addStub(w, stub, key)
	}
}

// takes is add for what lies at an offset, and takes a record away; below 0: it is resolved otherwise.
func (d *drops) takes(w *window, key state.Key, by int64) {
	d.add(w, key)
	if !w.live && w.foundEnd > 0 && w.start == w.committed.LowWater && w.lateUpTo.Less(key) { // all is read that tells of it, and by no follower, which decides nothing
		w.takers.add(key, by)
	}
}

// addStub takes a stub away for good, if the record with a key has left it; zero: if any has.
func (d *drops) addStub(w *window, stub, of state.Key) {
	if _, is := w.gone[stub]; is {
		return // a cancel has taken it away, and it is kept until that is committed
	}
	if d.stubs == nil {
		d.stubs = map[state.Key][]soughtStub{}
	}
	d.stubs[stub] = append(d.stubs[stub], soughtStub{of})
}

// addEntry takes away what was found by its id.
func (d *drops) addEntry(w *window, e indexEntry, by int64) {
	if e.stub {
		d.addStub(w, e.key, state.Key{})
		return
	}
	d.takes(w, e.key, by)
}

// addWanted takes away for good what records below O name by id.
func (d *drops) addWanted(w *window, all wanted) {
	d.wait(w)
	w.lost.namesID(all) // whatever else has that id: of what was given up a copy may come
	for _, e := range w.ids.find(all.id) {
		if all.means(e) {
			d.addEntry(w, e, all.before)
			w.ids.remove(all.id, e.key) // once is enough
		}
	}
	switch {
	case !w.identified:
	case all.writtenBy > 0:
		all.id = bytes.Clone(all.id)
		d.wanted = append(d.wanted, all)
	default:
		if d.before == nil {
			d.before = map[string]int64{}
		}
		d.before[string(all.id)] = all.before // they come in the order of the log
	}
}

// unread keeps in mind that records beyond the horizon of a partition without a store are taken away: the ledger goes on counting them until they are
// read again, and what names them would find them. Of what a resolve record names it knows.
func (w dropped) unread(keys []state.Key) {
	far := beyond{w.window}
	for _, key := range keys {
		if _, is := slices.BinarySearchFunc(w.records, key, state.Key.Compare); is && far.counts(key.Seq) != isNot && !w.ledger.Overtaken(key.Seq) {
			w.markGone(key)
		}
	}
}

// resolveWanted finds the keys of what is to be taken away by id.
func (d *drops) resolveWanted(w *window) error {
	if len(d.wanted)+len(d.before) == 0 {
		return nil
	}
	all := d.wanted
	for id, before := range d.before {
		all = append(all, wanted{id: []byte(id), before: before})
	}
	d.wanted, d.before = nil, nil
	if err := w.commit(); err != nil {
		return err
	}
	return w.inStore(idsOf(all), func(i int, e indexEntry) {
		if all[i].means(e) {
			d.addEntry(w, e, all[i].before)
		}
	})
}

func idsOf(all []wanted) iter.Seq2[int, []byte] {
	return func(yield func(int, []byte) bool) {
		for i := range all {
			if !yield(i, all[i].id) {
				return
			}
		}
	}
}

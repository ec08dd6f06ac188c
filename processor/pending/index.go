package pending

import (
	"fmt"
	"iter"

	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/wheel"
)

// index finds what is pending by its id, in memory and in the store.
type index struct {
	*marks
	store *state.Partition // nil: there is none (storeless.go)
	dirty bool             // the store has an open batch

	ids        *ids
	identified bool  // some of what the store holds has an id
	foundEnd   int64 // where the log ended when the checkpoint was found: what lies below, an earlier life may have put into the store, even if it was read into memory
	deciding   bool  // what is in ids stays there, even if the store knows it by now
	copied     span  // the seqs of copies, as far as any was seen
	blind      bool  // the store has failed, and with it the ids of what only it held, or what it had laid aside

	gone    map[state.Key]struct{} // taken away, or delivered before what has a smaller key, and the store or the log may still hold it
	deleted []state.Key            // of gone: the store does not hold them when its open batch is committed
}

// put keeps a record in the open batch of the store, with its id, if it has one. Known tells that memory finds it by that already. Without a store the log
// has the record, and only its id is kept.
func (w *index) put(run, id []byte, e indexEntry, known bool) error {
	if w.store == nil {
		if id != nil && !known {
			w.ids.add(id, e)
		}
		return nil
	}
	if err := w.store.Put(e.key, run); err != nil {
		return err
	}
	w.store.Count(counted(e.key, run))
	w.dirty = true
	if id != nil {
		w.identified = true
		w.store.PutID(id, e.key, e.note())
		h := w.ids.hash(id)
		if !known {
			w.ids.addHash(h, e)
		}
		w.ids.fresh = append(w.ids.fresh, freshID{h, e.key})
	}
	return nil
}

// counted is what the store counts of a run.
func counted(key state.Key, run []byte) state.Counted {
	offset, err := recordOffset(run)
	if err != nil {
		panic("pending: BUG: " + err.Error())
	}
	return state.Counted{Key: key, Offset: offset, Bytes: weight(run), Stub: isStub(run)}
}

// lateID has a late record be found by its id until a turn takes it.
func (w *index) lateID(h *held, who identity, written int64) {
	if who.id != nil {
		w.ids.add(who.id, indexEntry{key: h.key, written: written})
	}
}

// removeID takes a run's id out of memory, if it has one.
func (w *index) removeID(run []byte, key state.Key) {
	if w.ids.len() == 0 {
		return
	}
	if id := runID(run); id != nil {
		w.ids.remove(id, key)
	}
}

// removeIDs takes the ids of records that are in memory only, and of copies in the open batch, out of it, but not those of stubs. All are looked for before the first one is
// taken out: what lies in no cache is waited for at the same time.
func (w *index) removeIDs(near *near, all []wheel.Entry) {
	if w.ids.len() == 0 {
		return
	}
	hashes := w.ids.scratch[:0]
	for _, e := range all {
		var h idHash
		if r := ref(e.Ref); !r.stored() || len(w.ids.fresh) > 0 { // or a copy that is in the open batch
			if run := near.get(r); !isStub(run) {
				if id := runID(run); id != nil {
					h = w.ids.hash(id)
					w.ids.touched ^= w.ids.first.touch(h)
				}
			}
		}
		hashes = append(hashes, h)
	}
	w.ids.scratch = hashes
	for i, h := range hashes {
		if h != (idHash{}) {
			w.ids.removeHash(h, state.Key{Due: int64(all[i].Due), Seq: all[i].Seq})
		}
	}
}

// erase takes a record, or a stub, out of the store with its next batch: with its id, and not counted any more.
func (w *index) erase(key state.Key, run []byte) {
	if w.store == nil {
		return
	}
	w.store.Uncount(counted(key, run))
	w.deleteID(run, key)
	w.store.Delete(key)
	w.dirty = true
}

// deleteID takes a run's id out of the store's open batch, if it has one, and of a stub the record that has left it.
func (w *index) deleteID(run []byte, key state.Key) {
	if id := runID(run); id != nil {
		w.store.DeleteID(id, key)
	}
	if of := leftBy(run); of != (state.Key{}) {
		w.deleteStub(key, of, counted(key, run).Offset)
	}
}

// inStore finds in the store what is pending of some ids. What the open batch holds it does not find.
func (w *index) inStore(all iter.Seq2[int, []byte], fn func(i int, e indexEntry)) error {
	if !w.identified {
		return nil
	}
	err := w.store.FindIDs(all, func(i int, key state.Key, note int64) {
		if _, gone := w.gone[key]; !gone && w.lateUpTo.Less(key) {
			fn(i, entryOf(key, note))
		}
	})
	if err != nil {
		return fmt.Errorf("look for an id in the store: %w", err)
	}
	return nil
}

// lookUp asks the store at once for the ids that records are likely to have, of which there are most at most. What it has not got it is not asked for again
// before its next commit.
func (w *index) lookUp(likely iter.Seq2[int, []byte], most int) error {
	if !w.identified {
		return nil
	}
	var hashes []idHash
	var absent map[idHash]struct{}
	for i, id := range likely {
		if absent == nil {
			hashes, absent = make([]idHash, most), make(map[idHash]struct{}, most)
		}
		hashes[i] = w.ids.hash(id)
		absent[hashes[i]] = struct{}{}
	}
	if absent == nil {
		return nil
	}
	err := w.inStore(likely, func(i int, _ indexEntry) { delete(absent, hashes[i]) })
	if err == nil {
		w.ids.absent = absent
	}
	return err
}

// undecidable reports whether it cannot be told from ids yet what a record does to others: the store has lost some, or a resolve record that is not read yet may tell.
func (w *index) undecidable() bool { return w.blind || !w.live && w.position < w.ownEnd }

// has reports whether a record with an id is pending, or that the store could not be read.
func (w *index) has(id []byte) (found, failed bool) {
	if len(w.ids.find(id)) > 0 {
		return true, false
	}
	if w.ids.isAbsent(id) {
		return false, false
	}
	err := w.inStore(func(yield func(int, []byte) bool) { yield(0, id) }, func(int, indexEntry) { found = true })
	return found, err != nil
}

// spill puts a record of memory into the store's open batch.
func (w *index) spill(key state.Key, run []byte) error {
	who, written := identity{at: runIDPlace(run)}, int64(0)
	if who.at != 0 {
		var rec Record
		if err := rec.Decode(run); err != nil {
			return err
		}
		who.id, written = rec.id(who.at), rec.Timestamp
	}
	return w.put(run, who.id, indexEntry{key: key, written: written}, true)
}

// forgetIDs takes away what a partition without a store knows of the ids of records that only the log has.
func (w *index) forgetIDs(keys []state.Key) {
	if w.ids.len() == 0 || len(keys) == 0 {
		return
	}
	set := make(map[state.Key]struct{}, len(keys))
	for _, key := range keys {
		set[key] = struct{}{}
	}
	w.ids.forget(set)
}

// markGone has nothing found of a key that the store may hold.
func (w *index) markGone(key state.Key) {
	if w.gone == nil {
		w.gone = map[state.Key]struct{}{}
	}
	w.gone[key] = struct{}{}
}

// markDeleted has nothing found of a key that the store's open batch deletes.
func (w *index) markDeleted(key state.Key) {
	w.markGone(key)
	w.deleted = append(w.deleted, key)
}

// forgetDeleted forgets of what was taken away that which the store does not hold any more.
func (w *index) forgetDeleted() {
	for _, key := range w.deleted {
		delete(w.gone, key)
	}
	w.deleted = w.deleted[:0]
}

package pending

import "github.com/duewheel/duewheel/state"

// release is what is kept until a checkpoint is committed, and given up then.
type release struct {
	kind   releaseKind
	offset int64     // of the record
	key    state.Key // of the record, or of its stub
	id     []byte    // by which the store finds it; nil: it has none
	bytes  int       // of a record: its weight
	of     state.Key // of a stub: the record that has left it
	first  state.Key // with Env.Audit, of a retry: the request that it stands for, as it was asked for; zero: it is none
	by     int64     // the offset of what has taken it away; 0: nothing has
}

// releaseKind is what is released.
type releaseKind uint8

const (
	releaseOffset    releaseKind = iota // the store's resume, which stays below the offset
	releaseRecord                       // a record that was cancelled or replaced
	releaseStub                         // a stub that was
	releaseUnread                       // either of them, which only the log holds: the ledger goes on counting it until it is read again
	releaseLost                         // a record that was given up, before its copy was read
	releaseID                           // the id of a record that was delivered: Trim takes the record out of the store, and not its id
	releaseOvertaker                    // a record that was delivered before W passes it, and that the store may hold
)

// giveUp gives up what was kept for a checkpoint that is committed by now.
func (r release) giveUp(w *window) {
	switch r.kind {
	case releaseUnread:
		return
	case releaseLost:
		delete(w.gone, r.key)
		return
	case releaseOffset:
		w.ledger.Release(r.offset)
		return
	case releaseRecord, releaseStub:
		w.ledger.Forget(r.offset)
		w.deleted = append(w.deleted, r.key)
	case releaseOvertaker:
		w.deleted = append(w.deleted, r.key)
	}
	if w.store == nil {
		w.forgetDeleted()
		return
	}
	switch r.kind {
	case releaseRecord, releaseOvertaker:
		w.store.Uncount(state.Counted{Key: r.key, Offset: r.offset, Bytes: r.bytes})
		w.store.Delete(r.key)
	case releaseStub:
		w.deleteStub(r.key, r.of, r.offset)
	}
	if r.id != nil {
		w.store.DeleteID(r.id, r.key)
	}
	w.dirty = true
}

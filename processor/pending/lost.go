package pending

import (
	"bytes"
	"slices"

	"github.com/duewheel/duewheel/state"
)

// lost is about records that were given up, and copies of which lie at or above O: the log has lost them, and a person has gone on all the same (accept_loss), or
// has reset the checkpoint to between a record and its copy. Neither the log nor the store has them, as if they were resolved; so checkpoints say below which
// offset that is (state.Checkpoint.GivenUp). A copy that was made of what lies below stands for its record, unless something that is
// read has taken that away, or says that it is resolved.
//
// Nothing else tells of it. Where the log begins does not: what lies there and above L may be gone, and the store knows what had become of it. Nor does L, which passes
// what is resolved: a copy of that may come long after, in at_least_once, from an owner that was frozen.
//
// The zero value has lost nothing. It is so once all is decided that was read in the catch-up.
type lost struct {
	below int64                  // what lies below this offset was given up
	keys  map[state.Key]struct{} // of that, and named by what was read
	ids   map[string][]wanted    // ids that were named: the first so many
}

// mostIDsLost are so many ids, or records that have one: some MiB. They are kept for what hardly ever happens.
const mostIDsLost = 10_000

// waits reports whether a record with an id that is read in the catch-up waits for what lies behind it, which may be a copy of what was given up that has the
// same id. It does as long as few questions are open: a group that is new where the log does not begin at 0 reads very many of them, and has no copies.
func (l *lost) waits(questions int) bool { return l.below > 0 && questions < mostIDsLost }

// names notes what a record names that was read.
func (l *lost) names(key state.Key) {
	if key.Seq >= l.below {
		return
	}
	if l.keys == nil {
		l.keys = map[state.Key]struct{}{}
	}
	l.keys[key] = struct{}{}
}

// namesID notes an id that a record names which was read.
func (l *lost) namesID(w wanted) {
	if l.below == 0 {
		return
	}
	id := string(w.id)
	named := l.ids[id]
	for i := range named {
		if named[i].writtenBy == w.writtenBy { // they come in the order of the log
			named[i].before = w.before
			return
		}
	}
	if len(l.ids) >= mostIDsLost {
		return
	}
	if l.ids == nil {
		l.ids = map[string][]wanted{}
	}
	w.id = nil
	l.ids[id] = append(named, w)
}

// has reports whether a copy stands for a record that was lost.
func (l *lost) has(cp *copyOf) bool {
	if cp.from >= l.below {
		return false
	}
	_, named := l.keys[cp.key]
	return !named && !slices.ContainsFunc(l.ids[string(runID(cp.run))], func(w wanted) bool {
		return w.means(indexEntry{key: cp.key, written: cp.written})
	})
}

// lostCopies are copies at or above O that stand for records that were lost, unless something takes these away that lies before: what names such a record finds it,
// although it is read later.
type lostCopies struct {
	byKey map[state.Key]*copyOf
	byID  map[string][]*copyOf
}

// lostCopiesOf are those among the open questions.
func lostCopiesOf(k *keyed) (all lostCopies) {
	for i := range k.questions {
		q := &k.questions[i]
		if q.copied == nil || q.copied.from >= k.lost.below {
			continue
		}
		if all.byKey == nil {
			all = lostCopies{map[state.Key]*copyOf{}, map[string][]*copyOf{}}
		}
		cp := *q.copied
		cp.run = k.near.get(k.late.at(q.offset).ref) // while questions are answered none is released but that of its copy
		all.byKey[cp.key] = &cp
		if id := runID(cp.run); id != nil {
			all.byID[string(id)] = append(all.byID[string(id)], &cp)
		}
	}
	return all
}

// take takes the record of a key away before its copy is read.
func (cs lostCopies) take(l *lost, key state.Key) (r release, taken bool) {
	cp, is := cs.byKey[key]
	if !is || !l.has(cp) {
		return r, false
	}
	return release{kind: releaseLost, offset: key.Seq, key: key, id: bytes.Clone(runID(cp.run))}, true
}

// withID are those with an id: of what was delivered, the stubs.
func (cs lostCopies) withID(l *lost, id []byte) (found []indexEntry) {
	for _, cp := range cs.byID[string(id)] {
		switch {
		case cs.byKey[cp.key] != cp || !l.has(cp):
		case cp.stub != state.Key{}:
			found = append(found, indexEntry{cp.stub, cp.written, true})
		default:
			found = append(found, indexEntry{key: cp.key, written: cp.written})
		}
	}
	return found
}

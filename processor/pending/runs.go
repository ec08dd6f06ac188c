package pending

import (
	"fmt"

	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
)

// What comes from the disk may be wrong even where its checksum is right: another release may have written it. So each run is looked at where the store
// gives it, and not where it is needed. A partition that lives tells the store, which has failed then as with any wrong bytes: it is dropped and filled
// from the log.

// valid returns an error unless a run can be read, with the id that it says it has. It reads it into rec.
func valid(rec *Record, run []byte) error {
	if err := rec.Decode(run); err != nil {
		return err
	}
	if at := runIDPlace(run); at != 0 {
		if n := len(rec.id(at)); n == 0 || n > topics.MostID {
			return errNoID
		}
	}
	return nil
}

// getRun calls fn with the run that a store has under a key, if that is valid, and reports whether there is one.
func getRun(store *state.Partition, key state.Key, fn func(run []byte)) (found bool, wrong, err error) {
	var rec Record
	found, err = store.Get(key, func(run []byte) {
		if failed := valid(&rec, run); failed != nil {
			wrong = fmt.Errorf("record %v: %w", key, failed)
			return
		}
		fn(run)
	})
	return found, wrong, err
}

// get is getRun from the store that it uses.
func (w *index) get(key state.Key, fn func(run []byte)) error {
	_, wrong, err := getRun(w.store, key, fn)
	return w.told(wrong, err)
}

// scan calls fn with what the store that it uses has above a key, as Scan does.
func (w *index) scan(after state.Key, fn func(k state.Key, run []byte) bool) error {
	var rec Record
	var wrong error
	err := w.store.Scan(after, func(k state.Key, run []byte) bool {
		if failed := valid(&rec, run); failed != nil {
			wrong = fmt.Errorf("record %v: %w", k, failed)
			return false
		}
		return fn(k, run)
	})
	return w.told(wrong, err)
}

// told tells the store what is wrong with what it has given.
func (w *index) told(wrong, err error) error {
	if err != nil || wrong == nil {
		return err
	}
	return w.store.Corrupt(wrong)
}

package pending

import (
	"github.com/duewheel/duewheel/state"
)

// farthestLook is how long what was found in the store of the next record is taken for true, unless
// the number of those that only the store holds says otherwise, in ms.
const farthestLook = 5000

// storedDue is the due time of the first record that only the store holds, as last looked up.
type storedDue struct {
	due   int64 // ms; 0: there is none
	far   int   // how many there were
	above state.Key
	at    int64 // ms
}

// look returns the first due time above the horizon; 0 when there is none.
func (s *storedDue) look(w *window, now int64) int64 {
	if !w.live || !w.HasFar() {
		return 0
	}
	if s.far != w.Far() || s.above != w.horizon && s.due <= w.horizon.Due || now-s.at > farthestLook || now < s.at {
		*s = storedDue{far: w.Far(), above: w.horizon, at: now}
		from := w.horizon
		if from.Less(w.lateUpTo) {
			from = w.lateUpTo
		}
		// An error is met, and answered, by whatever reads the store next.
		_ = w.store.Scan(from, func(k state.Key, _ []byte) bool {
			_, is := w.gone[k]
			if !is {
				s.due = k.Due
			}
			return is
		})
	}
	return s.due
}

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

// firstDue is when the next record is due that is not in a turn, in ms: now for one that is refused,
// 0 when nothing is pending. Of what only the log holds nothing is known.
func (p *Partition) firstDue(now int64) int64 {
	first := int64(0)
	earlier := func(due int64) {
		if due == 0 {
			due = now
		}
		if first == 0 || due < first {
			first = due
		}
	}
	if len(p.repeat) > 0 && len(p.repeat[0].Items) > 0 {
		earlier(p.repeat[0].Items[0].due())
	}
	if len(p.late) > 0 {
		earlier(p.late[0].due()) // those behind it wait for it
	}
	if p.queue != nil {
		if due, ok := p.queue.nextDue(); ok {
			earlier(due)
		}
		return first
	}
	if due, ok := p.wheel.Next(); ok {
		earlier(int64(due))
	} else if due := p.firstStored(now); due > 0 {
		earlier(due)
	}
	return first
}

// firstStored is the first due time above the horizon; 0 when there is none.
func (p *Partition) firstStored(now int64) int64 {
	if p.store == nil || !p.live || p.Far() == 0 {
		return 0
	}
	s := &p.stored
	if s.far != p.Far() || s.above != p.horizon && s.due <= p.horizon.Due || now-s.at > farthestLook || now < s.at {
		*s = storedDue{far: p.Far(), above: p.horizon, at: now}
		from := p.horizon
		if from.Less(p.judge) {
			from = p.judge
		}
		// An error is met, and answered, by whatever reads the store next.
		_ = p.store.Scan(from, func(k state.Key, _ []byte) bool {
			s.due = k.Due
			return false
		})
	}
	return s.due
}

package pending

import (
	"github.com/duewheel/duewheel/wheel"
)

// taking is what a window does for a part.
type taking struct{ *window }

// freeStubs is how many stubs go along in a turn, for which nothing is produced, without counting as its records.
const freeStubs = 20_000

// due moves what is due into items, as much as a part may take. What is moved no longer counts as pending.
func (w taking) due(now int64, items []Item, most ration) []Item {
	if w.wheel.several || w.wheel.queued > 0 {
		return w.fairly(now, items, most)
	}
	var buf [256]wheel.Entry
	for most.left() {
		n := int(min(int64(most.records), int64(len(buf)), most.bytes/max(w.near.largest, 1)+1))
		got := w.wheel.Take(wheel.Tick(now), buf[:0], n)
		items = w.all(got, items, &most)
		if len(got) < n {
			break
		}
	}
	return items
}

// fairly is due for records of several targets.
func (w taking) fairly(now int64, items []Item, most ration) []Item {
	got, inOrder := w.wheel.due(wheel.Tick(now), most)
	items = w.all(got, items, &most)
	w.overtake(items[len(items)-len(got)+inOrder:])
	return items
}

// overtaking moves entries into items, all of which overtake.
func (w taking) overtaking(got []wheel.Entry, items []Item) []Item {
	items = w.all(got, items, &ration{})
	w.overtake(items[len(items)-len(got):])
	return items
}

// overtake takes in that items are resolved although W does not pass them.
func (w taking) overtake(items []Item) {
	for i := range items {
		it := &items[i]
		it.Resolve = true
		w.ledger.Overtake(it.Key)
		if w.store != nil && (it.stored || w.identified && it.Key.Seq < w.foundEnd) {
			w.markGone(it.Key)
		}
	}
}

// all moves entries into items, and counts them.
func (w taking) all(got []wheel.Entry, items []Item, left *ration) []Item {
	w.removeIDs(w.near, got)
	remembered := w.ledger.Waiting() < w.ledger.Len()
	for i, e := range got {
		w.near.touch(i, got)
		r := ref(e.Ref)
		run := w.near.get(r)
		offset, err := recordOffset(run)
		if err != nil {
			panic("pending: BUG: " + err.Error())
		}
		it := Item{ref: r, Run: run, Key: keyOfEntry(e), Offset: offset, stored: r.stored()}
		if remembered && isStub(run) {
			if left.stubs--; left.stubs < 0 {
				left.records--
			}
			items = append(items, stubs(w).expire(it))
			continue
		}
		// Not pending any more. What only memory holds goes on holding the store's resume
		// back, until it is released.
		w.ledger.Remove(it.Key, offset, weight(run), true)
		items = append(items, it)
		left.records--
		left.bytes -= int64(len(run))
	}
	return items
}

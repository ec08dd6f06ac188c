package pending

import (
	"strconv"
	"testing"

	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/wheel"
)

// readMany reads requests that are due from some ms on, so many in each.
func (l *owner) readMany(t *testing.T, p *Partition, from, to, dueMs, each int64) {
	t.Helper()
	r := req(0, 0, "orders")
	r.Value = make([]byte, 200)
	for r.Offset = from; r.Offset < to; r.Offset++ {
		r.Headers[0].Value = strconv.AppendInt(r.Headers[0].Value[:0], ms(dueMs+(r.Offset-from)/each), 10)
		_, err := p.Accept(r, testNow)
		must(t, err)
	}
	must(t, p.Sync())
}

// alone is how many bytes of records memory alone has.
func (p *Partition) alone() (bytes int64) {
	p.wheel.Update(wheel.Tick(0), func(e wheel.Entry) (uint64, bool) {
		if r := ref(e.Ref); !r.stored() {
			bytes += int64(len(p.near.get(r)))
		}
		return e.Ref, true
	})
	return bytes
}

// What a partition has in its store and is due soon comes in steps when it becomes live, however much it is and however much room there is. What
// memory alone has behind that goes to the store in steps, too.
func TestGoesLiveInSteps(t *testing.T) {
	const stored, again = 5 * LoadRecords, 3 * LoadRecords
	for _, c := range []struct {
		name          string
		each          int64 // are due in the same ms
		steps, brings int
	}{
		{"one after the other", 100, 6, LoadRecords},
		{"at one instant", 2 * stored, 6, 0}, // and loading brings all of it
	} {
		t.Run(c.name, func(t *testing.T) {
			l := testOwner(t)
			l.room.Budget, l.room.Share = 1<<40, 1<<40
			p := l.live(t)
			l.readMany(t, p, 0, stored, farMs, c.each)
			l.happened(p.Checkpoint())
			must(t, p.Flush())
			p, err := l.assign(p.committed, 0, stored, stored+again)
			must(t, err)
			equal(t, "far", p.Far(), stored)
			p.horizon = state.Key{Due: ms(2 * farMs), Seq: 1<<63 - 1} // as if it had been so long ago
			l.readMany(t, p, stored, stored+again, farMs, c.each)
			steps, held := 0, p.alone()
			for live := false; !live; steps++ {
				live, err = p.Enliven(l.room)
				must(t, err)
				if away := held - p.alone(); away > 2*SpillBytes {
					t.Errorf("step %d writes %d bytes to the store", steps, away)
				}
				held = p.alone()
			}
			if steps < c.steps {
				t.Errorf("it is live after %d steps, want %d at least", steps, c.steps)
			}
			if got := p.wheel.Len(); got > 2*LoadRecords || got < c.brings {
				t.Errorf("%d records are in memory then, want about %d", got, c.brings)
			}
			equal(t, "pending", p.Pending(), stored+again)
			must(t, Check(p))
			room, seen := l.room, 0
			room.Window = 3 * farMs
			for last, now := (state.Key{}), ms(3*farMs); seen < stored+again; {
				must(t, p.Load(now, room))
				pt := p.Take(now, nil, LoadRecords, anyBytes)
				if pt == nil {
					t.Fatalf("%d of %d are delivered", seen, stored+again)
				}
				for _, it := range pt.Items {
					if !last.Less(it.Key) {
						t.Fatalf("%v follows %v", it.Key, last)
					}
					last = it.Key
				}
				seen += len(pt.Items)
				l.happened(pt)
			}
		})
	}
}

// Near records go to the store in steps while a partition catches up, too: others of its owner are live.
func TestSpillsInStepsWhileItCatchesUp(t *testing.T) {
	const many = 2 * LoadRecords
	l := testOwner(t)
	p, err := l.assign(state.Checkpoint{Offset: -1}, 0, many, many)
	must(t, err)
	l.readMany(t, p, 0, many, 2500, 10*many)
	room, steps := l.room, 0
	room.Window, room.Spill = LeastWindow, p.near.bytes/10
	for more := true; more; steps++ {
		more, err = p.Fit(testNow, room)
		must(t, err)
	}
	if steps < 5 {
		t.Errorf("all of it goes to the store in %d steps", steps)
	}
	equal(t, "in memory", p.wheel.Len(), 0)
	must(t, p.goLive(l.room))
	equal(t, "pending", p.Pending(), many)
	must(t, Check(p))
}

// A partition that catches up is read on whatever memory it takes, so its steps are no smaller where its owner has many partitions or little memory.
func TestSpillsWhatIsReadWhileItCatchesUp(t *testing.T) {
	const many = 2 * LoadRecords
	l := testOwner(t)
	p, err := l.assign(state.Checkpoint{Offset: -1}, 0, many, many)
	must(t, err)
	l.readMany(t, p, 0, many, 2500, 10*many)
	most := int(p.near.bytes/SpillBytes) * 4
	room, steps := l.room, 0
	room.Window, room.Spill = LeastWindow, 1000
	for more := true; more && steps <= most; steps++ {
		more, err = p.Fit(testNow, room)
		must(t, err)
	}
	if t.Logf("%d bytes in %d steps", p.near.bytes, steps); steps > most {
		t.Errorf("it takes more than %d steps to give memory back", most)
	}
}

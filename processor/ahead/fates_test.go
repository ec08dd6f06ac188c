package ahead

import (
	"testing"

	"github.com/duewheel/duewheel/topics"
)

// fate is what has become of the record at an offset, as Trace tells it; false: of none.
func (d *draw) fate(at int64) (Fate, bool) {
	p, err := New(Env{Route: d.route, Mark: testMark, Skew: 1000, Now: testNow, Watch: Watch{Offset: at, Has: true}}, d.checkpoint, int64(len(d.log)))
	if err != nil {
		d.Fatal(err)
	}
	p.LogBegins(d.logStart)
	if at < d.checkpoint.Offset {
		p.position = at
	}
	for _, r := range d.log[p.position:] {
		p.Accept(r)
	}
	p.Decide()
	all := p.Fates()
	if len(all) == 0 {
		return Fate{}, false
	}
	return all[0], true
}

// fatesOf is what has become of all that has an id, as Look tells it.
func (d *draw) fatesOf(id []byte) []Fate {
	p, err := New(Env{Route: d.route, Mark: testMark, Skew: 1000, Now: testNow, Watch: Watch{ID: id}}, d.checkpoint, int64(len(d.log)))
	if err != nil {
		d.Fatal(err)
	}
	p.LogBegins(d.logStart)
	for _, r := range d.log[p.position:] {
		p.Accept(r)
	}
	p.Decide()
	return p.Fates()
}

// differs tells in which way what has become of a record is not what an owner makes of it.
func (o *owned) differs(at int64, f Fate, has bool) string {
	code, refused := o.refused[at]
	taken, isTaken := o.taken[at]
	switch {
	case o.seqs[at] != (has && f.State == IsPending):
		return "whether it waits"
	case !has:
	case refused && (f.State != IsDeadLettered || f.Refusal != nil && f.Refusal.Code != code):
		return "dead-lettered: " + string(code)
	case o.ignored[at] && f.State != IsDeadLettered:
		return "left out"
	case isTaken && (f != Fate{Found: f.Found, State: map[bool]State{false: IsCancelled, true: IsReplaced}[taken.replaces], By: taken.by, Guess: f.Guess, Read: f.Read, Forgotten: f.Forgotten}):
		return "taken away"
	}
	return ""
}

// What has become of any record is what an owner makes of it that begins now.
func TestFatesAsAnOwnerSeesThem(t *testing.T) {
	names, kinds := allRoutes(t)
	for i, name := range names {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seen := map[topics.Code]int{}
			waits, taken, byID := 0, 0, 0
			for n := range 500 { // the shortest logs first
				d := drawn(t, uint64(n), 1+n/16, kinds[i], kinds)
				owner := d.machine()
				for at := d.logStart; at < int64(len(d.log)); at++ {
					f, has := d.fate(at)
					if how := owner.differs(at, f, has); how != "" {
						d.show(t)
						t.Fatalf("checkpoint %+v, %d records, the log begins at %d\n%d has become %+v, %v; an owner differs: %s (by %+v)", d.checkpoint, len(d.log), d.logStart, at, f, has, how, owner.taken[at])
					}
				}
				for _, id := range []string{"a", "b", "c", "d"} {
					for _, f := range d.fatesOf([]byte(id)) {
						if how := owner.differs(f.Offset, f, true); how != "" {
							d.show(t)
							t.Fatalf("checkpoint %+v, %d records, the log begins at %d\n%d, which has the id %s, has become %+v; an owner differs: %s (by %+v)", d.checkpoint, len(d.log), d.logStart, f.Offset, id, f, how, owner.taken[f.Offset])
						}
						byID++
					}
				}
				waits, taken = waits+len(owner.seqs), taken+len(owner.taken)
				for _, code := range owner.refused {
					seen[code]++
				}
			}
			if byID == 0 && kinds[i].Delay == 0 && kinds[i].Retry == nil {
				t.Error("nothing has an id")
			}
			if waits == 0 || len(seen) == 0 || taken == 0 && kinds[i].Delay == 0 && kinds[i].Retry == nil {
				t.Errorf("%d waited, %d were taken away, and refused were %v: the logs show nothing", waits, taken, seen)
			}
		})
	}
}

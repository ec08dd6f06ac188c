package wheel

import (
	"slices"
	"testing"
)

// Far ahead a slot holds dues of which the low digits are the same: they are told apart, whatever their chunks share.
func TestFarDuesAreToldApart(t *testing.T) {
	for name, apart := range map[string]Tick{"in a chunk": 1 << 32, "in chunks of their own": 1 << 40} {
		t.Run(name, func(t *testing.T) {
			const first, n = Tick(1) << 48, 10
			fill := func() (*Wheel, []Entry) { // two of each due
				w := New(0)
				var all []Entry
				for i := range int64(n) {
					all = append(all, Entry{Due: first + Tick(i/2)*apart, Seq: i % 2, Ref: uint64(i)})
					w.Add(all[i].Due, all[i].Seq, all[i].Ref)
				}
				return w, all
			}
			for i := range n {
				w, all := fill()
				var got []Entry
				w.RemoveAll([]Entry{all[i], {Due: all[i].Due, Seq: 2}}, func(e Entry) { got = append(got, e) })
				if want := all[i : i+1]; !slices.Equal(got, want) {
					t.Errorf("taken out with others is %v, want %v", got, want)
				}
				w, all = fill()
				if ref, ok := w.Remove(all[i].Due, all[i].Seq); !ok || ref != uint64(i) {
					t.Errorf("of number %d the reference is %d, %v", i, ref, ok)
				}
				if err := check(w); err != nil {
					t.Error(err)
				}
				if got, want := w.Take(all[n-1].Due, nil, n), slices.Delete(all, i, i+1); !slices.Equal(got, want) {
					t.Errorf("without number %d they are\n%v, want\n%v", i, got, want)
				}
			}
		})
	}
}

// What is past is not held, also where a slot of what is to come has the digits of its due.
func TestPastIsNotHeld(t *testing.T) {
	w := New(1 << 16)
	w.Add(1<<16+5, 1, 9)
	w.Add(1<<17, 2, 9)
	if _, ok := w.Remove(5, 1); ok {
		t.Error("it takes out what is due later")
	}
	w.RemoveAll([]Entry{{Due: 4, Seq: 1}, {Due: 5, Seq: 1}, {Due: 1<<16 + 5, Seq: 1}, {Due: 1<<16 + 6, Seq: 1}}, func(e Entry) {
		if e.Due != 1<<16+5 {
			t.Errorf("it takes out what is due at %d", e.Due)
		}
	})
	if w.Len() != 1 {
		t.Errorf("%d are left", w.Len())
	}
}

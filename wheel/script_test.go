package wheel

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestScripts runs testdata. Commands:
//
//	new now=N                          an empty wheel
//	add due=N seq=N [count=N] [step=N] count entries, due step apart, with seqs that follow each other; tells where they are
//	take now=N max=N                   what is due, in order
//	take-from due=N                    the far end
//	remove due=N seq=N
//	show                               every occupied slot
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		s := &script{w: New(0)}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			out := s.run(t, d)
			if err := check(s.w); err != nil {
				t.Fatalf("%s: %v", d.Pos, err)
			}
			return out
		})
	})
}

type script struct {
	w *Wheel
}

func (s *script) run(t *testing.T, d *datadriven.TestData) string {
	arg := func(name string, otherwise int64) int64 {
		d.MaybeScanArgs(t, name, &otherwise)
		return otherwise
	}
	due, seq := Tick(arg("due", 0)), arg("seq", 0)
	switch d.Cmd {
	case "new":
		s.w = New(Tick(arg("now", 0)))
		return s.state()
	case "add":
		return s.add(due, seq, arg("count", 1), arg("step", 0))
	case "take":
		return entries(s.w.Take(Tick(arg("now", 0)), nil, int(arg("max", 0)))) + s.state()
	case "take-from":
		n := s.w.TakeFrom(due, func(Entry) {})
		return fmt.Sprintf("%d gone\n%s", n, s.state())
	case "remove":
		ref, ok := s.w.Remove(due, seq)
		return fmt.Sprintf("ref=%d %t\n%s", ref, ok, s.state())
	case "show":
		return s.show()
	}
	t.Fatalf("%s: unknown command %s", d.Pos, d.Cmd)
	return ""
}

func (s *script) add(due Tick, seq, count, step int64) string {
	var out strings.Builder
	last := ""
	for i := range count {
		due := due + Tick(i*step)
		s.w.Add(due, seq+i, uint64(seq+i))
		if place := s.place(due, seq+i); place != last {
			fmt.Fprintf(&out, "%d:%d %s\n", due, seq+i, place)
			last = place
		}
	}
	return out.String()
}

func (s *script) place(due Tick, seq int64) string {
	for _, it := range s.w.late {
		if due == s.w.Now() && it.seq == seq {
			return "late"
		}
	}
	d := digitsOf(due)
	k := d.level(s.w.cursor)
	return fmt.Sprintf("level=%d slot=%d", k, d.at(k))
}

func (s *script) state() string {
	next := "none"
	if due, ok := s.w.Next(); ok {
		next = fmt.Sprint(due)
	}
	return fmt.Sprintf("now=%d next=%s len=%d\n", s.w.Now(), next, s.w.Len())
}

func (s *script) show() string {
	var out strings.Builder
	for k, l := range s.w.levels {
		for i := 0; l != nil && i < slots; i++ {
			if l.occupied.has(uint8(i)) {
				fmt.Fprintf(&out, "level=%d slot=%d: %s\n", k, i, s.chunks(&l.slots[i]))
			}
		}
	}
	if len(s.w.late) > 0 {
		fmt.Fprintf(&out, "late: %d\n", len(s.w.late))
	}
	return out.String() + s.state()
}

// chunks shows how a slot is made up: the number of entries in each chunk, after the smallest due.
func (s *script) chunks(of *slot) string {
	out := fmt.Sprintf("min=%d chunks", of.min.tick())
	start := of.start
	for i := of.head; i != 0; i, start = s.w.chunks.at(i).next, 0 {
		out += fmt.Sprint(" ", s.w.chunks.at(i).len()-start)
	}
	return out
}

func entries(all []Entry) string {
	var out strings.Builder
	for i, e := range all {
		if i >= 6 && i < len(all)-1 {
			if i == 6 {
				fmt.Fprintf(&out, "... %d more ...\n", len(all)-7)
			}
			continue
		}
		fmt.Fprintf(&out, "%d:%d\n", e.Due, e.Seq)
	}
	return out.String()
}

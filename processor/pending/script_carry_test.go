package pending

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cockroachdb/datadriven"

	"github.com/duewheel/duewheel/topics"
)

// carry makes a part that appends copies of what is pending where the arguments say, from the end of the log on, or at= some offset: others write, too.
func (s *script) carry(d *datadriven.TestData) string {
	if !(Carrying{s.p}).May() {
		return "nothing may be carried now"
	}
	var copies []topics.Copy
	var out []string
	s.carried = s.number(d, "at", s.high)
	s.high = s.carried
	for _, a := range d.CmdArgs {
		if a.Key == "at" {
			continue
		}
		if _, c, is := (Carrying{s.p}).Copy(s.log[s.parse(a.Key)]); is {
			copies = append(copies, c)
			s.log[s.carried] = s.copy(s.carried, c.From)
			out = append(out, fmt.Sprintf("%d copies %d", s.carried, c.From))
			s.carried++
		}
	}
	if len(copies) == 0 {
		return "nothing of that is pending there"
	}
	pt := Carrying{s.p}.Take(slices.Values(copies))
	pt.To.Appended = true
	return strings.Join(out, ", ") + "; " + s.part(pt)
}

// carryEnds takes in what became of such a part.
func (s *script) carryEnds(happened bool) {
	end := s.carried
	if !happened {
		end = 0
		for at := s.high; at < s.carried; at++ {
			delete(s.log, at)
		}
	}
	Carrying{s.p}.Done(end)
	if happened {
		s.p.Appended(end)
		s.high = end
	}
}

package pending

import (
	"slices"
	"testing"
)

// In at_least_once a crash may leave resolve records that the checkpoint does not know of. A duplicate of what has overtaken in the same turn is
// resolved as that is: with nothing pending that has its id it would be accepted, and delivered after it was dead-lettered.
func TestDuplicateThatIsResolvedAboveO(t *testing.T) {
	s := scopesOfTargets[slices.IndexFunc(scopesOfTargets, func(s scope) bool { return s.name == "targets, early, ids" })]
	s.atLeastOnce = true
	s.prepare(t)
	v := s.begin()
	for _, name := range []string{
		"a request with the id comes for another target",
		"it is decided what cancels do",
		"it takes all",
		"a request with the id comes for another target",
		"it crashes when the turn has happened",
	} {
		at := slices.IndexFunc(steps, func(x step) bool { return x.name == name })
		if !steps[at].may(v) {
			t.Fatalf("%s: it cannot be so", name)
		}
		steps[at].do(v)
		v.check()
	}
	before := s.seen["stale"]
	v.drain()
	if s.seen["stale"] == before {
		t.Error("the duplicate was decided anew")
	}
}

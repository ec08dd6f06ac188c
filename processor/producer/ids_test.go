package producer

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// A busy id is not given again before it is free; free ones are given in the order in which they became so.
func TestSpare(t *testing.T) {
	var free func()
	s := NewSpare([]string{"me-2", "me-3"}, func(id string, f func()) {
		if id == "me-0" {
			free = f
		}
	})
	id, _ := s.swap("me-0")
	equal(t, "the first spare id", id, "me-2")
	kept := &BusyID{"me-0", s}
	equal(t, "busy", kept.Still(), true)
	free()
	equal(t, "busy when it is free", kept.Still(), false)
	for _, want := range []string{"me-3", "me-0"} {
		if id, ok := s.swap("x" + want); !ok || id != want {
			t.Errorf("the next spare id is %q, want %q", id, want)
		}
	}
	if id, ok := s.swap("one more"); ok {
		t.Errorf("a spare id %q from nowhere", id)
	}
	equal(t, "busy without an id", (*BusyID)(nil).Still(), false)
}

// The transactional ids of two lanes are different ones, whatever groups and instances are called: else each fences the other with every turn. All begin as rights to
// them are given.
func TestWritersHaveNothingInCommon(t *testing.T) {
	names := []string{"a", "a-0", "a-0-1", "a-clock", "0", "1-0", "a-0@a", "a@0-1"}
	writers, ids := map[string]string{}, map[string]string{}
	for _, group := range names {
		for _, instance := range slices.DeleteFunc(slices.Clone(names), func(n string) bool { return strings.Contains(n, "@") }) {
			for lane := range 2 {
				who, writer := fmt.Sprint(group, " ", instance, " ", lane), Writer(group, instance, lane)
				if other, ok := writers[writer]; ok {
					t.Errorf("%s and %s are both %s", other, who, writer)
				}
				writers[writer] = who
				for _, id := range IDsOf(writer) {
					if other, ok := ids[id]; ok || !strings.HasPrefix(id, group+"-") {
						t.Errorf("%s and %s have %s", other, who, id)
					}
					ids[id] = who
				}
			}
		}
	}
}

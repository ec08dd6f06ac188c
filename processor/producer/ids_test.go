package producer

import "testing"

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

package check

import "testing"

// Between which times a record has come follows from where the log ended, and when; also when marks were given up.
func TestMarks(t *testing.T) {
	var s marks
	check := func(offset, after, before int64) {
		t.Helper()
		if a, b := s.cameAfter(offset), s.cameBefore(offset); a != after || b != before {
			t.Errorf("offset %d came after %d and before %d, want %d and %d", offset, a, b, after, before)
		}
	}
	check(0, 0, 0)
	s.add(5, 100, 110)
	check(4, 0, 110)
	check(5, 100, 0)
	s.add(5, 200, 210) // nothing has come
	s.add(9, 300, 310)
	check(4, 0, 110)
	check(5, 200, 310)
	check(8, 200, 310)
	check(9, 300, 0)
	for i := range int64(10 * mostMarks) {
		s.add(10+i, 1000+10*i, 1005+10*i)
	}
	if n := len(s); n > mostMarks || n < mostMarks/2 {
		t.Errorf("%d marks are kept", n)
	}
	for i := range int64(10 * mostMarks) {
		offset := 10 + i
		if after, before := s.cameAfter(offset), s.cameBefore(offset); after > 1000+10*i || before > 0 && before < 1005+10*(i+1) {
			t.Fatalf("offset %d came after %d and before %d", offset, after, before)
		}
	}
	check(10+10*mostMarks, s[len(s)-1].after, 0)
}

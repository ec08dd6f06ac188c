package verify

import (
	"encoding/json"
	"slices"
	"testing"
	"time"
)

// Which faults are shown is not chance: those of the first requests are, in whatever order topics are read and however often.
func TestShownAreTheFirst(t *testing.T) {
	s := newFakeGroup(t)
	s.config.Keep = 3
	all := s.many(0, 12)
	slices.Reverse(all)
	for range 2 {
		for _, r := range all {
			again := *r
			s.write(&again)
		}
	}
	for _, offset := range []int64{20, 19, 18, 17} { // strays are found by their requests, which are not there
		stray := *all[0]
		set(&stray, "delay-source", "delays/0/"+string(rune('0'+offset/10))+string(rune('0'+offset%10)))
		s.write(&stray)
	}
	s.ask(30, 100)
	s.resolve("delays", 0, 13, 60, 12)
	first := s.pass(s.verifier())
	for _, f := range first.Faults {
		var got []int64
		for _, one := range f.First {
			got = append(got, one.Offset)
		}
		if want := map[string][]int64{"doubled": {0, 0, 1}, "stray": {17, 18, 19}}[f.Kind]; !slices.Equal(got, want) {
			t.Errorf("%s: shown are %v, want %v", f.Kind, got, want)
		}
	}
	v := s.verifier()
	s.pass(v)
	again := s.pass(v)
	a, _ := json.Marshal(first.Faults)
	b, _ := json.Marshal(again.Faults)
	if string(a) != string(b) || len(first.Faults) != 2 {
		t.Errorf("at first it says\n%s\nand then\n%s", a, b)
	}
}

// One that is overdue is followed by another: there are as many as before, and that they are others is known also where they are not shown.
func TestOthersAreOverdue(t *testing.T) {
	s := newFakeGroup(t)
	s.config.Keep = 1
	stuck, first := s.ask(0, 5), s.ask(1, 10)
	s.ask(2, 20)
	s.resolve("delays", 0, 3, 1, 0)
	v := s.verifier()
	now := s.at(15)
	v.config.Now = func() time.Time { return now }
	overdue := func() Found {
		t.Helper()
		r := s.pass(v)
		if len(r.Faults) != 1 || r.Faults[0].Kind != "overdue" || r.Faults[0].Count != 2 {
			t.Fatalf("%+v", r.Faults)
		}
		return r.Faults[0]
	}
	before, same := overdue(), overdue()
	if same.Differs(before) {
		t.Error("it says of the same that they are others")
	}
	s.write(s.delivered(first, 10))
	now = s.at(25)
	after := overdue()
	if one, is := after.New(before); !after.Differs(before) || is {
		t.Errorf("others are overdue: %t; and of those that are shown %v is new", after.Differs(before), one)
	}
	s.write(s.delivered(stuck, 5))
	s.ask(3, 21)
	now = s.at(26)
	if one, is := overdue().New(after); is { // it was not shown, and it was there
		t.Errorf("of offset %d nothing says that it is new", one.Offset)
	}
}

// What is new is not among those that were shown before, nor behind them where others were not shown.
func TestNew(t *testing.T) {
	found := func(kind string, count int64, offsets ...int64) Found {
		f := Found{Kind: kind, Count: count}
		for _, offset := range offsets {
			f.First = append(f.First, Fault{Topic: "delays", Offset: offset, Detail: "as of now"})
		}
		return f
	}
	for _, c := range []struct {
		name        string
		before, now Found
		differs     bool
		want        int64 // none: -1
	}{
		{"nothing was there", Found{}, found("missing", 1, 4), true, 4},
		{"the same", found("missing", 1, 4), found("missing", 1, 4), false, -1},
		{"one more behind", found("missing", 2, 4, 5), found("missing", 3, 4, 5, 6), true, 6},
		{"one more before", found("missing", 5, 4, 6), found("missing", 6, 4, 5), true, 5},
		{"one that may have been there", found("missing", 5, 4, 6), found("missing", 4, 6, 9), true, -1},
		{"another cut of one partition", found("cut", 1, 4), found("cut", 1, 9), false, -1},
	} {
		one, is := c.now.New(c.before)
		if !is {
			one.Offset = -1
		}
		if got := c.now.Differs(c.before); got != c.differs || one.Offset != c.want {
			t.Errorf("%s: differs %t, new is %d, want %t and %d", c.name, got, one.Offset, c.differs, c.want)
		}
	}
}

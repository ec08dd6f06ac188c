package main

import (
	"fmt"
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/clipperhouse/displaywidth"
	"pgregory.net/rapid"
)

// What takes two columns of a terminal, or none, leaves the columns straight.
func TestAlignedWide(t *testing.T) {
	var b strings.Builder
	w := newAligned(&b)
	fmt.Fprint(w, "ID\tKEY\tSIZE\nreminder\tk\t7 B\n注文-17\t\t8 B\n🎂🎂\tcafe\u0301\t9 B\n")
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	want := "ID        KEY   SIZE\n" +
		"reminder  k     7 B\n" +
		"注文-17         8 B\n" +
		"🎂🎂      cafe\u0301  9 B\n"
	if b.String() != want {
		t.Errorf("got\n%s, want\n%s", b.String(), want)
	}
}

// With characters that take one column each it is what text/tabwriter writes.
func TestAlignedIsTabwriter(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		text := ""
		for _, line := range rapid.SliceOf(rapid.StringMatching(`[a-d]{0,6}(\t[é-ü]{0,5}){0,4}`)).Draw(rt, "lines") {
			text += line + "\n"
		}
		var got, want strings.Builder
		a, tw := newAligned(&got), tabwriter.NewWriter(&want, 0, 0, 2, ' ', 0)
		fmt.Fprint(a, text)
		fmt.Fprint(tw, text)
		if err := a.Flush(); err != nil {
			rt.Fatal(err)
		}
		if err := tw.Flush(); err != nil {
			rt.Fatal(err)
		}
		if got.String() != want.String() {
			rt.Errorf("of %q got\n%s, want\n%s", text, got.String(), want.String())
		}
	})
}

// One long id does not push what stands behind all others out of sight.
func TestAlignedLong(t *testing.T) {
	long := strings.Repeat("x", 100)
	var b strings.Builder
	w := newAligned(&b)
	fmt.Fprint(w, "ID\tKEY\nreminder\tk\n"+long+"\tk\n")
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	blanks := strings.Repeat(" ", mostPadded)
	if want := "ID" + blanks + "KEY\nreminder" + blanks[:mostPadded-6] + "k\n" + long + "  k\n"; b.String() != want {
		t.Errorf("got\n%s, want\n%s", b.String(), want)
	}
}

// What is cut takes no more columns than it may, and no character is cut in two.
func TestClipped(t *testing.T) {
	for _, test := range []struct {
		text    string
		columns int
		want    string
	}{
		{"reminder", 8, "reminder"}, {"reminder", 7, "remind…"},
		{"注文番号", 8, "注文番号"}, {"注文番号", 7, "注文番…"}, {"注文番号", 6, "注文…"},
		{"cafe\u0301s", 5, "cafe\u0301s"}, {"cafe\u0301s", 4, "caf…"},
	} {
		if got := clipped(test.text, test.columns, "…"); got != test.want || displaywidth.String(got) > test.columns {
			t.Errorf("%q in %d columns: %q, want %q", test.text, test.columns, got, test.want)
		}
	}
}

// A screen is cut at its right edge, whatever lies there, and a painted line is as wide as it looks.
func TestEdgeOfWide(t *testing.T) {
	var b strings.Builder
	c := &cutter{w: &b, columns: 10, end: "…"}
	fmt.Fprint(c, "注文番号一二\n一二三四五\nreminder-1\n")
	if want := "注文番号…\n一二三四五\nreminder-1\n"; b.String() != want {
		t.Errorf("cut to\n%s, want\n%s", b.String(), want)
	}
	l := painted{}.add(bold, "注文").add(unpainted, "番号一二")
	if got := l.fill(14).add(unpainted, "|").text(); l.width() != 12 || got != "注文番号一二  |" {
		t.Errorf("%d columns, filled to %q", l.width(), got)
	}
	if got := l.cut(7, "…").text(); got != "注文番…" {
		t.Errorf("cut to %q", got)
	}
	if got := brief([]byte("注文番号注文番号"), 9); got != "注文番号…" {
		t.Errorf("in brief %q", got)
	}
}

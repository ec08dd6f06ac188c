package main

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/duewheel/duewheel/verify"
)

// What --watch shows of a kind of faults was not there before: what is overdue goes away, and comes in any order of its offsets.
func TestVerifyTellsWhatIsNew(t *testing.T) {
	overdue := func(offsets ...int64) *verify.Report {
		f := verify.Found{Kind: "overdue"}
		for _, offset := range offsets {
			f.Count++
			f.First = append(f.First, verify.Fault{Topic: "delays", Offset: offset, Detail: "due"})
		}
		r := &verify.Report{Faults: []verify.Found{f}}
		if f.Count == 0 {
			r.Faults = nil
		}
		return r
	}
	for _, c := range []struct {
		before, now []int64
		want        string
	}{
		{nil, []int64{5, 7}, "OVERDUE: 2, and there were 0: delays/0@5: due"},
		{[]int64{5}, []int64{5, 7}, "OVERDUE: 2, and there were 1: delays/0@7: due"},
		{[]int64{5}, []int64{2, 5}, "OVERDUE: 2, and there were 1: delays/0@2: due"},
		{[]int64{1, 2, 3}, []int64{2, 4}, "OVERDUE: 2, and there were 3: delays/0@4: due"},
		{[]int64{1, 2, 3}, []int64{2}, "OVERDUE: 1, and there were 3"},
		{[]int64{1}, []int64{1}, ""},
		{[]int64{1}, []int64{2}, "OVERDUE: 1, as many as before, and not the same: delays/0@2: due"},
		{[]int64{1, 5}, []int64{5, 9}, "OVERDUE: 2, as many as before, and not the same: delays/0@9: due"},
		{[]int64{1}, nil, "overdue: none any more"},
	} {
		var b strings.Builder
		if err := (&verifying{}).tellNews(&b, overdue(c.before...), overdue(c.now...)); err != nil {
			t.Fatal(err)
		}
		_, got, _ := strings.Cut(strings.TrimSpace(b.String()), " ")
		if got != c.want {
			t.Errorf("%v after %v: it says %q, want %q", c.now, c.before, got, c.want)
		}
	}
}

// What is new and is not among those that are kept is told without a place.
func TestVerifyTellsOfWhatIsNotShown(t *testing.T) {
	missing := func(count int64) *verify.Report {
		return &verify.Report{Faults: []verify.Found{{Kind: "missing", Count: count, First: []verify.Fault{{Topic: "delays", Offset: 5}}}}}
	}
	for now, want := range map[int64]string{4: "MISSING: 4, and there were 3; what is new is none of the first 1 (--show)", 3: "", 2: "MISSING: 2, and there were 3"} {
		var b strings.Builder
		if err := (&verifying{}).tellNews(&b, missing(3), missing(now)); err != nil {
			t.Fatal(err)
		}
		if _, got, _ := strings.Cut(strings.TrimSpace(b.String()), " "); got != want {
			t.Errorf("%d: it says %q, want %q", now, got, want)
		}
	}
}

// docs/operations.md tells of each field of a report.
func TestVerifyReportIsDocumented(t *testing.T) {
	b, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(b), "\n### The report as JSON\n")
	section, _, _ = strings.Cut(section, "\n## ")
	fields := 0
	var walk func(reflect.Type)
	walk = func(is reflect.Type) {
		switch is.Kind() {
		case reflect.Slice:
			walk(is.Elem())
		case reflect.Struct:
			for f := range is.NumField() {
				if !is.Field(f).IsExported() {
					continue
				}
				name, _, _ := strings.Cut(is.Field(f).Tag.Get("json"), ",")
				if fields++; !strings.Contains(section, "`"+name+"`") {
					t.Errorf("%s of %v is not told of", name, is)
				}
				walk(is.Field(f).Type)
			}
		}
	}
	walk(reflect.TypeFor[verify.Report]())
	if fields < 40 {
		t.Errorf("a report has %d fields", fields)
	}
}

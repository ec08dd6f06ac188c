package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestRecapSaysWhatHasFailedAndNothingElse(t *testing.T) {
	var in strings.Builder
	say := func(action, test, output string) {
		if err := json.NewEncoder(&in).Encode(event{action, "pkg", test, output}); err != nil {
			t.Fatal(err)
		}
	}
	say("output", "TestWell", "    well_test.go:1: a figure\n")
	say("pass", "TestWell", "")
	say("output", "TestAll/part one", "=== RUN   TestAll/part one\n")
	say("output", "TestAll/part one", "    all_test.go:7: too late: 9 s\n")
	say("output", "TestAll/part one", "    log_test.go:3: the log ends:\n")
	for i := range 100 {
		say("output", "TestAll/part one", fmt.Sprintf("        line %d\n", i))
	}
	say("output", "TestAll/part one", "--- FAIL: TestAll/part one (1.00s)\n")
	say("fail", "TestAll/part one", "")
	say("fail", "TestAll", "")
	say("run", "TestOther", "")
	say("output", "TestOther", "panic: "+strings.Repeat("x", 2*mostBytes)+"\n")
	say("output", "TestOther", "goroutine 7 [running]:\n")
	say("output", "", "FAIL\tpkg\t1.0s\n")
	say("fail", "", "")
	in.WriteString("FAIL\n")
	var out, kept strings.Builder
	if err := follow(strings.NewReader(in.String()), &out, &kept); err != nil {
		t.Fatal(err)
	}
	all, end, _ := strings.Cut(out.String(), "\n=== what has failed, without logs\n")
	if !strings.Contains(all, "line 99\n") || !strings.HasSuffix(all, "FAIL\n") {
		t.Errorf("printed:\n%s", all)
	}
	want := "--- failed: pkg TestAll/part one\n    all_test.go:7: too late: 9 s\n    log_test.go:3: the log ends:\n        line 0\n        line 1\n" +
		"--- failed: pkg TestOther\npanic: " + strings.Repeat("x", mostBytes-len("panic: ")) + " …\n"
	if end != want || !strings.HasSuffix(kept.String(), "\n"+want) || strings.Contains(kept.String(), "line 99") {
		t.Errorf("got:\n%s\nkept:\n%s\nwant:\n%s", end, kept.String(), want)
	}
}

// What a test says again and again does not push out what it has said once.
func TestRecapOfManyMessages(t *testing.T) {
	var r recap
	r.take(event{"output", "pkg", "Test", "    a_test.go:7: the cause\n"})
	for i := range 3 * mostSaid {
		r.take(event{"output", "pkg", "Test", fmt.Sprintf("    a_test.go:8: said %d\n", i)})
	}
	if got := r.String(); got != "" {
		t.Errorf("nothing has failed:\n%s", got)
	}
	r.take(event{"fail", "pkg", "Test", ""})
	got := strings.Split(strings.TrimSpace(r.String()), "\n")[1:]
	want := []string{"    a_test.go:7: the cause", "    a_test.go:8: said 0"}
	for i := 2*mostSaid + 2; i < 3*mostSaid; i++ {
		want = append(want, fmt.Sprintf("    a_test.go:8: said %d", i))
	}
	if got = got[1:]; !slices.Equal(got, want) {
		t.Errorf("got:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for i := range mostSaid {
		r.take(event{"output", "pkg", "Places", fmt.Sprintf("    a_test.go:%d: said\n", i)})
	}
	r.take(event{"output", "pkg", "Places", "panic: at last\n"})
	r.failed = nil
	r.take(event{"fail", "pkg", "Places", ""})
	if got := r.String(); strings.Contains(got, ":0: ") || !strings.HasSuffix(got, "panic: at last\n") {
		t.Errorf("got:\n%s", got)
	}
}

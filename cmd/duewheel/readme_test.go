package main

import (
	"context"
	"io"
	"os"
	"strings"
	"testing"
)

// The README's commands, as written and in its order, take a new user from nothing to a record that is delivered, and to one that is seen in the agenda and
// cancelled.
func TestReadmeAsWritten(t *testing.T) {
	b, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, addr := cluster(t, map[string]int32{"orders": 1})
	config := writeFile(t, "duewheel.yaml", strings.Replace(smallest, "127.0.0.1:9092", addr, 1))
	said := map[string]string{ // what each command says, in part
		"topics": "delay-requests", "produce": ", handle ", "agenda": "█ orders 1", "cancel": "asks to cancel the id reminder-1",
	}
	asked := map[string]int{}
	for line := range strings.Lines(string(b)) {
		line, is := strings.CutPrefix(line, "    ./duewheel ")
		if !is {
			continue
		}
		line, _, _ = strings.Cut(line, " #")
		args := strings.Fields(strings.ReplaceAll(line, "duewheel.yaml", config))
		asked[args[0]]++
		switch args[0] {
		case "run":
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			args = append(args[:len(args)-1], "-X", "state.dir="+t.TempDir(), "-X", "admin.listen=off") // without the &
			go func() { ended <- run(ctx, args, nil, io.Discard, io.Discard) }()
			t.Cleanup(func() {
				cancel()
				if err := <-ended; err != nil {
					t.Error(err)
				}
			})
			continue
		case "agenda": // and the other one has been delivered
			if r := fetch(t, addr, "orders", 1)[0]; string(r.Key) != "key" || string(r.Value) != "value" {
				t.Errorf("delivered is %s=%s", r.Key, r.Value)
			}
			await(t, func() string {
				if out, err := command(t, "", args...); err != nil || !strings.Contains(out, said["agenda"]) {
					return out + errorText(err)
				}
				return ""
			})
			continue
		}
		if out, err := command(t, "", args...); err != nil || !strings.Contains(out, said[args[0]]) {
			t.Fatalf("%v: printed %q, %v; want %q", args, out, err, said[args[0]])
		}
	}
	for name, n := range map[string]int{"topics": 1, "run": 1, "produce": 2, "agenda": 1, "cancel": 1} {
		if asked[name] != n {
			t.Errorf("the README has %d of %s, want %d", asked[name], name, n)
		}
	}
	await(t, func() string {
		if out, err := command(t, "", "agenda", "-c", config); err != nil || !strings.Contains(out, "nothing is pending") {
			return out + errorText(err)
		}
		return ""
	})
}

// readmeLines are the command lines of the README, without what is said behind them.
func readmeLines(t *testing.T) (lines []string) {
	t.Helper()
	b, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	fenced := false
	for line := range strings.Lines(string(b)) {
		fenced = fenced != strings.HasPrefix(line, "```")
		if line, is := strings.CutPrefix(line, "    "); is && !fenced && line[0] != ' ' {
			line, _, _ = strings.Cut(line, " #")
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

// Each command line of the README is run as written by a test.
func TestReadmeLinesAreRun(t *testing.T) {
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	by := map[string]string{ // by how they begin
		"./duewheel ": "TestReadmeAsWritten", "go run ./cmd/duewheel demo": "TestDemoEndsByItself",
		"go build ": "integration/clients TestLinesOfReadme", "echo value | kcat ": "the same", "kafka-topics.sh ": "integration TestReadmeAsOneScript",
	}
	lines := readmeLines(t)
	for _, line := range lines {
		if target, is := strings.CutPrefix(line, "make "); is { // as CI does
			if !strings.Contains(string(makefile), "\n"+target+": ") {
				t.Errorf("nothing is made by %s", line)
			}
			continue
		}
		test := ""
		for begin, of := range by {
			if strings.HasPrefix(line, begin) {
				test = of
			}
		}
		if test == "" {
			t.Errorf("no test runs %q", line)
		}
	}
	if len(lines) != 11 {
		t.Errorf("the README has %d lines: %q", len(lines), lines)
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

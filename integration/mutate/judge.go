package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"
)

// The verdicts on a mutant. Only red is good.
const (
	red       = "red"
	green     = "GREEN"
	late      = "TIMES OUT"
	unapplied = "DOES NOT FIT"
	unbuilt   = "DOES NOT BUILD"
	unknown   = "NO SUCH TEST"
)

type result struct {
	verdict string
	why     string // what was printed
	took    time.Duration
}

// event is a line of go test -json.
type event struct {
	Action, Test, Output string
}

// judge reads what go test -json printed, and gives the verdict on each test. A test is red if it has failed itself, or if the
// process has died while it ran; that another test fails, that nothing can be built, or that the time is over says nothing of
// the rule.
func judge(out []byte, names []string) []result {
	printed, last, died := transcript(out)
	var all []result
	for _, name := range names {
		r := result{why: printed}
		switch action := last[name]; {
		case action == "fail":
			r.verdict = red
		case action == "pass":
			r.verdict = green
		case strings.Contains(printed, "panic: test timed out after"):
			r.verdict = late
		case action == "run" && died:
			r.verdict = red
		case last[""] == "build-fail":
			r.verdict = unbuilt
		default: // it was skipped, or is not there
			r.verdict = unknown
		}
		all = append(all, r)
	}
	return all
}

// transcript is what was printed, the last that is known of each test, and whether the package has failed. The test without a
// name is the build.
func transcript(out []byte) (printed string, last map[string]string, died bool) {
	last = make(map[string]string)
	var text strings.Builder
	for line := range bytes.Lines(out) {
		var e event
		if json.Unmarshal(line, &e) != nil {
			text.Write(line) // of go itself
			continue
		}
		text.WriteString(e.Output)
		switch e.Action {
		case "build-fail":
			last[""] = e.Action
		case "run", "pass", "fail", "skip":
			if e.Test != "" {
				last[e.Test] = e.Action
			} else if e.Action == "fail" {
				died = true
			}
		}
	}
	return text.String(), last, died
}

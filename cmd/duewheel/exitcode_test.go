package main

import (
	"slices"
	"strings"
	"testing"
)

// The exit code tells what was found from what could not be asked, in every command.
func TestExitCodes(t *testing.T) {
	_, addr := cluster(t, map[string]int32{"delays": 1})
	config := writeFile(t, "duewheel.yaml", "group: {id: g}\nroutes:\n  - topic: delays\n    targets: {allow: [orders]}\n")
	const nowhere = "127.0.0.1:1"
	for _, c := range []struct {
		args []string
		want int
	}{
		{[]string{"version"}, 0},
		{[]string{"ls", "-c", config, "-b", addr}, 0},
		{[]string{"topics", "check", "-c", config, "-b", addr}, 1}, // there is no dead letter topic
		{[]string{"get", "0-7-1", "-c", config, "-b", addr}, 1},
		{[]string{"topics", "check", "-b", addr}, 2},
		{[]string{"topics", "check", "-c", config, "--nothing"}, 2},
		{[]string{"topics", "check", "-c", "nothing.yaml"}, 2},
		{[]string{"topics", "check", "-c", config, "-b", nowhere}, 2},
		{[]string{"explain", "-H", "delay-for=5 minutes"}, 1},
		{[]string{"explain", "--nothing"}, 2},
		{[]string{"nothing"}, 2},
		{[]string{"run", "-c", config, "-X", "lanes=-1"}, 2},
		{[]string{"cancel", "nothing", "-c", config}, 2},
		{[]string{"checkpoints", "reset", "-b", addr}, 2},
	} {
		out, stderr, err := both(t, c.args...)
		if exitCode(err) != c.want {
			t.Errorf("%v: exit code %d (%v), want %d; printed %q and %q", c.args, exitCode(err), err, c.want, out, stderr)
		}
		if slices.Contains(c.args, nowhere) && (err == nil || !strings.Contains(err.Error(), nowhere)) {
			t.Errorf("%v: it did not come to ask a broker: %v", c.args, err)
		}
	}
}

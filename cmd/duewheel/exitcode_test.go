package main

import "testing"

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
		{[]string{"topics", "check", "-c", config, "-b", nowhere, "-X", "kafka.dial_timeout=100ms"}, 2},
		{[]string{"nothing"}, 2},
		{[]string{"run", "-c", config, "-X", "lanes=-1"}, 2},
		{[]string{"cancel", "nothing", "-c", config}, 2},
		{[]string{"checkpoints", "reset", "-b", addr}, 2},
	} {
		if out, stderr, err := both(t, c.args...); exitCode(err) != c.want {
			t.Errorf("%v: exit code %d (%v), want %d; printed %q and %q", c.args, exitCode(err), err, c.want, out, stderr)
		}
	}
}

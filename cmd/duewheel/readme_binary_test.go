//go:build unix

package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The README's commands do what it says as a shell runs them in an empty directory, with its file as it is: but for where the broker is, which the
// environment says. It is so in the C locale, too, where bars are of ASCII, and in one of another language; and nothing is left there but what the README names.
func TestReadmeInAnEmptyDirectory(t *testing.T) {
	b, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(b), "```yaml\n")
	yaml, rest, found := strings.Cut(rest, "```\n")
	var script []string
	for line := range strings.Lines(rest) {
		if line, is := strings.CutPrefix(line, "    ./duewheel "); is {
			script = append(script, "./duewheel "+strings.TrimSpace(line))
		}
	}
	if !found || len(script) < 6 {
		t.Fatalf("the README has %d commands", len(script))
	}
	for locale, bar := range map[string]string{"C": "# orders 1", "de_DE.UTF-8": "█ orders 1"} {
		t.Run(locale, func(t *testing.T) {
			_, addr := cluster(t, map[string]int32{"orders": 1})
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "duewheel.yaml"), []byte(yaml), 0o644); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(os.Args[0], filepath.Join(dir, "duewheel")); err != nil {
				t.Fatal(err)
			}
			shell := func(lines ...string) string {
				t.Helper()
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				cmd := exec.CommandContext(ctx, "sh", "-e", "-c", strings.Join(lines, "\n"))
				cmd.Dir = dir
				cmd.Env = append(os.Environ(), "LC_ALL="+locale, "DUEWHEEL_KAFKA_BROKERS="+addr, "DUEWHEEL_ADMIN_LISTEN=127.0.0.1:0")
				out, err := cmd.CombinedOutput()
				if err != nil {
					t.Errorf("%v: %v", lines, err)
				}
				return string(out)
			}
			said := ""
			for _, line := range script {
				line, _, _ = strings.Cut(line, " #")
				switch {
				case strings.HasSuffix(line, " &"): // what it logs goes elsewhere, or the shell's end is not seen
					pid := strings.TrimSpace(shell(strings.TrimSuffix(line, " &")+" >run.log 2>&1 &", "echo $!"))
					defer end(t, dir, pid)
				case strings.Contains(line, " agenda "):
					if r := fetch(t, addr, "orders", 1)[0]; string(r.Key) != "key" || string(r.Value) != "value" {
						t.Errorf("delivered is %s=%s", r.Key, r.Value)
					}
					await(t, func() string { // the checkpoint follows
						said = shell(line)
						return map[bool]string{false: said}[strings.Contains(said, bar)]
					})
				default:
					said += shell(line)
				}
			}
			if said += shell("./duewheel ls -c duewheel.yaml"); !strings.HasSuffix(said, "nothing is pending\n") {
				t.Errorf("in the end it says\n%s", said)
			}
			for _, r := range said {
				if locale == "C" && r > '~' {
					t.Errorf("%q is no ASCII:\n%s", r, said)
				}
			}
			var left []string
			all, err := os.ReadDir(dir)
			for _, f := range all {
				left = append(left, f.Name())
			}
			if want := []string{"duewheel", "duewheel-state", "duewheel.yaml", "run.log"}; err != nil || !slices.Equal(left, want) {
				t.Errorf("left there are %v, want %v", left, want)
			}
		})
	}
}

// end ends what a shell has left running.
func end(t *testing.T, dir, pid string) {
	t.Helper()
	if out, err := exec.Command("kill", "-TERM", pid).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
		return
	}
	await(t, func() string {
		log, _ := os.ReadFile(filepath.Join(dir, "run.log"))
		return map[bool]string{false: string(log)}[strings.Contains(string(log), "msg=stopped")]
	})
}

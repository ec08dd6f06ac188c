package main

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// holdsDemoDir has a test of this program make the directory of a demo, say so, and wait to be killed.
const holdsDemoDir = "DUEWHEEL_TEST_HOLDS_DEMO_DIR"

// What a demo leaves behind that was killed with kill -9 the next one removes, and nothing else: not what a demo has that runs, nor what is
// another program's.
func TestDemoSweepsWhatWasKilled(t *testing.T) {
	if os.Getenv(holdsDemoDir) != "" {
		dir, err := newDemoDir()
		if err != nil {
			t.Fatal(err)
		}
		os.Stdout.WriteString(dir.path + "\n")
		select {}
	}
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	hold := func() (path string, kill func()) {
		cmd := exec.Command(os.Args[0], "-test.run=^TestDemoSweepsWhatWasKilled$")
		cmd.Env = append(os.Environ(), holdsDemoDir+"=1", asProgram+"=")
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		if !lines.Scan() {
			t.Fatal("it has made no directory")
		}
		end := func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }
		t.Cleanup(end)
		return lines.Text(), end
	}
	killed, kill := hold()
	running, _ := hold()
	if err := os.WriteFile(filepath.Join(killed, "store"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	kill()
	old, young, full := filepath.Join(temp, "duewheel-demo-old"), filepath.Join(temp, "duewheel-demo-young"), filepath.Join(temp, "duewheel-demo-full")
	for _, dir := range []string{old, young, full, filepath.Join(full, "of users")} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{old, full} {
		if err := os.Chtimes(dir, time.Time{}, time.Now().Add(-2*demoEmpty)); err != nil {
			t.Fatal(err)
		}
	}
	dir, err := newDemoDir()
	if err != nil {
		t.Fatal(err)
	}
	for path, stays := range map[string]bool{killed: false, running: true, old: false, young: true, full: true, dir.path: true} {
		if _, err := os.Stat(path); (err == nil) != stays {
			t.Errorf("%s: %v, and it stays: %v", path, err, stays)
		}
	}
	dir.remove()
	if _, err := os.Stat(dir.path); err == nil {
		t.Error("a demo that ends leaves its directory")
	}
}

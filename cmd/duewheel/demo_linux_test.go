package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// A terminal that is closed ends the demo. What reads one that is closed on other systems was not tried.
func TestDemoEndsWithItsTerminal(t *testing.T) {
	x := onTerminal(t)
	x.seen.await(t, `WHAT COMES`)
	_ = x.tty.Close()
	_ = x.master.Close()
	x.ended(t)
}

// A replica that ends without being told to is a failure of the demo, which says so and ends with exit code 1. It is found in /proc.
func TestDemoFailsWithAReplica(t *testing.T) {
	var out, log heard
	cmd := exec.Command(os.Args[0], "demo")
	cmd.Stdout, cmd.Stderr = &out, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	out.await(t, `\n +\d+s  asked \d+`)
	pid := cmd.Process.Pid
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	children, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, path := range children {
		more, _ := os.ReadFile(path)
		b = append(b, more...)
	}
	if err != nil || len(strings.Fields(string(b))) == 0 {
		t.Fatalf("no replica was found: %v", err)
	}
	child, err := strconv.Atoi(strings.Fields(string(b))[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(child, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	err = cmd.Wait()
	if cmd.ProcessState.ExitCode() != 1 || !regexp.MustCompile(`duewheel: replica [ab] has ended by itself: signal: killed`).MatchString(log.String()) {
		t.Errorf("it ended with %v\n%s\n%s", err, &out, &log)
	}
}

//go:build unix

package main

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
)

// ofItsOwn starts a processor as a process of its own, below a shell if there is a first line for one.
func ofItsOwn(t *testing.T, addr, shell string) (*exec.Cmd, *heard) {
	t.Helper()
	args := []string{"run", "-b", addr, "-g", "g", "-X", "routes[0].topic=delays", "-X", "routes[0].targets.allow=orders",
		"-X", "state.dir=" + filepath.Join(t.TempDir(), "state"), "-X", "admin.listen=off"}
	cmd := exec.Command("/bin/sh", append([]string{"-c", shell + `exec "$0" "$@"`, os.Args[0]}, args...)...)
	log := &heard{}
	cmd.Stdout, cmd.Stderr = io.Discard, log
	heard := make(chan os.Signal, 1)
	signal.Notify(heard, syscall.SIGHUP) // tests may run below nohup themselves: what is ignored here is so in what is started, and what is handled is not
	defer signal.Stop(heard)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stuck := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
	t.Cleanup(func() {
		stuck.Stop()
		_ = cmd.Process.Kill()
	})
	log.await(t, "msg=starting", "partition is live")
	return cmd, log
}

// Ctrl-C is for the demo, and not for what keeps its terminal, also while that begins.
func TestKeeperIsNotInTheForeground(t *testing.T) {
	master, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	defer tty.Close()
	k, err := startKeeper(tty)
	if err != nil {
		t.Fatal(err)
	}
	if group, err := syscall.Getpgid(k.cmd.Process.Pid); err != nil || group == syscall.Getpgrp() {
		t.Errorf("it is in process group %d, %v, as this process is", group, err)
	}
	if err := k.dismiss(); err != nil {
		t.Error(err)
	}
}

// A terminal that is closed, or a supervisor that says SIGHUP, ends a process in order. Below nohup it goes on.
func TestHangUp(t *testing.T) {
	_, addr := cluster(t, map[string]int32{"delays": 1, "orders": 1})
	for _, test := range []struct {
		name, shell string
		signals     []os.Signal
		ends        string
	}{
		{"SIGHUP", "", []os.Signal{syscall.SIGHUP}, "signal hangup"},
		{"below nohup", "trap '' HUP; ", []os.Signal{syscall.SIGHUP, syscall.SIGTERM}, "signal terminated"}, // of two within a second the first counts
	} {
		t.Run(test.name, func(t *testing.T) {
			cmd, log := ofItsOwn(t, addr, test.shell)
			for _, s := range test.signals {
				if err := cmd.Process.Signal(s); err != nil {
					t.Fatal(err)
				}
			}
			if err := cmd.Wait(); err != nil {
				t.Errorf("it ended with %v", err)
			}
			if said := log.String(); !strings.Contains(said, `msg=stopping why="`+test.ends+`"`) || !strings.Contains(said, `msg=stopped why="`+test.ends+`"`) {
				t.Errorf("it was not ended by %s, in order:\n%s", test.ends, said)
			}
		})
	}
}

// What is pending is for no other user to read: directories that are made are for this one alone, those that are there stay as they are.
func TestStateDirIsPrivate(t *testing.T) {
	_, addr := cluster(t, map[string]int32{"delays": 1, "orders": 1})
	root := t.TempDir()
	shared := filepath.Join(root, "shared")
	usual := filepath.Join(root, "usual")
	if err := errors.Join(os.Mkdir(usual, 0o755), os.Mkdir(shared, 0o750), os.Chmod(shared, 0o750)); err != nil {
		t.Fatal(err)
	}
	mode := func(path string) os.FileMode {
		t.Helper()
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return info.Mode().Perm()
	}
	for dir, want := range map[string]map[string]os.FileMode{
		filepath.Join(root, "above", "made"): {"..": mode(usual), ".": 0o700, "0": 0o700},
		shared:                               {".": 0o750, "0": 0o700},
	} {
		stop, log := start(t, addr, dir)
		log.await(t, "partition is live")
		for name, want := range want {
			if got := mode(filepath.Join(dir, name)); got != want {
				t.Errorf("%s of %s: %o, want %o", name, dir, got, want)
			}
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	}
}

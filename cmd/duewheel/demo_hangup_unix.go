//go:build unix

package main

import (
	"os"
	"os/exec"
	"os/signal"
	"syscall"
)

// hangUps are the signals by which a terminal says that it is closed, or a person that the demo is to end; main heeds SIGHUP, and others, too.
var hangUps = []os.Signal{syscall.SIGHUP, syscall.SIGQUIT}

// unheard keeps a process out of the foreground: what a terminal says by Ctrl-C is for this one, also while that one does not ignore it yet.
func unheard(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// inBackground lets a process that is not in the foreground set the terminal.
func inBackground() {
	signal.Ignore(syscall.SIGTTOU, syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM)
}

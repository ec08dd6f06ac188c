//go:build unix

package main

import (
	"os"
	"os/signal"
	"syscall"
)

// hangUps are the signals by which a terminal says that it is closed, or a person that the demo is to end; main heeds SIGHUP, and others, too.
var hangUps = []os.Signal{syscall.SIGHUP, syscall.SIGQUIT}

// inBackground lets a process that is not in the foreground set the terminal.
func inBackground() {
	signal.Ignore(syscall.SIGTTOU, syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM)
}

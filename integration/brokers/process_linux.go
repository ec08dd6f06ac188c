package brokers

import "syscall"

// childAttr puts a child into a process group of its own, so that an interrupt at the terminal reaches only us, and has the
// kernel kill it when we die.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

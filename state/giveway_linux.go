package state

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// niceness is how far compactions stand back behind what else the process does: they get a ninth of what another thread gets that wants the same CPU.
const niceness = 10

// giveWay has a goroutine stand back behind all others, until it ends: its thread gets a lower priority, and ends with it.
func giveWay() {
	runtime.LockOSThread()
	if raw, err := unix.Getpriority(unix.PRIO_PROCESS, unix.Gettid()); err == nil {
		was := 20 - raw                                                      // as the system call gives it
		_ = unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), was+niceness) // 19 at most; without it, it is as fast as before
	}
}

package brokers

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"
)

// childAttr puts a child into a process group of its own, so that an interrupt at the terminal reaches only us, and has the
// kernel kill it when we die.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// clockTick is the unit of times in /proc/pid/stat: USER_HZ, which is 100 on every architecture that Go knows (proc(5)).
const clockTick = time.Second / 100

// cpu is what the process has used so far, in user and system mode. It is 0 when it has ended.
func (p *process) cpu() time.Duration {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	// The second field is the name in parentheses, which may have spaces; those at 14 and 15 are the times.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	user, _ := strconv.ParseInt(string(fields[11]), 10, 64)
	system, _ := strconv.ParseInt(string(fields[12]), 10, 64)
	return time.Duration(user+system) * clockTick
}

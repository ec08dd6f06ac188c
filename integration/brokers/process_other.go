//go:build !linux

package brokers

import (
	"syscall"
	"time"
)

// childAttr puts a child into a process group of its own. Only Linux can tie its life to ours; elsewhere a killed test
// process may leave a broker behind.
func childAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// cpu is not known.
func (p *process) cpu() time.Duration { return 0 }

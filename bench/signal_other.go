//go:build !unix

package bench

import (
	"errors"
	"os"
	"os/exec"
	"time"
)

// errUnix is what failover cases need.
var errUnix = errors.New("bench: a process cannot be stopped and ended in order on this system")

func detach(*exec.Cmd) {}

func terminate(*os.Process) error { return errUnix }

func freeze(*os.Process) error { return errUnix }

func thaw(*os.Process) error { return errUnix }

func cpuTime() time.Duration { return 0 }
